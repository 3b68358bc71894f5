package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"candela.dev/candela/analyzers"
)

// judged prints the violations: those that count in full, excused ones in one line each.
func (t *textReport) judged() {
	failing := t.grouped(t.violations())
	excused := t.findings(func(f *Finding) bool { return f.Severity == analyzers.Violation && !f.counts() })
	if len(failing)+len(excused) == 0 {
		return
	}
	t.section("Findings")
	shown, hidden := pick(failing, t.limit(len(failing), maxFindings))
	for i, g := range shown {
		if i > 0 {
			t.newline()
		}
		t.finding(g)
	}
	if len(hidden) > 0 {
		t.newline()
		rest := flat(hidden)
		t.more(2, len(rest), "finding", ruleCounts(rest)+"; "+t.seeAnalysis(rest))
	}
	t.brief(excused)
}

// A group holds the findings of one rule and cause on all connections, in report order.
type group []*Finding

// groups joins findings of one rule, cause and severity. Findings of older documents have no cause and are not joined.
func groups(findings []*Finding) []group {
	type kind struct {
		rule, cause, waiver string
		severity            analyzers.Severity
		wanted              bool
	}
	var list []group
	at := map[kind]int{}
	for _, f := range findings {
		k := kind{f.Rule, f.Cause, f.Waiver, f.Severity, f.Wanted}
		i, ok := at[k]
		if !ok || f.Cause == "" {
			i, at[k] = len(list), len(list)
			list = append(list, nil)
		}
		list[i] = append(list[i], f)
	}
	return list
}

// grouped groups findings, except in a verbose report.
func (t *textReport) grouped(findings []*Finding) []group {
	if !t.verbose {
		return groups(findings)
	}
	list := make([]group, len(findings))
	for i, f := range findings {
		list[i] = group{f}
	}
	return list
}

// flat returns the findings of groups.
func flat(groups []group) []*Finding { return slices.Concat(groups...) }

// headline describes the first finding of a group and counts the others.
func (t *textReport) headline(g group) string {
	text := g[0].Summary()
	if len(g) == 1 {
		return text
	}
	n := map[int]bool{}
	for _, f := range g {
		n[f.Connection] = true
	}
	switch {
	case len(n) == len(g):
		return fmt.Sprintf("%s; first: %s", plural(int64(len(g)), t.connectionWord()), text)
	case len(n) == 1:
		return fmt.Sprintf("%s; first: %s", plural(int64(len(g)), "time"), text)
	}
	return fmt.Sprintf("%s on %s; first: %s", plural(int64(len(g)), "time"), plural(int64(len(n)), t.connectionWord()),
		text)
}

// connectionWord is flowWord in a sentence: "connection" or "flow".
func (t *textReport) connectionWord() string {
	if word := t.flowWord(); word != "qpn" {
		return word
	}
	return "connection"
}

// connectionList lists the first few connections of a group; empty for one connection.
func connectionList(g group) string {
	var list []string
	seen := map[int]bool{}
	for _, f := range g {
		if f.Connection > 0 && !seen[f.Connection] {
			seen[f.Connection] = true
			list = append(list, grouped(int64(f.Connection)))
		}
	}
	if len(list) < 2 {
		return ""
	}
	if more := len(list) - maxPacketIDs; more > 0 {
		list = append(list[:maxPacketIDs], fmt.Sprintf("and %s more", grouped(int64(more))))
	}
	return strings.Join(list, " ")
}

// pick returns n groups to show: the first of each rule, then in order, so that one rule does not hide the others.
func pick(groups []group, n int) (shown, hidden []group) {
	chosen := make([]bool, len(groups))
	seen := map[string]bool{}
	for i, g := range groups {
		if rule := g[0].Rule; n > 0 && !seen[rule] {
			seen[rule], chosen[i] = true, true
			n--
		}
	}
	for i, g := range groups {
		if n > 0 && !chosen[i] {
			chosen[i] = true
			n--
		}
		if chosen[i] {
			shown = append(shown, g)
		} else {
			hidden = append(hidden, g)
		}
	}
	return shown, hidden
}

const findingLabel = 10 // width of the labels: expected, actual …

// Citation returns the clause with its document. A clause that starts with a digit is one of IBTA volume 1.
func (f *Finding) Citation() string {
	if f.Clause != "" && f.Clause[0] >= '0' && f.Clause[0] <= '9' {
		return "IBTA volume 1, " + f.Clause
	}
	return f.Clause
}

// finding prints the first finding of a group: the event, the violated rule, and the packets around it.
func (t *textReport) finding(g group) {
	f := g[0]
	t.labelled(2, 5, cell{"FAIL", boldRed}, t.headline(g), bold)
	label := func(name string) cell { return cell{name, dim} }
	rule := f.Rule
	if f.Headline != "" && f.Message != "" {
		rule += ": " + f.Message
	}
	t.optional(4, label("rule"), rule)
	t.optional(4, label("clause"), f.Citation())
	t.optional(4, label("expected"), f.Expected)
	t.optional(4, label("actual"), f.Actual)
	t.optional(4, label("where"), strings.TrimSpace(t.place(f)))
	t.optional(4, label("on"), prefixed(t.flowWord()+" ", connectionList(g)))
	if len(f.Packets) > 1 {
		t.optional(4, label("packets"), t.packetList(f.Packets))
	}
	t.around(f)
}

// prefixed returns word+text, or "" if text is empty.
func prefixed(word, text string) string {
	if text == "" {
		return ""
	}
	return word + text
}

// place returns the position of f in the trace: connection, time and packet.
func (t *textReport) place(f *Finding) string {
	var b strings.Builder
	if f.Connection > 0 {
		fmt.Fprintf(&b, "  %s %d", t.flowWord(), f.Connection)
	}
	if len(f.Packets) > 0 {
		fmt.Fprintf(&b, "  t=%s  %s %s", t.instant(f.TimeNS), t.packetWord(), t.packetNumber(f.Packets[0]))
	}
	return b.String()
}

func (t *textReport) optional(indent int, label cell, text string) {
	if text != "" {
		t.labelled(indent, findingLabel, label, text, plain)
	}
}

// packetList returns the first few packet numbers.
func (r *Report) packetList(ids []uint64) string {
	var b strings.Builder
	for i, id := range ids {
		if i == maxPacketIDs {
			fmt.Fprintf(&b, " and %s more", grouped(int64(len(ids)-i)))
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(r.packetNumber(id))
	}
	return b.String()
}

// around prints the packets around f on one line if they fit, otherwise one per line.
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

// brief prints findings in one line each: excused violations, warnings, notes.
func (t *textReport) brief(findings []*Finding) {
	all := t.grouped(findings)
	shown := t.limit(len(all), maxWarnings)
	for _, g := range all[:shown] {
		f := g[0]
		word, s := briefWord(f)
		text := f.Rule + t.place(f) + "  " + t.headline(g)
		if f.Headline == "" && f.Message == "" && f.Actual == "" {
			text = f.Rule + t.place(f)
		}
		if f.Waiver != "" {
			text += " (waived: " + f.Waiver + ")"
		}
		t.labelled(2, 9, cell{word, s}, text, plain)
	}
	if hidden := flat(all[shown:]); len(hidden) > 0 {
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

// ruleCounts counts the findings of each rule, sorted by rule.
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

// seeAnalysis returns the names of the files that list findings.
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
