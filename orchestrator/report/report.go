// Package report formats the outcome of a run or an analysis for people and programs: a terminal summary, an HTML page,
// JUnit XML. It makes no decisions: all that it prints is in [Report].
package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"candela.dev/candela/analyzers"
)

// Report is the outcome of one run, or of the analysis of one trace, ready to print.
type Report struct {
	Name    string // of the test, or the trace's path
	File    string // configuration file; empty for a bare trace
	Testbed string // empty for a bare trace
	Seed    uint64 // of the run; 0 for a bare trace
	Repeat  int    // 1-based; 0: not repeated
	// Metadata describes the test for its maintainers; nil: none.
	Metadata []Fact `json:",omitempty"`

	Verdict analyzers.Verdict
	// Broken is set if a component of Candela or of the lab failed. The verdict Invalid then says nothing about the test
	// and is shown as ERROR.
	Broken bool
	// Refused is the reason that the test does not fit the testbed and was not run; empty: it was run.
	Refused string
	// Wrong is the reason that the file holds no runnable test; empty: it does.
	Wrong string
	// NotRun is the reason that a runnable test was not run, because the command ended first; empty: it was run.
	NotRun  string
	Reasons []string // reasons for a verdict other than pass, most important first

	// Took is the wall-clock time of the run; 0: unknown. In a run directory only run.json has it.
	Took time.Duration `json:"-"`

	Packets int64 // in the trace
	SpanNS  int64 // from the first to the last packet
	// OriginNS is the instant printed as t=0: 0 for runs, whose clock starts at 0, and the time of the first packet for
	// captures with wall-clock time.
	OriginNS  int64
	PacketIDs string // trace.PacketIDsMirror or trace.PacketIDsFrame: the numbering in findings

	Connections []Connection
	Events      []Event
	Stories     []string  // one line for each packet that the injector touched
	Trims       []Trim    // packets whose payload was trimmed
	Findings    []Finding // sorted by first packet, then rule
	Metrics     []analyzers.Metric
	MetricsNote string `json:",omitempty"` // below the metrics: what they do not contain
	Coverage    map[string]map[string]int64
	Notes       []string // about the whole trace: inferred connections, skipped checks
	Unjudged    []string // failed expectations that are not judged on this testbed
	Waived      int
	Analyzers   []string // that ran, in order; those of findings, metrics and coverage are added

	Observation *Observation // how captures were read; nil: a run, observed by its injector

	Tables []Table // beyond connections: flows and switches of a switch test
	Charts []Chart // for the HTML page
	// Numbers are the key numbers shown in a table of many runs.
	Numbers []Number
	// Totals are the metrics that a run has one value of, for the results store.
	Totals []Total
	Files  []File // with the report; nil: the files of a NIC test
	// Apart is set if the page is outside the run directory. Files then lists all files with it.
	Apart bool

	Sequences []Sequence // PSN over time, for the HTML page
	Ladders   []Ladder   // packet by packet around findings and events, for the HTML page
	// Journeys are the packets of the findings of a switch test, for the HTML page.
	Journeys []Journey `json:",omitempty"`

	Dir   string   // of the run's files; empty for a bare trace
	Next  []string // commands that inspect or repeat the run
	Facts []Fact   // environment and provenance: tool version, profiles, config hash …
}

// unrun returns the reason that the test was not run; empty: it was run.
func (r *Report) unrun() string { return cmp.Or(r.Wrong, r.Refused, r.NotRun) }

// Fact is one line of provenance.
type Fact struct{ Name, Value string }

// Connection summarises one connection in numbers seen at the injector.
type Connection struct {
	Index     int
	Traffic   string // "write 10 × 10240 B, mtu 1024"
	Requester string // "10.0.0.1 qpn 0x00abcd ipsn 4711"
	Responder string
	Outcome   string // "10 of 10 messages complete", or the completion error
	OK        bool
	QPNs      []uint32 // of both sides, if known; for display filters

	Data, Resent, Rounds   int64 // data packets, retransmissions among them, rounds (ITER of the last)
	Acks, Naks, RNRs       int64
	CNPs, Events, Timeouts int64
}

// Observation describes how captures were read.
type Observation struct {
	// Observer is the observation point: "tap" or "taps"; empty: the injector of a mirror trace.
	Observer string
	What     string // kind of observation and its limits
	Captures []Capture
	Ways     []Way    // between two captures, by direction
	Clock    []Fact   // how their clocks relate
	Between  []Fact   // differences between the captures
	Said     []string // notes of the report that other fields repeat
}

// Capture is one capture and its place, if the user gave one.
type Capture struct {
	Place      string
	Files      []string
	Interfaces []string // that recorded it, with their missed frames
}

// Placed reports whether the place of a capture is known or inferred.
func (o *Observation) Placed() bool {
	return slices.ContainsFunc(o.Captures, func(c Capture) bool { return c.Place != "" })
}

// Recorded reports whether the files name the recording interfaces.
func (o *Observation) Recorded() bool {
	return slices.ContainsFunc(o.Captures, func(c Capture) bool { return len(c.Interfaces) > 0 })
}

// Way is one direction between two taps.
type Way struct{ From, To, Upstream, Reason string }

// observer returns the observation point as a noun.
func (r *Report) observer() string {
	if r.Observation == nil || r.Observation.Observer == "" {
		return "injector"
	}
	return r.Observation.Observer
}

// outcomes reports whether any connection's outcome is known. Captures do not show completions.
func (r *Report) outcomes() bool {
	return slices.ContainsFunc(r.Connections, func(c Connection) bool { return c.Outcome != "" })
}

// storiesTitle returns the heading of Stories. After the events of a test it needs no noun.
func (r *Report) storiesTitle() string {
	if len(r.Events) > 0 {
		return "What became of them"
	}
	return "Packets that did not pass unchanged"
}

// Event is one event of the test and its effect.
type Event struct {
	Where string // "data-pkt-events[1]"
	What  string // "drop qpn 2 psn 5 iter 1"
	Hits  uint64
	Why   string // why it never fired; empty if it did
}

// Finding is a finding with the packets around it, one line each, as `candela trace show` prints them.
type Finding struct {
	analyzers.Finding
	Around []string
	Window []Point // the packets of Around; nil: unknown
	Waiver string  // reference of the waiver; empty: not waived
	// Wanted is set if the test expects or tolerates this violation, so that it does not count against the device.
	Wanted bool
}

// counts reports whether f counts against the device under test: a violation that nothing excuses.
func (f *Finding) counts() bool {
	return f.Severity == analyzers.Violation && f.Waiver == "" && !f.Wanted
}

func (r *Report) violations() []*Finding {
	return r.findings((*Finding).counts)
}

func (r *Report) findings(keep func(*Finding) bool) []*Finding {
	var kept []*Finding
	for i := range r.Findings {
		if f := &r.Findings[i]; keep(f) {
			kept = append(kept, f)
		}
	}
	return kept
}

// analyzerNames returns every analyzer known to have run: those listed, then those with results, sorted.
func (r *Report) analyzerNames() []string {
	names := slices.Clone(r.Analyzers)
	others := slices.Collect(maps.Keys(r.Coverage))
	for i := range r.Findings {
		others = append(others, r.Findings[i].Analyzer)
	}
	for i := range r.Metrics {
		others = append(others, r.Metrics[i].Analyzer())
	}
	slices.Sort(others)
	for _, name := range others {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (r *Report) unfired() []*Event {
	var never []*Event
	for i := range r.Events {
		if r.Events[i].Hits == 0 {
			never = append(never, &r.Events[i])
		}
	}
	return never
}

// flowWord is the noun for a connection number: "qpn" in a NIC test, "flow" in a switch test.
func (r *Report) flowWord() string {
	if len(r.Tables) > 0 {
		return "flow"
	}
	return "qpn"
}

// packetWord is the noun for a packet number: mirror #1184, frame #12.
func (r *Report) packetWord() string {
	if r.PacketIDs == "" {
		return "packet"
	}
	return r.PacketIDs
}
