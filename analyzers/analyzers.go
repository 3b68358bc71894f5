// Package analyzers is what every analyzer has in common: the interface that one pass over a trace feeds, findings and
// metrics, and the analysis document that scripts read. Each analyzer is a package below this one. Analyzers see trace
// and packet, never a testbed, a generator or an injector: a checker that reuses the sender's state machine agrees with
// its mistakes.
package analyzers

import (
	"cmp"

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
	// About is one more than the flow of the requests that it is about; 0: that is not known.
	About trace.FlowID `json:"-"`
	// Undelivered says that the responder acted on a request that did not pass the second capture of a pair: that capture
	// may have missed it.
	Undelivered bool `json:"-"`
}

// Because completes f with what happened.
func (f *Finding) Because(c cause.Cause) { f.Cause, f.Headline = c.Code, c.Sentence() }

// Summary returns what happened in one sentence. Documents from before headlines have the statement of the rule.
func (f *Finding) Summary() string { return cmp.Or(f.Headline, f.Message, f.Actual, f.Rule) }

// Metric is a measured distribution (design, "Outside interface").
type Metric struct {
	Name       string  `json:"name"` // e.g. "retrans.nack-generation"
	Unit       string  `json:"unit"` // ns, count, bytes or bps
	Connection int     `json:"connection"`
	Count      int64   `json:"count"`
	Min        int64   `json:"min"`
	P50        int64   `json:"p50"`
	P99        int64   `json:"p99"`
	P999       int64   `json:"p999"`
	Max        int64   `json:"max"`
	Sum        int64   `json:"sum"`
	Values     []int64 `json:"values"` // the first 1000
	Truncated  bool    `json:"truncated"`
}

// Result is what one analyzer has to say at the end of a trace.
type Result struct {
	Findings []Finding
	Metrics  []Metric
	// Coverage counts FSM transitions exercised, by name; transitions that were not are present with 0.
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
