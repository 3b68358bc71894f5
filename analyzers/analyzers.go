// Package analyzers has what all analyzers share: the interface that one pass over a trace feeds, findings and metrics,
// and the analysis document that scripts read. Each analyzer is a package below this one. Analyzers import packet and
// trace, never a testbed, a generator or an injector: a checker that reuses the sender's state machine has the same
// faults.
package analyzers

import (
	"cmp"
	"strings"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// Severity says what a finding means for the verdict: only violations fail, and warnings do under --strict.
type Severity string

// Severities.
const (
	Violation Severity = "violation"
	Warning   Severity = "warning"
	Note      Severity = "note"
)

// Finding is one observation that an analyzer reports (design, "Outside interface").
type Finding struct {
	Analyzer   string   `json:"analyzer"`
	Rule       string   `json:"rule"`   // e.g. "gbn.retransmit-first"; docs/reference/rules.md explains each
	Clause     string   `json:"clause"` // of IBTA volume 1, RFC or spec
	Severity   Severity `json:"severity"`
	Connection int      `json:"connection"` // 1-based; 0: none in particular
	Packets    []uint64 `json:"packets"`    // Record.IDs that prove it, the offending one first
	TimeNS     int64    `json:"t_ns"`
	PSN        int64    `json:"psn"` // relative, 1-based; 0: none
	PSNAbs     uint32   `json:"psn_abs"`
	Expected   string   `json:"expected"`
	Actual     string   `json:"actual"`
	Message    string   `json:"message"`  // the rule's statement, and what else may explain the packets
	Cause      string   `json:"cause"`    // code of what happened, one of the rule's causes
	Headline   string   `json:"headline"` // what happened, in a sentence
	// Role is what the subject of the headline is to the test: "requester", "switch leaf". It names no connection.
	// On findings about a port of a switch the port's role follows: "switch leaf, port to incast receiver".
	Role string `json:"role,omitempty"`
	// Place is the port that the headline names.
	Place Place `json:"-"`
	// About is the flow of the requests that it is about, plus one; 0: unknown.
	About trace.FlowID `json:"-"`
	// Doubtful says that the headline is qualified; see Doubt.
	Doubtful bool `json:"-"`
	// Undelivered says that the responder acted on a request that did not pass the second capture of a pair: that capture
	// may have missed it.
	Undelivered bool `json:"-"`
}

// Place is a port of a switch.
type Place struct {
	Switch string // its name; empty: the only one
	Port   int
	Known  bool // false: no port is named
}

// Because completes f with what happened.
func (f *Finding) Because(c cause.Cause) {
	f.Cause, f.Headline, f.Role = c.Code, c.Sentence(), c.Role()
	f.Place.Switch, f.Place.Port, f.Place.Known = c.Place()
	if f.Doubtful {
		f.Headline = doubtful(f.Headline)
	}
}

// Doubt gives f a milder severity because something else may explain the packets; why is added to the message. The
// headline then says what the trace shows, not what certainly happened.
func (f *Finding) Doubt(s Severity, why string) {
	f.Severity = s
	f.Message += why
	if !f.Doubtful && f.Headline != "" {
		f.Headline = doubtful(f.Headline)
	}
	f.Doubtful = true
}

// AsShown begins the headlines of findings that the trace suggests and does not prove.
const AsShown = "As far as the trace shows, "

func doubtful(headline string) string { return AsShown + strings.ToLower(headline[:1]) + headline[1:] }

// Summary returns what happened in one sentence. Documents older than headlines have the rule's statement.
func (f *Finding) Summary() string { return cmp.Or(f.Headline, f.Message, f.Actual, f.Rule) }

// Metric is a measured distribution (design, "Outside interface").
type Metric struct {
	Name       string  `json:"name"` // e.g. "retrans.nack-generation"
	Unit       string  `json:"unit"` // ns, count, bytes or bps
	Connection int     `json:"connection"`
	Count      int64   `json:"count"`
	Min        int64   `json:"min"`
	P50        int64   `json:"p50"`
	P95        int64   `json:"-"` // the format has no field for it
	P99        int64   `json:"p99"`
	P999       int64   `json:"p999"`
	Max        int64   `json:"max"`
	Sum        int64   `json:"sum"`
	Values     []int64 `json:"values"` // the first 1000
	Truncated  bool    `json:"truncated"`
	// Histogram holds all values if Values does not: HdrHistogram's V2 encoding, compressed, in base64.
	Histogram string `json:"histogram,omitempty"`
}

// Result is what one analyzer returns at the end of a trace.
type Result struct {
	Findings []Finding
	Metrics  []Metric
	Curves   []Curve
	Tables   []Table
	// Coverage counts the FSM transitions that occurred, by name; 0 for the others.
	Coverage map[string]int64
	// Observed is what an observer of a single capture knows of the endpoints; see [SoftenUnseen].
	Observed []Observed
}

// An Analyzer is a streaming state machine over one trace. Packet is called for every record in trace order, then
// Finish once. Memory must not grow with the length of the trace.
type Analyzer interface {
	Name() string
	// Packet observes r, which is valid during the call only.
	Packet(r *trace.Record)
	// Finish returns the results.
	Finish() Result
}
