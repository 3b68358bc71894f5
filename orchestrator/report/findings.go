package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"candela.dev/candela/analyzers"
)

// judged prints the violations: those that count in full, those that are excused in one line each.
func (t *textReport) judged() {
	failing := t.violations()
	excused := t.findings(func(f *Finding) bool { return f.Severity == analyzers.Violation && !f.counts() })
	if len(failing)+len(excused) == 0 {
		return
	}
	t.section("Findings")
	shown, hidden := pick(failing, t.limit(len(failing), maxFindings))
	for i, f := range shown {
		if i > 0 {
			t.newline()
		}
		t.finding(f)
	}
	if len(hidden) > 0 {
		t.newline()
		t.more(2, len(hidden), "finding", ruleCounts(hidden)+"; "+t.seeAnalysis(hidden))
	}
	t.brief(excused)
}

// pick chooses n findings to show: the first of each rule, then in order, so that a flood of one rule hides no other.
func pick(findings []*Finding, n int) (shown, hidden []*Finding) {
	chosen := make([]bool, len(findings))
	seen := map[string]bool{}
	for i, f := range findings {
		if n > 0 && !seen[f.Rule] {
			seen[f.Rule], chosen[i] = true, true
			n--
		}
	}
	for i, f := range findings {
		if n > 0 && !chosen[i] {
			chosen[i] = true
			n--
		}
		if chosen[i] {
			shown = append(shown, f)
		} else {
			hidden = append(hidden, f)
		}
	}
	return shown, hidden
}

const findingLabel = 10 // of expected, actual …

// Citation names the document of a clause, too. A bare number is one of the InfiniBand Architecture Specification.
func (f *Finding) Citation() string {
	if f.Clause != "" && f.Clause[0] >= '0' && f.Clause[0] <= '9' {
		return "IBTA volume 1, " + f.Clause
	}
	return f.Clause
}

// finding prints f: what is broken, then what was expected and what came, and the packets around.
func (t *textReport) finding(f *Finding) {
	t.spaces(2)
	t.styled("FAIL", boldRed)
	t.spaces(1)
	t.styled(f.Rule, bold)
	t.styled(t.place(f), plain)
	t.newline()
	label := func(name string) cell { return cell{name, dim} }
	if f.Message != "" {
		t.labelled(4, 0, cell{}, f.Message, plain)
	}
	t.optional(4, label("expected"), f.Expected)
	t.optional(4, label("actual"), f.Actual)
	t.optional(4, label("clause"), f.Citation())
	if len(f.Packets) > 1 {
		t.optional(4, label("packets"), packetList(f.Packets))
	}
	t.around(f)
}

// place says where in the trace f is: connection, time and packet.
func (t *textReport) place(f *Finding) string {
	var b strings.Builder
	if f.Connection > 0 {
		fmt.Fprintf(&b, "  %s %d", t.flowWord(), f.Connection)
	}
	if len(f.Packets) > 0 {
		fmt.Fprintf(&b, "  t=%s  %s %s", t.instant(f.TimeNS), t.packetWord(), packetNumber(f.Packets[0]))
	}
	return b.String()
}

func (t *textReport) optional(indent int, label cell, text string) {
	if text != "" {
		t.labelled(indent, findingLabel, label, text, plain)
	}
}

// packetList names packets by number, the first few.
func packetList(ids []uint64) string {
	var b strings.Builder
	for i, id := range ids {
		if i == maxPacketIDs {
			fmt.Fprintf(&b, " and %s more", grouped(int64(len(ids)-i)))
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(packetNumber(id))
	}
	return b.String()
}

// around prints the packets around f: on one line if they fit, otherwise one below the other.
func (t *textReport) around(f *Finding) {
	if len(f.Around) == 0 {
		return
	}
	lines := make([]string, len(f.Around))
	for i, a := range f.Around {
		lines[i] = oneLine(a)
	}
	label := cell{"around", dim}
	joined := strings.Join(lines, " | ")
	if 4+findingLabel+utf8.RuneCountInString(joined) <= t.width {
		t.labelled(4, findingLabel, label, joined, plain)
		return
	}
	for _, line := range lines {
		t.labelled(4, findingLabel, label, line, plain)
		label = cell{}
	}
}

// brief prints findings in one line each: violations that are excused, warnings, notes.
func (t *textReport) brief(findings []*Finding) {
	shown := t.limit(len(findings), maxWarnings)
	for _, f := range findings[:shown] {
		word, s := briefWord(f)
		text := f.Rule + t.place(f)
		if what := cmp.Or(f.Message, f.Actual); what != "" {
			text += "  " + what
		}
		if f.Waiver != "" {
			text += " (waived: " + f.Waiver + ")"
		}
		t.labelled(2, 9, cell{word, s}, text, plain)
	}
	if hidden := findings[shown:]; len(hidden) > 0 {
		t.more(11, len(hidden), "finding", ruleCounts(hidden)+"; "+t.seeAnalysis(hidden))
	}
}

func briefWord(f *Finding) (string, style) {
	switch {
	case f.Waiver != "":
		return "waived", dim
	case f.Wanted:
		return "expected", dim
	case f.Severity == analyzers.Warning:
		return "warning", yellow
	case f.Severity == analyzers.Note:
		return "note", dim
	}
	return string(f.Severity), plain
}

// ruleCounts says how often each rule stands among findings, in the order of the rules' names.
func ruleCounts(findings []*Finding) string {
	n := map[string]int64{}
	var rules []string
	for _, f := range findings {
		if n[f.Rule] == 0 {
			rules = append(rules, f.Rule)
		}
		n[f.Rule]++
	}
	slices.Sort(rules)
	for i, rule := range rules {
		rules[i] = fmt.Sprintf("%s of %s", grouped(n[rule]), rule)
	}
	return strings.Join(rules, ", ")
}

// seeAnalysis names the files that list findings.
func (t *textReport) seeAnalysis(findings []*Finding) string {
	var names []string
	for _, f := range findings {
		if !slices.Contains(names, f.Analyzer) {
			names = append(names, f.Analyzer)
		}
	}
	if t.Dir == "" {
		return "--verbose or --format json lists all"
	}
	for i, name := range names {
		names[i] = filepath.Join(t.Dir, "analysis", name+".json")
	}
	return "see " + strings.Join(names, ", ")
}

func (t *textReport) remarks() {
	warnings := t.findings(func(f *Finding) bool { return f.Severity == analyzers.Warning })
	notes := t.findings(func(f *Finding) bool { return f.Severity == analyzers.Note })
	if len(warnings)+len(notes) == 0 {
		return
	}
	t.section("Warnings and notes")
	t.brief(warnings)
	t.brief(notes)
}
