package conformance

import (
	"cmp"
	"fmt"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

// Checks returns the qualification as checks: each rule, then the violations outside the catalogue and the runs that
// did not end. A rule that was not exercised is skipped. The time of a run counts for the first rule that it judges.
func (r *Report) Checks() report.CheckSuite {
	s := report.CheckSuite{Name: "conform " + cmp.Or(r.Device, r.Profile), Took: r.Took, Facts: []report.Fact{
		{Name: "subject", Value: r.subject()}, {Name: "tool", Value: r.Version}}}
	timed := make(map[string]bool)
	for i := range r.Results {
		s.Checks = append(s.Checks, r.Results[i].check(timed))
	}
	for i := range r.Outside {
		b := &r.Outside[i]
		s.Checks = append(s.Checks, report.Check{Name: "outside the catalogue: " + b.Judge, Verdict: analyzers.Fail,
			Kind: b.Judge, Message: b.line(), Text: b.line() + "\nrun " + b.Run})
	}
	for _, b := range r.Broken {
		s.Checks = append(s.Checks, report.Check{Name: "run " + b.Run, Verdict: analyzers.Invalid, Kind: "broken",
			Message: b.Reason})
	}
	return s
}

// check returns a rule as a check. timed are the tests whose time counts for another rule.
func (r *Result) check(timed map[string]bool) report.Check {
	c := report.Check{Name: r.ID + ": " + r.Statement, Verdict: analyzers.Pass}
	if run := r.run(); !timed[run] {
		timed[run], c.Took = true, r.Took
	}
	switch r.Status {
	case Pass:
	case NotExercised:
		c.Skipped = cmp.Or(r.Reason, "the situation of the rule did not occur")
	case Fail:
		var text strings.Builder
		fmt.Fprintf(&text, "%s\n%s\n", r.clause(), r.Statement)
		r.details(&text, "")
		c.Verdict, c.Kind, c.Text = analyzers.Fail, r.ID, text.String()
		c.Message = r.Statement
		if len(r.Breaches) > 0 {
			c.Kind, c.Message = r.Breaches[0].Judge, r.Breaches[0].line()
		}
	}
	return c
}
