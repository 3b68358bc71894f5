package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/orchestrator/report"
)

// Tables returns the qualification for a page: the rules, what broke them, and the runs that did not end.
func (r *Report) Tables() []report.Table {
	rules := report.Table{Title: "Rules of the specification", Columns: []report.Column{{Head: "status"}, {Head: "clause"},
		{Head: "rule"}, {Head: "statement"}, {Head: "run"}, {Head: "what happened"}},
		Note: strconv.Itoa(r.Passed) + " passed, " + strconv.Itoa(r.Failed) + " failed, " + strconv.Itoa(r.NotExercised) +
			" not exercised: their situation did not occur"}
	for i := range r.Results {
		res := &r.Results[i]
		said := res.Reason
		if len(res.Breaches) > 0 {
			said = res.Breaches[0].Judge + ": " + res.Breaches[0].Text
		}
		run := filepath.Base(res.Run)
		if res.Run == "" {
			run = ""
		}
		rules.Rows = append(rules.Rows, report.Row{Cells: []string{strings.ToUpper(string(res.Status)), res.Clause, res.ID,
			res.Statement, run, said}, Loud: res.Status == Fail, Run: run})
	}
	slices.SortStableFunc(rules.Rows, func(a, b report.Row) int {
		switch {
		case a.Loud == b.Loud:
			return 0
		case a.Loud:
			return -1
		}
		return 1
	})
	outside := report.Table{Title: "Violations outside the catalogue", Columns: []report.Column{{Head: "rule"},
		{Head: "findings", Right: true}, {Head: "run"}, {Head: "first finding"}}}
	for _, b := range r.Outside {
		outside.Rows = append(outside.Rows, report.Row{
			Cells: []string{b.Judge, strconv.Itoa(b.Count), filepath.Base(b.Run), b.Text},
			Loud:  true, Run: filepath.Base(b.Run)})
	}
	broken := report.Table{Title: "Runs that came to no end", Columns: []report.Column{{Head: "run"}, {Head: "reason"}}}
	for _, b := range r.Broken {
		broken.Rows = append(broken.Rows, report.Row{Cells: []string{b.Run, b.Reason}, Loud: true, Run: b.Run})
	}
	return report.Filled(rules, outside, broken)
}

// RunDirs returns the run directories below out by which the rules were judged, sorted.
func (r *Report) RunDirs(out string) []string {
	var dirs []string
	add := func(run string) {
		dir := filepath.Join(out, filepath.Base(run))
		if info, err := os.Stat(dir); run != "" && err == nil && info.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	for i := range r.Results {
		add(r.Results[i].Run)
		for _, b := range r.Results[i].Breaches {
			add(b.Run)
		}
	}
	for _, b := range r.Outside {
		add(b.Run)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
