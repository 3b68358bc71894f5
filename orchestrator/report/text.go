package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
)

// TextOptions configure a text report.
type TextOptions struct {
	Color   bool // for a terminal; never set it for a file
	Width   int  // of the terminal, in characters; 0: 80
	Verbose bool // also quiet connections, all findings and all metrics
}

// Limits of a report that is not verbose. The rest is in files.
const (
	maxConnections = 16
	maxEvents      = 20
	maxFindings    = 10
	maxWarnings    = 5
	maxMetrics     = 8
	maxPacketIDs   = 6
	maxReasons     = 6
)

// Text writes the summary of r for a terminal: the verdict, the connections, the events, the findings with the packets
// around them, the main latencies, and commands that show more.
func Text(w io.Writer, r *Report, o TextOptions) error {
	p := newPrinter(w, o)
	t := textReport{printer: p, Report: r, verbose: o.Verbose}
	t.head()
	t.connections()
	t.tables()
	t.events()
	t.stories()
	t.trims()
	t.judged()
	t.remarks()
	t.metrics()
	t.notes()
	t.whereTo()
	return p.Flush()
}

type textReport struct {
	*printer
	*Report
	verbose bool
}

// limit returns how many of n things to show.
func (t *textReport) limit(n, most int) int {
	if t.verbose {
		return n
	}
	return min(n, most)
}

func verdictStyle(v analyzers.Verdict) style {
	switch v {
	case analyzers.Pass:
		return boldGreen
	case analyzers.Fail:
		return boldRed
	case analyzers.Invalid:
	}
	return boldYellow
}

const headIndent = 9 // width of "INVALID  "

func (t *textReport) verdict() {
	t.labelled(0, headIndent, cell{t.word(), verdictStyle(t.Verdict)}, testName(t.Report), bold)
}

// word returns the headline: the verdict in capitals, or the reason that there is none.
func (r *Report) word() string {
	switch {
	case r.Refused != "":
		return "REFUSED"
	case r.NotRun != "":
		return "NOT RUN"
	case r.Broken, r.Wrong != "":
		return "ERROR"
	}
	return verdictWord(r.Verdict)
}

func verdictWord(v analyzers.Verdict) string {
	return clean(strings.ToUpper(string(cmp.Or(v, "unknown"))))
}

func (t *textReport) head() {
	t.verdict()
	t.labelled(0, headIndent, cell{}, strings.Join(t.about(), ", "), plain)
	shown := t.limit(len(t.Reasons), maxReasons)
	for _, reason := range t.Reasons[:shown] {
		for i, line := range cleanLines(reason) {
			label := cell{}
			if i == 0 {
				label = cell{"      -", dim}
			}
			t.labelled(0, headIndent, label, line, plain)
		}
	}
	t.more(headIndent, len(t.Reasons)-shown, "reason", "")
}

// about returns the details after the name: repetition, seed, testbed, size, or the reason that there is no run.
func (t *textReport) about() []string {
	var about []string
	if why := t.unrun(); why != "" {
		return []string{why}
	}
	if t.Broken {
		about = append(about, "a component failed, nothing was judged")
	}
	if t.Repeat > 0 {
		about = append(about, fmt.Sprintf("repeat %d", t.Repeat))
	}
	if t.Testbed != "" {
		about = append(about, "seed "+strconv.FormatUint(t.Seed, 10), "testbed "+t.Testbed)
	}
	if t.Packets > 0 || t.SpanNS > 0 || t.Observation == nil {
		about = append(about, fmt.Sprintf("%s in %s", plural(t.Packets, "packet"), clock.TextNS(t.SpanNS)))
	}
	about = append(about, t.asides()...)
	if t.File != "" && t.File != t.Name {
		about = append(about, t.File)
	}
	for _, f := range t.Metadata {
		about = append(about, f.Name+" "+f.Value)
	}
	return about
}

// asides returns counts that do not change the verdict but must be shown, especially with a pass.
func (r *Report) asides() []string {
	var waived, wanted, warnings int64
	for i := range r.Findings {
		switch f := &r.Findings[i]; {
		case f.Severity == analyzers.Violation && f.Waiver != "":
			waived++
		case f.Severity == analyzers.Violation && f.Wanted:
			wanted++
		case f.Severity == analyzers.Warning:
			warnings++
		}
	}
	var asides []string
	if waived > 0 {
		asides = append(asides, plural(waived, "violation")+" waived")
	}
	if wanted > 0 {
		asides = append(asides, plural(wanted, "violation")+" expected")
	}
	if warnings > 0 {
		asides = append(asides, plural(warnings, "warning"))
	}
	if n := int64(len(r.Unjudged)); n > 0 {
		asides = append(asides, plural(n, "expectation")+" of time reported only")
	}
	return asides
}

// more prints the number of hidden things and where to find them.
func (t *textReport) more(indent, n int, noun, where string) {
	if n <= 0 {
		return
	}
	text := "and " + moreOf(n, noun)
	if where != "" {
		text += ": " + where
	}
	t.labelled(indent, 0, cell{}, text, dim)
}

func (t *textReport) connections() {
	if len(t.Connections) == 0 {
		return
	}
	shown, hidden := t.tellingOf(maxConnections)
	t.section("Connections")
	same := sameTraffic(shown)
	if same {
		t.labelled(2, 0, cell{}, shown[0].Traffic, plain)
	}
	tab := connectionTable(shown, same, t.width-2)
	t.table(2, &tab)
	if t.verbose {
		for _, c := range shown {
			t.labelled(2, 8, cell{fmt.Sprintf("qpn %d", c.Index), dim}, c.Requester+" -> "+c.Responder, plain)
		}
	}
	if len(hidden) > 0 {
		t.labelled(2, 0, cell{}, hiddenConnections(hidden), dim)
	}
}

// sameTraffic reports whether all connections carry the same traffic, which is then printed only once.
func sameTraffic(connections []*Connection) bool {
	for _, c := range connections {
		if c.Traffic == "" || c.Traffic != connections[0].Traffic {
			return false
		}
	}
	return true
}

// connectionTable has a row for each connection. If it is wider than width, columns of zeros are dropped.
func connectionTable(connections []*Connection, same bool, width int) table {
	columns := []struct {
		column
		dispensable bool
		cell        func(*Connection) cell
	}{
		{column{"qpn", true}, false, func(c *Connection) cell { return cell{strconv.Itoa(c.Index), bold} }},
		{column{"traffic", false}, same, func(c *Connection) cell { return cell{c.Traffic, plain} }},
		{column{"data", true}, false, func(c *Connection) cell { return count(c.Data, plain) }},
		{column{"resent", true}, false, func(c *Connection) cell { return count(c.Resent, yellow) }},
		{column{"rounds", true}, false, func(c *Connection) cell { return count(c.Rounds, plain) }},
		{column{"ack", true}, false, func(c *Connection) cell { return count(c.Acks, plain) }},
		{column{"nak", true}, false, func(c *Connection) cell { return count(c.Naks, yellow) }},
		{column{"rnr", true}, true, func(c *Connection) cell { return count(c.RNRs, yellow) }},
		{column{"cnp", true}, true, func(c *Connection) cell { return count(c.CNPs, yellow) }},
		{column{"timeouts", true}, true, func(c *Connection) cell { return count(c.Timeouts, yellow) }},
		{column{"events", true}, true, func(c *Connection) cell { return count(c.Events, plain) }},
		{column{"outcome", false}, false, func(c *Connection) cell { return cell{c.Outcome, outcomeStyle(c)} }},
	}
	build := func(dropZeros bool) table {
		var tab table
		tab.rows = make([][]cell, len(connections))
		for _, col := range columns {
			cells := make([]cell, len(connections))
			for i, c := range connections {
				cells[i] = col.cell(c)
			}
			zero := !slices.ContainsFunc(cells, func(c cell) bool { return c.text != "0" })
			if col.head == "traffic" && same || col.head == "outcome" &&
				!slices.ContainsFunc(cells, func(c cell) bool { return c.text != "" }) || col.dispensable && dropZeros && zero {
				continue
			}
			tab.addColumn(col.column, cells)
		}
		return tab
	}
	tab := build(false)
	if tab.width() > width {
		tab = build(true)
	}
	return tab
}

// count is a cell with a number, in style s unless it is zero.
func count(n int64, s style) cell {
	if n == 0 {
		s = dim
	}
	return cell{strconv.FormatInt(n, 10), s}
}

func outcomeStyle(c *Connection) style {
	if c.OK {
		return green
	}
	return red
}

// quiet reports whether c has nothing to show.
func (c *Connection) quiet() bool {
	return c.OK && c.Resent == 0 && c.Naks == 0 && c.RNRs == 0 && c.CNPs == 0 && c.Timeouts == 0 && c.Events == 0
}

// tellingOf returns the connections to show: all if at most most, otherwise first those that are not quiet.
func (t *textReport) tellingOf(most int) (shown, hidden []*Connection) {
	var loud, quiet []*Connection
	for i := range t.Connections {
		c := &t.Connections[i]
		if c.quiet() {
			quiet = append(quiet, c)
		} else {
			loud = append(loud, c)
		}
	}
	n := t.limit(len(t.Connections), most)
	all := append(loud, quiet...)
	shown, hidden = all[:n], all[n:]
	byIndex := func(a, b *Connection) int { return cmp.Compare(a.Index, b.Index) }
	slices.SortStableFunc(shown, byIndex)
	return shown, hidden
}

func hiddenConnections(hidden []*Connection) string {
	var data, resent, bad int64
	for _, c := range hidden {
		data += c.Data
		resent += c.Resent
		if !c.OK {
			bad++
		}
	}
	text := fmt.Sprintf("and %s: %s, %s resent", moreOf(len(hidden), "connection"), plural(data, "data packet"),
		grouped(resent))
	if bad > 0 {
		return text + fmt.Sprintf(", %s not complete", plural(bad, "connection"))
	}
	return text + ", all complete"
}

// stories prints the fate of each packet that the injector touched, which explains a pass.
func (t *textReport) stories() {
	if len(t.Stories) == 0 {
		return
	}
	t.section(t.storiesTitle())
	shown := t.limit(len(t.Stories), maxEvents)
	for _, line := range t.Stories[:shown] {
		number, story, _ := strings.Cut(oneLine(line), " ")
		t.labelled(2, utf8.RuneCountInString(number)+1, cell{number, plain}, story, plain)
	}
	t.more(2, len(t.Stories)-shown, "packet", "")
}

func (t *textReport) events() {
	if len(t.Events) == 0 {
		return
	}
	t.section("Events")
	ordered := make([]*Event, 0, len(t.Events)) // unfired events first: they decide the verdict
	ordered = append(ordered, t.unfired()...)
	for i := range t.Events {
		if t.Events[i].Hits > 0 {
			ordered = append(ordered, &t.Events[i])
		}
	}
	shown := t.limit(len(ordered), maxEvents)
	if shown == len(ordered) { // nothing is hidden: keep the order of the file
		ordered = ordered[:0]
		for i := range t.Events {
			ordered = append(ordered, &t.Events[i])
		}
	}
	tab := table{columns: []column{{"", false}, {"", false}, {"", false}}}
	for _, e := range ordered[:shown] {
		tab.add(fired(e), cell{e.What, plain}, cell{eventRemark(e), dim})
	}
	t.table(2, &tab)
	t.more(2, len(ordered)-shown, "event", "")
}

func fired(e *Event) cell {
	switch e.Hits {
	case 0:
		return cell{"NEVER FIRED", boldYellow}
	case 1:
		return cell{"fired", green}
	}
	return cell{"fired " + strconv.FormatUint(e.Hits, 10) + " times", green}
}

func eventRemark(e *Event) string {
	if e.Hits > 0 || e.Why == "" {
		return e.Where
	}
	return e.Why + " (" + e.Where + ")"
}

func (t *textReport) metrics() {
	d := latencies
	if t.verbose {
		d = everything
	}
	all := tellingMetrics(t.Metrics, d)
	if len(all) == 0 {
		return
	}
	where, scope := "Latencies seen at the "+oneLine(t.observer()), t.flowWord()
	if len(t.Tables) > 0 {
		where = "Latencies"
	}
	t.section(where)
	tab := table{columns: []column{
		{"", false}, {scope, true}, {"count", true}, {"min", true}, {"median", true}, {"p99", true}, {"max", true},
	}}
	shown := t.limit(len(all), maxMetrics)
	for _, m := range all[:shown] {
		tab.add(cell{m.Analyzer() + ": " + metricTitle(m), plain}, cell{metricScope(m), plain}, cell{grouped(m.Count), plain},
			cell{quantity(m.Min, m.Unit), plain}, cell{quantity(m.P50, m.Unit), bold}, cell{quantity(m.P99, m.Unit), plain},
			cell{quantity(m.Max, m.Unit), plain})
	}
	t.table(2, &tab)
	t.more(2, len(all)-shown, "line", "--verbose shows all")
	if t.MetricsNote != "" {
		t.labelled(2, 2, cell{"-", dim}, t.MetricsNote, plain)
	}
}

func metricScope(m *analyzers.Metric) string {
	if m.Connection == 0 {
		return "all"
	}
	return strconv.Itoa(m.Connection)
}

type metricDetail int

const (
	latencies  metricDetail = iota // over all connections, if measured so
	allUnits                       // also units other than time
	everything                     // also each connection's
)

// tellingMetrics returns the metrics that were measured and belong to detail d.
func tellingMetrics(metrics []analyzers.Metric, d metricDetail) []*analyzers.Metric {
	overall := map[string]bool{}
	for i := range metrics {
		if m := &metrics[i]; m.Connection == 0 && m.Count > 0 {
			overall[m.Name] = true
		}
	}
	var telling []*analyzers.Metric
	for i := range metrics {
		m := &metrics[i]
		repeated := m.Connection != 0 && overall[m.Name]
		if m.Count == 0 || d == latencies && m.Unit != analyzers.UnitNS || d != everything && repeated {
			continue
		}
		telling = append(telling, m)
	}
	return telling
}

func (t *textReport) notes() {
	if len(t.Notes)+len(t.Unjudged) == 0 && (!t.verbose || len(t.Facts) == 0) {
		return
	}
	t.section("About this trace")
	for _, note := range slices.Concat(t.Notes, t.Unjudged) {
		t.labelled(2, 2, cell{"-", dim}, note, plain)
	}
	if !t.verbose {
		return
	}
	tab := table{columns: []column{{"", false}, {"", false}}}
	for _, f := range t.Facts {
		tab.add(cell{f.Name, dim}, cell{f.Value, plain})
	}
	if len(tab.rows) > 0 {
		t.table(2, &tab)
	}
}

func (t *textReport) whereTo() {
	t.steps()
	t.repeatVerdict()
}

// steps prints the run directory and the commands that show more.
func (t *textReport) steps() {
	if t.Dir == "" && len(t.Next) == 0 {
		return
	}
	t.newline()
	if t.Dir != "" {
		t.labelled(0, 7, cell{"files", dim}, t.Dir, bold)
	}
	label := cell{"next", dim}
	for _, command := range t.Next {
		t.command(label, command)
		label = cell{}
	}
}

// longReport is the number of lines from which the head of a report scrolls off a terminal.
const longReport = 45

// repeatVerdict repeats the verdict at the end of a long report, where the reader looks first.
func (t *textReport) repeatVerdict() {
	if t.lines >= longReport {
		t.newline()
		t.verdict()
	}
}
