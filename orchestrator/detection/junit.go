package detection

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

// Checks returns what was measured as checks: each seeded bug, each example on a compliant NIC, each false alarm of a
// random scenario, and the random scenarios together.
func (r *Report) Checks() []report.CheckSuite {
	bugs := report.CheckSuite{Name: "detect bugs"}
	for i := range r.Bugs {
		bugs.Checks = append(bugs.Checks, r.Bugs[i].check())
	}
	silence := report.CheckSuite{Name: "detect examples"}
	for i := range r.Silence {
		silence.Checks = append(silence.Checks, r.Silence[i].check())
	}
	scenarios := report.CheckSuite{Name: "detect scenarios"}
	if n := r.Scenarios.Scenarios; n > 0 {
		scenarios.Checks = append(scenarios.Checks, r.Scenarios.check())
	}
	for i := range r.Scenarios.Alarms {
		a := &r.Scenarios.Alarms[i]
		said := slices.Concat(a.Reasons, a.Findings)
		scenarios.Checks = append(scenarios.Checks, report.Check{
			Name: fmt.Sprintf("scenario %d on %s", a.Scenario, a.Profile), Verdict: analyzers.Fail, Kind: "false alarm",
			Message: strings.Join(said, "; "), Text: strings.Join(said, "\n") + "\n\n" + a.Config})
	}
	return slices.DeleteFunc([]report.CheckSuite{bugs, silence, scenarios},
		func(s report.CheckSuite) bool { return len(s.Checks) == 0 })
}

// check returns a bug as a check: it passes if the right rule found it and no rule spoke without it.
func (r *BugResult) check() report.Check {
	c := report.Check{Name: "bug " + r.Name + " on " + r.Profile, Took: r.Took, Verdict: analyzers.Pass,
		Kind: string(r.Catch)}
	switch {
	case len(r.Sound) > 0:
		c.Verdict, c.Kind = analyzers.Fail, "false alarm"
		c.Message = "without the bug the test violated " + strings.Join(r.Sound, ", ")
	case r.Catch == Right:
	case r.Catch == Unjudged:
		c.Verdict, c.Message = analyzers.Invalid, r.Why
	case r.Catch == NotApplicable:
		c.Skipped = "not applicable: the profile does the same without the bug, or lacks the counter"
	case r.Catch == Unobservable:
		c.Skipped = r.Why
	default:
		c.Verdict = analyzers.Fail
		c.Message = fmt.Sprintf("%s: the bug violates %s, and what fired was %s", r.Catch, r.Rule, ruleList(r.Fired))
	}
	return c
}

// check returns an example on a compliant NIC as a check: no rule may be violated.
func (r *SilenceResult) check() report.Check {
	c := report.Check{Name: r.Test + " on " + r.Profile, Took: r.Took, Verdict: analyzers.Pass, Kind: "false alarm"}
	if len(r.Violated) > 0 {
		c.Verdict, c.Message = analyzers.Fail, "a compliant NIC violated "+strings.Join(r.Violated, ", ")
		c.Text = strings.Join(append([]string{c.Message}, r.Details...), "\n")
	}
	return c
}

// check returns the random scenarios together as a check.
func (r *ScenarioResult) check() report.Check {
	c := report.Check{Name: fmt.Sprintf("%d random scenarios", r.Scenarios), Took: r.Took, Verdict: analyzers.Pass,
		Kind: "false alarm"}
	if n := len(r.Alarms); n > 0 {
		c.Verdict, c.Message = analyzers.Fail, fmt.Sprintf("false alarms in %d of %d", n, r.Scenarios)
	}
	return c
}
