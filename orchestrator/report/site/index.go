package site

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"candela.dev/candela/orchestrator/report"
)

type indexRun struct {
	report.Entry
	Page  string `json:"page"`
	Group string `json:"group,omitempty"`
	Point string `json:"point,omitempty"` // values set by a sweep
}

// indexPage is the input of the index's template.
type indexPage struct {
	*Site
	Heading  string
	Class    string
	Counts   []count
	Failures []failure
	More     int // failures not listed
	Swept    []*Sweep
	Views    report.Parts
	Total    int
}

type count struct{ Word, Class, Number string }

// failure is a violated rule and cause with the runs that have it.
type failure struct {
	Rule, Text, Href string
	Where            string // of the first run
	Runs, Findings   string
	runs, findings   int
}

// maxFailures bounds the list of violated rules on the index.
const maxFailures = 40

func (w *writer) index() error {
	s := w.site
	data := struct {
		Runs []indexRun `json:"runs"`
	}{Runs: []indexRun{}}
	for i := range s.Runs {
		r := &s.Runs[i]
		line := indexRun{Entry: r.entry, Page: runsDir + "/" + r.file, Group: r.Group}
		if sweep := s.sweepOf(i); sweep != nil {
			line.Point = sweep.given(i)
		}
		data.Runs = append(data.Runs, line)
	}
	page := indexPage{Site: s, Heading: s.title(), Total: len(s.Runs),
		Views: report.NewParts(s.Tables, s.Charts, s.pages())}
	page.Counts, page.Class = counts(s.Runs)
	if loud := slices.ContainsFunc(s.Tables, func(t report.Table) bool {
		return slices.ContainsFunc(t.Rows, func(r report.Row) bool { return r.Loud })
	}); len(s.Runs) == 0 && len(s.Tables) > 0 {
		page.Class = map[bool]string{true: "fail", false: "pass"}[loud]
	}
	page.Failures, page.More = failures(s.Runs)
	for i := range s.Sweeps {
		page.Swept = append(page.Swept, &s.Sweeps[i])
	}
	return errors.Join(w.script("data.js", data), w.page(IndexFile, "index.gohtml", page))
}

// pages returns the addresses of pages by name of run directory.
func (s *Site) pages() map[string]string {
	pages := map[string]string{}
	for i := range s.Runs {
		if r := &s.Runs[i]; r.Dir != "" {
			pages[filepath.Base(r.Dir)] = runsDir + "/" + r.file
		}
	}
	return pages
}

// counts returns the counts of verdicts and the class of the worst.
func counts(runs []Run) ([]count, string) {
	order := []string{"FAIL", "ERROR", "INVALID", "PASS", "REFUSED", "NOT RUN"}
	n, class := map[string]int{}, map[string]string{}
	for i := range runs {
		n[runs[i].entry.Word]++
		class[runs[i].entry.Word] = runs[i].entry.Class
	}
	var list []count
	worst := "pass"
	for _, word := range order {
		if n[word] == 0 {
			continue
		}
		list = append(list, count{word, class[word], report.Grouped(int64(n[word]))})
		if worst == "pass" && word != "REFUSED" && word != "NOT RUN" {
			worst = class[word]
		}
	}
	if len(runs) == 0 {
		worst = "invalid"
	}
	return list, worst
}

// failures groups the violations of all runs by rule, sorted by number of runs.
func failures(runs []Run) (list []failure, more int) {
	byRule := map[string]int{}
	for i := range runs {
		seen := map[int]bool{}
		for _, f := range runs[i].entry.Findings {
			if f.Word != "FAIL" {
				continue
			}
			key := f.Rule + " " + f.Cause
			k, ok := byRule[key]
			if !ok {
				k = len(list)
				byRule[key] = k
				list = append(list, failure{Rule: f.Rule, Text: f.Text, Href: runsDir + "/" + runs[i].file + "#" + f.Anchor,
					Where: runs[i].entry.Name})
			}
			list[k].findings++
			if !seen[k] {
				list[k].runs++
			}
			seen[k] = true
		}
	}
	slices.SortStableFunc(list, func(a, b failure) int { return cmp.Compare(b.runs, a.runs) })
	if len(list) > maxFailures {
		list, more = list[:maxFailures], len(list)-maxFailures
	}
	for i := range list {
		list[i].Runs, list[i].Findings = fmt.Sprint(list[i].runs), fmt.Sprint(list[i].findings)
	}
	return list, more
}
