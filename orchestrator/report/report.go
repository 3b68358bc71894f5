// Package report turns the outcome of a run or an analysis into what people and other programs read: a terminal summary, an
// HTML page, JUnit XML. It decides nothing; everything it prints stands in [Report].
package report

import (
	"candela.dev/candela/analyzers"
)

// Report is the outcome of one run, or of the analysis of one trace, ready to print.
type Report struct {
	Name    string // of the test, or the trace's path
	File    string // the configuration it came from; empty for a bare trace
	Testbed string // empty for a bare trace
	Seed    uint64 // of the run; 0 for a bare trace
	Repeat  int    // 1-based; 0: not repeated

	Verdict analyzers.Verdict
	Reasons []string // why it is not a pass, most important first

	Packets int64 // in the trace
	SpanNS  int64 // from the first to the last packet

	Connections []Connection
	Events      []Event
	Findings    []Finding // sorted by first packet, then rule
	Metrics     []analyzers.Metric
	Coverage    map[string]map[string]int64
	Notes       []string // about the trace as a whole: inferred connections, skipped checks
	Waived      int

	Dir   string   // of the run's files; empty for a bare trace
	Next  []string // commands that look closer or repeat the run
	Facts []Fact   // environment and provenance: tool version, profiles, config hash …
}

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

	Data, Resent, Rounds   int64 // data packets, retransmissions among them, rounds of transmission (ITER of the last)
	Acks, Naks, RNRs       int64
	CNPs, Events, Timeouts int64
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
	Waiver string // reference of the waiver that excuses it; empty: none
}
