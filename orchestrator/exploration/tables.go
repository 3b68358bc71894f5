package exploration

import (
	"strconv"

	"candela.dev/candela/orchestrator/report"
)

// Tables returns what an exploration came to for a page.
func (r *Report) Tables() []report.Table {
	numbers := report.Table{Title: "Exploration", Columns: []report.Column{{Head: "runs", Right: true},
		{Head: "tests in the corpus", Right: true}, {Head: "transitions covered", Right: true},
		{Head: "reachable", Right: true}, {Head: "declared", Right: true}, {Head: "rules violated", Right: true}},
		Rows: []report.Row{{Cells: []string{strconv.Itoa(r.Runs), strconv.Itoa(r.Corpus), strconv.Itoa(r.Covered),
			strconv.Itoa(r.Reachable), strconv.Itoa(r.Declared), strconv.Itoa(len(r.Rules))}, Loud: len(r.Rules) > 0}}}
	missing := report.Table{Title: "Transitions not yet taken", Columns: []report.Column{{Head: "transition"}},
		Note: "They need more runs, or another base test: the next call goes on from the corpus."}
	for _, name := range r.Missing {
		missing.Rows = append(missing.Rows, report.Row{Cells: []string{name}})
	}
	blocked := report.Table{Title: "Transitions out of reach", Columns: []report.Column{{Head: "transitions", Right: true},
		{Head: "reason"}, {Head: "needs"}}}
	for i := range r.Blocked {
		b := &r.Blocked[i]
		blocked.Rows = append(blocked.Rows, report.Row{Cells: []string{strconv.Itoa(len(b.Names)), b.Reason, b.Needs}})
	}
	return report.Filled(numbers, missing, blocked)
}
