package detection

import (
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/orchestrator/report"
)

// Tables returns what a bench measured for a page.
func (r *Report) Tables() []report.Table {
	bugs := report.Table{Title: "Seeded bugs", Columns: []report.Column{{Head: "verdict"}, {Head: "bug"},
		{Head: "profile"}, {Head: "right rule"}, {Head: "rules that fired"}, {Head: "remark"}}}
	for i := range r.Bugs {
		b := &r.Bugs[i]
		remark := b.Why
		if len(b.Sound) > 0 {
			remark = strings.TrimPrefix(remark+"; false alarm without the bug: "+strings.Join(b.Sound, ", "), "; ")
		}
		bugs.Rows = append(bugs.Rows, report.Row{Cells: []string{string(b.Catch), b.Name, b.Profile, b.Rule,
			ruleList(b.Fired), remark}, Loud: b.Catch == Missed || b.Catch == Other || len(b.Sound) > 0})
	}
	silence := report.Table{Title: "Compliant NICs: examples", Columns: []report.Column{{Head: "verdict"}, {Head: "test"},
		{Head: "profile"}, {Head: "rules violated"}, {Head: "rules warned of"}}}
	for i := range r.Silence {
		s := &r.Silence[i]
		verdict := "silent"
		if len(s.Violated) > 0 {
			verdict = "false alarm"
		}
		silence.Rows = append(silence.Rows, report.Row{Cells: []string{verdict, s.Test, s.Profile,
			strings.Join(s.Violated, ", "), strings.Join(s.Warned, ", ")}, Loud: len(s.Violated) > 0})
	}
	alarms := report.Table{Title: "Compliant NICs: random scenarios", Columns: []report.Column{{Head: "scenarios",
		Right: true}, {Head: "events", Right: true}, {Head: "false alarms", Right: true}, {Head: "profile"},
		{Head: "findings"}}}
	if n := r.Scenarios.Scenarios; n > 0 {
		alarms.Rows = append(alarms.Rows, report.Row{Cells: []string{strconv.Itoa(n), strconv.Itoa(r.Scenarios.Events),
			strconv.Itoa(len(r.Scenarios.Alarms)), "", ""}})
	}
	for i := range r.Scenarios.Alarms {
		a := &r.Scenarios.Alarms[i]
		alarms.Rows = append(alarms.Rows, report.Row{Cells: []string{strconv.FormatUint(a.Scenario, 10), "", "", a.Profile,
			strings.Join(slices.Concat(a.Reasons, a.Findings), "; ")}, Loud: true})
	}
	return report.Filled(bugs, silence, alarms)
}
