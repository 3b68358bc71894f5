package report

import (
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
)

// Entry is the line of a report in an index of many.
type Entry struct {
	Name  string `json:"name"`
	Word  string `json:"word"`  // PASS, FAIL, INVALID, ERROR, REFUSED or NOT RUN
	Class string `json:"class"` // pass, fail or invalid
	// Metadata is the metadata of the test, each as "name value".
	Metadata []string       `json:"metadata,omitempty"`
	File     string         `json:"file,omitempty"`
	Testbed  string         `json:"testbed,omitempty"`
	Seed     string         `json:"seed,omitempty"`
	Brief    string         `json:"brief,omitempty"` // reason that it does not pass, or other remarks
	Packets  string         `json:"packets,omitempty"`
	Span     string         `json:"span,omitempty"`
	Findings []EntryFinding `json:"findings,omitempty"`
	More     int            `json:"more,omitempty"` // findings not listed
	// Connections lists the connections of all findings, sorted.
	Connections []int    `json:"connections,omitempty"`
	Rules       []string `json:"rules,omitempty"` // of findings of any severity, sorted

	FlowWord string `json:"flow,omitempty"` // "qpn" or "flow"
}

// EntryFinding is a finding in an Entry.
type EntryFinding struct {
	Word       string `json:"word"` // FAIL, waived, expected, warning, note
	Rule       string `json:"rule"`
	Cause      string `json:"cause,omitempty"`
	Text       string `json:"text"`
	Connection int    `json:"connection,omitempty"`
	Anchor     string `json:"anchor"`
}

// maxEntryFindings bounds the findings of one report in an index.
const maxEntryFindings = 30

// Entry returns the line of r in an index.
func (r *Report) Entry() Entry {
	e := Entry{
		Name: testName(r), Word: r.word(), Class: verdictClass(r.Verdict), File: oneLine(r.File),
		Testbed: oneLine(r.Testbed), Brief: oneLine(r.inBrief()), FlowWord: r.flowWord(),
	}
	for _, f := range r.Metadata {
		e.Metadata = append(e.Metadata, oneLine(f.Name+" "+f.Value))
	}
	if r.Testbed != "" {
		e.Seed = strconv.FormatUint(r.Seed, 10)
	}
	if r.Packets > 0 {
		e.Packets, e.Span = grouped(r.Packets), clock.TextNS(r.SpanNS)
	}
	for _, f := range r.ranked() {
		e.Rules = append(e.Rules, oneLine(f.Rule))
		if f.Connection > 0 {
			e.Connections = append(e.Connections, f.Connection)
		}
		if len(e.Findings) == maxEntryFindings {
			e.More++
			continue
		}
		e.Findings = append(e.Findings, EntryFinding{Word: f.word(), Rule: oneLine(f.Rule), Cause: oneLine(f.Cause),
			Text:       oneLine(f.Summary()),
			Connection: f.Connection, Anchor: r.Anchor(f)})
	}
	slices.Sort(e.Rules)
	slices.Sort(e.Connections)
	e.Rules, e.Connections = slices.Compact(e.Rules), slices.Compact(e.Connections)
	return e
}

// ranked returns all findings: violations that count first, notes last.
func (r *Report) ranked() []*Finding {
	all := r.findings(func(*Finding) bool { return true })
	rank := func(f *Finding) int {
		if f.counts() {
			return -1
		}
		return severityRank(f)
	}
	slices.SortStableFunc(all, func(a, b *Finding) int { return rank(a) - rank(b) })
	return all
}

// word returns the class of a finding: FAIL, waived, expected, warning, note.
func (f *Finding) word() string {
	if f.counts() {
		return "FAIL"
	}
	word, _ := briefWord(f)
	return word
}

// FileNames returns the names of the files that the page lists.
func (r *Report) FileNames() []string {
	p := page{Report: r}
	p.files()
	var names []string
	for _, f := range p.Files {
		names = append(names, f.Name)
	}
	return names
}

// Command returns the command that repeats the run or the analysis; empty: unknown.
func (r *Report) Command() string {
	for _, c := range r.Next {
		if strings.Contains(c, " run ") || strings.Contains(c, " analyze ") {
			return c
		}
	}
	return ""
}
