package comparison

import "candela.dev/candela/orchestrator/report"

// Tables returns the rows as a table of an HTML report.
func (r *Results) Tables() []report.Table {
	t := report.Table{Title: "Measured against " + r.Paper, Note: r.Headline(), Columns: []report.Column{
		{Head: "verdict"}, {Head: "basis"}, {Head: "result"}, {Head: "what"}, {Head: "paper", Right: true},
		{Head: "measured", Right: true},
		{Head: "deviation", Right: true}, {Head: "tolerance", Right: true}, {Head: "remark"},
		{Head: "reason for the basis"}}}
	for i := range r.Rows {
		c := r.Rows[i].cells()
		t.Rows = append(t.Rows, report.Row{Cells: []string{c.verdict, string(c.basis), c.id, r.Rows[i].described(), c.paper,
			c.measured, c.deviation, c.tolerance, c.note, c.why}, Loud: c.verdict == "FAIL"})
	}
	return report.Filled(t)
}
