package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"candela.dev/candela/analyzers"
)

//go:embed page.gohtml
var pageTemplate string

//go:embed parts.gohtml
var partsTemplate string

//go:embed page.css
var pageStyle string

// Bounds of the page, so that a browser can open it for any run.
const (
	pageConnections = 500
	pageEvents      = 500
	pageFindings    = 100
	pageRemarks     = 200
	pageMetrics     = 60
	pageAround      = 40
)

// Style is the style sheet of all pages.
func Style() string { return pageStyle }

// Links connect a page to its site. Addresses are relative to the page.
type Links struct {
	Index    string // the site's first page
	Assets   string // prefix of the names of style sheet and script
	Title    string // of the site
	Up       *Link  // the sweep that the run is a point of
	Previous *Link
	Next     *Link
	Files    string // prefix of the names of the run's files
	HasFiles bool   // the run's files can be reached
}

// Link is a link to another page of a site.
type Link struct{ Href, Text string }

var parsePage = sync.OnceValues(func() (*template.Template, error) {
	return WithParts(template.New("page").Funcs(template.FuncMap{"clean": oneLine})).Parse(pageTemplate)
})

// Parts are tables and charts for other pages, in the format of a report's.
type Parts struct {
	Tables []*tableView
	Charts []chartView
}

// NewParts prepares tables and charts for the templates of [WithParts]. pages maps run directories to addresses.
func NewParts(tables []Table, charts []Chart, pages map[string]string) Parts {
	var p Parts
	for i := range tables {
		v := newTableView(&tables[i])
		for j := range v.Rows {
			v.Hrefs = append(v.Hrefs, pages[v.Rows[j].Run])
		}
		p.Tables = append(p.Tables, v)
	}
	for i := range charts {
		p.Charts = append(p.Charts, newChartView(&charts[i]))
	}
	return p
}

// WithParts adds the templates tables and charts to t, which must have the function clean.
func WithParts(t *template.Template) *template.Template { return template.Must(t.Parse(partsTemplate)) }

// HTML writes r as one self-contained page without scripts. All data from a trace or a bundle passes through
// html/template and clean.
func HTML(w io.Writer, r *Report) error { return SitePage(w, r, nil) }

// SitePage writes r as a page of a site; with nil links the page is self-contained.
func SitePage(w io.Writer, r *Report, links *Links) error {
	t, err := parsePage()
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	p := newPage(r)
	p.join(links)
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write html: %w", err)
	}
	return nil
}

// join adds the links of a site to the page.
func (p *page) join(links *Links) {
	if p.Site = links; links == nil {
		return
	}
	p.Repeated = p.Command()
	for i := range p.Files {
		if links.HasFiles {
			p.Files[i].Href = links.Files + p.Files[i].Name
		}
	}
}

// page is the input of the template. Texts are raw: the template cleans them.
type page struct {
	*Report
	Style template.CSS
	Site  *Links // nil: the page is not part of a site
	// Repeated is the command that repeats the run.
	Repeated string
	Verdict  string // in capitals
	Class    string // pass, fail or invalid
	About    []string

	Connections []pageConnection
	MoreConns   string
	Events      []Event
	MoreEvents  string
	Stories     []string
	MoreStories string
	Trimmed     *trimView
	Failing     []pageFinding
	Remarks     []pageFinding
	MoreFailing string
	MoreRemarks string
	Plots       []plotView
	TableViews  []*tableView
	ChartViews  []chartView
	Ladders     []ladderView
	Metrics     []metricView
	Machines    []machineView
	Reasons     [][]string
	Files       []pageFile

	Observer     string // observation point
	Outcomes     bool   // outcomes of connections are known
	StoriesTitle string
	LadderNote   string
	Remaining    []string // notes of captures that no table shows
	GeneralNotes []string // other notes
}

type pageConnection struct {
	Connection
	Numbers []pageNumber
	Class   string
}

// pageNumber is a number in a table; zeros are dimmed.
type pageNumber struct {
	Value string
	Zero  bool
	Loud  bool
}

type pageFinding struct {
	*Finding
	What    string // headline of the first finding of a group
	Others  []pageOther
	Word    string // FAIL, waived, expected, warning, note
	Class   string
	Place   string
	Packets string

	Anchor  string // "f1"
	Ladder  *ladderView
	Journey *journeyView
	Rows    []packetRow
	Filters []filterView
}

// pageOther is a further finding of a group.
type pageOther struct{ Anchor, Place, What string }

// pageFile is a file in the page's directory.
type pageFile struct{ Name, What, Href string }

func newPage(r *Report) *page {
	t := textReport{Report: r, printer: newPrinter(io.Discard, TextOptions{})}
	p := &page{
		Report: r, Style: template.CSS(pageStyle), Verdict: r.word(), Class: verdictClass(r.Verdict),
		About: t.about(),
	}
	for _, reason := range r.Reasons {
		p.Reasons = append(p.Reasons, cleanLines(reason))
	}
	p.connections()
	p.events()
	p.findings(&t)
	for i := range r.Sequences {
		p.Plots = append(p.Plots, newPlotView(r, &r.Sequences[i]))
	}
	for i := range r.Tables {
		p.TableViews = append(p.TableViews, newTableView(&r.Tables[i]))
	}
	for i := range r.Charts {
		p.ChartViews = append(p.ChartViews, newChartView(&r.Charts[i]))
	}
	for i := range r.Ladders {
		if !p.placed(&r.Ladders[i]) {
			p.Ladders = append(p.Ladders, newLadderView(r, &r.Ladders[i]))
		}
	}
	for _, m := range tellingMetrics(r.Metrics, allUnits) {
		if nothing := m.Unit == analyzers.UnitCount && m.Min == 0 && m.Max == 0; !nothing && len(p.Metrics) < pageMetrics {
			p.Metrics = append(p.Metrics, newMetricView(r, m))
		}
	}
	p.Machines = machineViews(r.Coverage)
	p.words()
	p.files()
	return p
}

// words sets the texts that depend on the observer.
func (p *page) words() {
	r := p.Report
	p.Observer, p.Outcomes, p.StoriesTitle = r.observer(), r.outcomes(), r.storiesTitle()
	p.LadderNote = "One row for each packet in the order of the injector, time downwards, not to scale. " +
		"The injector saw a packet at the time given; when it arrived at a host is not observed."
	switch p.Observer {
	case "tap":
		p.LadderNote = "One row for each packet in the order of the capture, time downwards, not to scale. " +
			"The tap saw a packet at the time given; whether and when it arrived at a host is not observed."
	case "taps":
		p.LadderNote = "One row for each packet in the order of the upstream taps, time downwards, not to scale. " +
			"The upstream tap saw a packet at the time given; a cross shows that the downstream tap did not."
	}
	if p.GeneralNotes = r.Notes; r.Observation == nil {
		return
	}
	p.GeneralNotes = nil
	for _, note := range r.Notes {
		if !slices.Contains(r.Observation.Said, note) {
			p.Remaining = append(p.Remaining, note)
		}
	}
}

func verdictClass(v analyzers.Verdict) string {
	switch v {
	case analyzers.Pass, analyzers.Fail:
		return string(v)
	case analyzers.Invalid:
	}
	return string(analyzers.Invalid)
}

func (p *page) connections() {
	t := textReport{Report: p.Report}
	shown, hidden := t.tellingOf(pageConnections)
	for _, c := range shown {
		class := "good"
		if !c.OK {
			class = "bad"
		}
		numbers := []pageNumber{
			number(c.Data, false), number(c.Resent, true), number(c.Rounds, false), number(c.Acks, false), number(c.Naks, true),
			number(c.RNRs, true), number(c.CNPs, true), number(c.Timeouts, true), number(c.Events, false),
		}
		p.Connections = append(p.Connections, pageConnection{*c, numbers, class})
	}
	if len(hidden) > 0 {
		p.MoreConns = hiddenConnections(hidden)
	}
}

func number(n int64, loud bool) pageNumber {
	return pageNumber{Value: strconv.FormatInt(n, 10), Zero: n == 0, Loud: loud && n != 0}
}

func (p *page) events() {
	n := min(len(p.Report.Events), pageEvents)
	p.Events = p.Report.Events[:n]
	if n < len(p.Report.Events) {
		p.MoreEvents = "and " + moreOf(len(p.Report.Events)-n, "event")
	}
	p.Trimmed = p.trims()
	n = min(len(p.Report.Stories), pageEvents)
	p.Stories = p.Report.Stories[:n]
	if n < len(p.Report.Stories) {
		p.MoreStories = "and " + moreOf(len(p.Report.Stories)-n, "packet")
	}
}

func (p *page) findings(t *textReport) {
	view := func(g group) pageFinding {
		f := g[0]
		v := pageFinding{Finding: f, Place: t.place(f), What: t.headline(g), Anchor: p.Anchor(f),
			Filters: p.filters(f), Journey: p.journey(f)}
		v.Rows = p.packetRows(f, v.Anchor)
		for _, other := range g[1:] {
			v.Others = append(v.Others, pageOther{p.Anchor(other), t.place(other), other.Summary()})
		}
		if f.counts() {
			v.Word, v.Class = "FAIL", "fail"
		} else {
			v.Word, _ = briefWord(f)
			v.Class = strings.ReplaceAll(v.Word, " ", "-")
		}
		if len(f.Packets) > 1 {
			v.Packets = p.packetList(f.Packets)
		}
		return v
	}
	shown, hidden := pick(groups(p.violations()), pageFindings)
	for _, g := range shown {
		p.Failing = append(p.Failing, view(g))
	}
	if rest := flat(hidden); len(rest) > 0 {
		p.MoreFailing = "and " + moreOf(len(rest), "finding") + ": " + ruleCounts(rest)
	}
	rest := p.Report.findings(func(f *Finding) bool { return !f.counts() })
	// Excused violations, then warnings, then notes.
	slices.SortStableFunc(rest, func(a, b *Finding) int { return cmp.Compare(severityRank(a), severityRank(b)) })
	remarks := groups(rest)
	for _, g := range remarks[:min(len(remarks), pageRemarks)] {
		p.Remarks = append(p.Remarks, view(g))
	}
	if hidden := flat(remarks[len(p.Remarks):]); len(hidden) > 0 {
		p.MoreRemarks = "and " + moreOf(len(hidden), "finding") + ": " + ruleCounts(hidden)
	}
}

// journey returns the drawing of a finding's packets in a switch test; nil: none.
func (p *page) journey(f *Finding) *journeyView {
	for i := range p.Journeys {
		j := &p.Journeys[i]
		if n := j.Finding; n > 0 && n <= len(p.Findings) && &p.Findings[n-1] == f {
			return newJourneyView(p.Report, j, p.Anchor(f))
		}
	}
	return nil
}

// Anchor returns the anchor of a finding of r on its page.
func (r *Report) Anchor(f *Finding) string {
	for i := range r.Findings {
		if f == &r.Findings[i] {
			return fmt.Sprintf("f%d", i+1)
		}
	}
	return ""
}

// placed draws a ladder within its finding and reports whether the page shows that finding.
func (p *page) placed(l *Ladder) bool {
	if l.Finding == 0 {
		return false
	}
	for _, list := range [][]pageFinding{p.Failing, p.Remarks} {
		for i := range list {
			if list[i].Anchor == fmt.Sprintf("f%d", l.Finding) {
				v := newLadderView(p.Report, l)
				list[i].Ladder = &v
				return true
			}
		}
	}
	return false
}

func severityRank(f *Finding) int {
	return slices.Index([]analyzers.Severity{analyzers.Violation, analyzers.Warning, analyzers.Note}, f.Severity)
}

// ShortAround returns the packets around the finding, at most pageAround.
func (f pageFinding) ShortAround() []string { return f.Around[:min(len(f.Around), pageAround)] }

// files lists the files in the page's run directory.
func (p *page) files() {
	if p.Apart {
		for _, f := range p.Report.Files {
			p.Files = append(p.Files, pageFile{Name: f.Name, What: f.What})
		}
		return
	}
	if p.Dir == "" {
		return
	}
	p.Files = []pageFile{
		{Name: "trace.pcap", What: "every packet at the injector; tcpdump and Wireshark read it"},
		{Name: "config.yml", What: "the test with all defaults explicit"},
		{Name: "environment.json", What: "what ran it"},
	}
	if p.Report.Files != nil {
		p.Files = nil
	}
	for _, f := range p.Report.Files {
		p.Files = append(p.Files, pageFile{Name: f.Name, What: f.What})
	}
	for _, name := range p.analyzerNames() {
		if filepath.Base(name) == name && clean(name) == name {
			p.Files = append(p.Files, pageFile{Name: "analysis/" + name + ".json", What: "findings and metrics of " + name})
		}
	}
	p.Files = append(p.Files, pageFile{Name: "log.jsonl", What: "what happened when"})
}

// machineView is the coverage of one analyzer's state machines.
type machineView struct {
	Analyzer  string
	Taken     []transitionView // most frequent first
	Never     []transitionView
	Share     string // "12 of 40 transitions"
	Truncated bool
}

type transitionView struct {
	Name  string
	Count string
	Width int // of the bar, in percent of the most frequent
}

const pageTransitions = 400

func machineViews(coverage map[string]map[string]int64) []machineView {
	var names []string
	for name := range coverage {
		names = append(names, name)
	}
	slices.Sort(names)
	var views []machineView
	for _, name := range names {
		views = append(views, newMachineView(name, coverage[name]))
	}
	return views
}

func newMachineView(name string, counts map[string]int64) machineView {
	type entry struct {
		name string
		n    int64
	}
	var entries []entry
	for transition, n := range counts {
		entries = append(entries, entry{transition, n})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
	v := machineView{Analyzer: name}
	taken := 0
	for i, e := range entries {
		if e.n > 0 {
			taken++
		}
		if i >= pageTransitions {
			v.Truncated = true
			continue
		}
		view := transitionView{Name: e.name, Count: grouped(e.n)}
		if e.n > 0 {
			view.Width = int(max(1, float64(e.n)/float64(entries[0].n)*100))
			v.Taken = append(v.Taken, view)
		} else {
			v.Never = append(v.Never, view)
		}
	}
	v.Share = fmt.Sprintf("%d of %s", taken, plural(int64(len(entries)), "transition"))
	return v
}
