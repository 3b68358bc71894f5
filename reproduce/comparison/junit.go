package comparison

import (
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

// Checks returns the comparison as checks, one for each value of the paper. Informative values are skipped. The
// duration of an experiment is reported for its first value.
func (r *Results) Checks() report.CheckSuite {
	s := report.CheckSuite{Name: "reproduce " + r.Paper, Took: r.Took,
		Facts: []report.Fact{{Name: "runs", Value: strconv.Itoa(r.Runs)}, {Name: "headline", Value: r.Headline()}}}
	for i := range r.Rows {
		row := &r.Rows[i]
		c := row.cells()
		check := report.Check{Name: row.ID + ": " + row.What, Took: row.Took, Verdict: analyzers.Pass,
			Kind: "out of tolerance"}
		said := "measured " + c.measured + ", the paper has " + c.paper + " (deviation " + c.deviation + ", tolerance " +
			c.tolerance + "); basis: " + string(row.Basis)
		if row.Source != "" {
			said += "; source: " + string(row.Source)
		}
		if row.Why != "" {
			said += " (" + row.Why + ")"
		}
		if row.Note != "" {
			said += "; " + row.Note
		}
		switch {
		case row.Informative:
			check.Skipped = "for information: " + said
		case strings.HasPrefix(row.Note, nothingMeasured):
			check.Verdict, check.Kind, check.Message = analyzers.Fail, nothingMeasured, said
		case !row.Pass:
			check.Verdict, check.Message = analyzers.Fail, said
		}
		s.Checks = append(s.Checks, check)
	}
	return s
}
