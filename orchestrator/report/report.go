// Package report turns the outcome of a run or an analysis into what people and other programs read: a terminal
// summary, an HTML page, JUnit XML. It decides nothing; everything it prints stands in [Report].
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
	File    string // the configuration it came from; empty for a bare trace
	Testbed string // empty for a bare trace
	Seed    uint64 // of the run; 0 for a bare trace
	Repeat  int    // 1-based; 0: not repeated
	// Metadata says what the test is to those who keep it; nil: nothing is said.
	Metadata []Fact `json:",omitempty"`

	Verdict analyzers.Verdict
	// Broken says that a component of the lab or of ours failed, so that Invalid says nothing about the test either:
	// people read ERROR.
	Broken bool
	// Refused says why the test was not run: it is not for the testbed; empty: it was.
	Refused string
	// Wrong says why the file holds no test that can be run; empty: it does.
	Wrong string
	// NotRun says why the test has no run although it can be run: the command ended before it; empty: it has one.
	NotRun  string
	Reasons []string // why it is not a pass, most important first

	// Took is how long the run took in real time; 0: unknown. No file of a run directory holds it but run.json.
	Took time.Duration `json:"-"`

	Packets int64 // in the trace
	SpanNS  int64 // from the first to the last packet
	// OriginNS is the instant that is printed as t=0: 0 for runs, which count from their start, and the time of the first
	// packet for captures with wall-clock time.
	OriginNS  int64
	PacketIDs string // trace.PacketIDsMirror or trace.PacketIDsFrame: what the numbers of findings are

	Connections []Connection
	Events      []Event
	Stories     []string  // what became of each packet that the injector touched, one line each
	Trims       []Trim    // packets whose payload was cut off
	Findings    []Finding // sorted by first packet, then rule
	Metrics     []analyzers.Metric
	Coverage    map[string]map[string]int64
	Notes       []string // about the trace as a whole: inferred connections, skipped checks
	Unjudged    []string // expectations that failed and don't count on this testbed
	Waived      int
	Analyzers   []string // that ran, in their order; those of findings, metrics and coverage are added

	Observation *Observation // how captures were read; nil: a run, whose observer is its injector

	Tables []Table // of what is no connection: the flows and switches of a test of a switch
	Charts []Chart // for the HTML page
	// Numbers are the few that a table of many runs shows.
	Numbers []Number
	Files   []File // beside the report; nil: those of a test of a NIC
	// Apart says that the page is not in the run directory: Files are all that is beside it.
	Apart bool

	Sequences []Sequence // PSN over time, for the HTML page
	Ladders   []Ladder   // packets one by one around what matters, for the HTML page
	// Journeys are the packets of findings of a test of a switch, for the HTML page.
	Journeys []Journey `json:",omitempty"`

	Dir   string   // of the run's files; empty for a bare trace
	Next  []string // commands that look closer or repeat the run
	Facts []Fact   // environment and provenance: tool version, profiles, config hash …
}

// unrun says why the test was not run; empty: it was.
func (r *Report) unrun() string { return cmp.Or(r.Wrong, r.Refused, r.NotRun) }

// Fact is one line of provenance.
type Fact struct{ Name, Value string }

// Connection says what one connection did, in numbers seen at the injector.
type Connection struct {
	Index     int
	Traffic   string // "write 10 × 10240 B, mtu 1024"
	Requester string // "10.0.0.1 qpn 0x00abcd ipsn 4711"
	Responder string
	Outcome   string // "10 of 10 messages complete", or the completion error
	OK        bool
	QPNs      []uint32 // of both sides, as far as they are known; for display filters

	Data, Resent, Rounds   int64 // data packets, retransmissions among them, rounds of transmission (ITER of the last)
	Acks, Naks, RNRs       int64
	CNPs, Events, Timeouts int64
}

// Observation is how captures were read.
type Observation struct {
	// Observer is where packets were seen: "tap" or "taps"; empty: the injector of a mirror trace.
	Observer string
	What     string // kind of observation, and what that leaves open
	Captures []Capture
	Ways     []Way    // of two captures, by direction
	Clock    []Fact   // how their clocks relate
	Between  []Fact   // what happened in between
	Said     []string // notes of the report that the other fields repeat
}

// Capture is one capture and the place where it was taken, as far as the user said.
type Capture struct {
	Place      string
	Files      []string
	Interfaces []string // that recorded it, with the frames that they missed
}

// Placed reports whether it is known or inferred which capture is which.
func (o *Observation) Placed() bool {
	return slices.ContainsFunc(o.Captures, func(c Capture) bool { return c.Place != "" })
}

// Recorded reports whether the files say what recorded them.
func (o *Observation) Recorded() bool {
	return slices.ContainsFunc(o.Captures, func(c Capture) bool { return len(c.Interfaces) > 0 })
}

// Way is a direction between two taps.
type Way struct{ From, To, Upstream, Reason string }

// observer is where packets were seen, in words.
func (r *Report) observer() string {
	if r.Observation == nil || r.Observation.Observer == "" {
		return "injector"
	}
	return r.Observation.Observer
}

// outcomes reports whether any connection's outcome is known: captures do not say how requests completed.
func (r *Report) outcomes() bool {
	return slices.ContainsFunc(r.Connections, func(c Connection) bool { return c.Outcome != "" })
}

// storiesTitle is the heading of Stories. Below the events of a test they need no noun.
func (r *Report) storiesTitle() string {
	if len(r.Events) > 0 {
		return "What became of them"
	}
	return "Packets that did not pass unchanged"
}

// Event is one event of the test and what became of it.
type Event struct {
	Where string // "data-pkt-events[1]"
	What  string // "drop qpn 2 psn 5 iter 1"
	Hits  uint64
	Why   string // it never fired; empty if it did
}

// Finding is a finding with the packets around it, one line each, in the words of `candela trace show`.
type Finding struct {
	analyzers.Finding
	Around []string
	Window []Point // the packets of Around; nil: not known
	Waiver string  // reference of the waiver that excuses it; empty: none
	// Wanted says that the test asks for this violation or puts up with it, so that it doesn't count against the device.
	Wanted bool
}

// counts reports whether f speaks against the device under test: a violation that nothing excuses.
func (f *Finding) counts() bool {
	return f.Severity == analyzers.Violation && f.Waiver == "" && !f.Wanted
}

// violations returns the findings that count against the device under test.
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

// analyzerNames returns every analyzer that is known to have run: those listed, then others that left a trace, sorted.
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

// unfired returns the events that never fired.
func (r *Report) unfired() []*Event {
	var never []*Event
	for i := range r.Events {
		if r.Events[i].Hits == 0 {
			never = append(never, &r.Events[i])
		}
	}
	return never
}

// flowWord is what a number of findings, metrics and plots counts: the connections of NICs, which are queue pairs, or
// the flows of a test of a switch.
func (r *Report) flowWord() string {
	if len(r.Tables) > 0 {
		return "flow"
	}
	return "qpn"
}

// packetWord is what a packet's number is called: mirror #1184, frame #12.
func (r *Report) packetWord() string {
	if r.PacketIDs == "" {
		return "packet"
	}
	return r.PacketIDs
}
