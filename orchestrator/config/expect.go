package config

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
)

// Expect is what the author of a test expects of it. An analyzer that it doesn't mention is expected to pass.
type Expect struct {
	GBN        Judgement
	Retrans    RetransExpect
	CNP        CNPExpect
	RP         Judgement
	Fields     FieldsExpect
	Trim       TrimExpect
	Counters   CountersExpect
	Completion []CompletionExpect
}

// Outcome is the result that is expected of an analyzer.
type Outcome uint8

// Outcomes.
const (
	OutcomeUnset Outcome = iota // nothing is said: as OutcomePass
	OutcomePass                 // no violation
	OutcomeFail                 // at least one violation, of whatever rule
	OutcomeRules                // exactly the rules of Judgement.Violations are violated, each at least once
)

// String returns the outcome in the words of the configuration.
func (o Outcome) String() string { return [...]string{"unset", "pass", "fail", "rules"}[o] }

// Judgement is what an analyzer is expected to say about violations. Detection tests expect them: a checker that has
// never failed proves nothing.
type Judgement struct {
	Outcome    Outcome
	Violations []string // OutcomeRules: rule ids, e.g. "gbn.nak-psn"; all of them must fire
	Tolerated  []string // rule ids that may fire or not
}

// FieldsExpect is what is expected of single fields beyond what the traffic says of them.
type FieldsExpect struct {
	Judgement
	MigReq  *int // of all packets but CNPs; nil: whatever the hosts send
	CNPDSCP *int // nil: whatever the hosts send
}

// TrimExpect is what is expected of the repair of trimmed packets.
type TrimExpect struct {
	Judgement
	Nack     *Bound // trimmed header → NAK, or repeated READ request
	Reaction *Bound // that → retransmission
	Recovery *Bound // trimmed header → the whole packet delivered
	Gain     *Bound // by which a trimmed packet is sooner repaired than in the paired run
}

// TimeLimit limits a time. Nil: no limit on that side.
type TimeLimit struct{ Min, Max *clock.Duration }

// Bound limits every value of a distribution, and its mean, median and 99th percentile. Nil: no limit.
type Bound struct {
	Min, Max       *clock.Duration
	Mean, P50, P99 *TimeLimit
	Count          *int64 // how many values there must be
	// Firm bounds hold on software hosts, too: whoever asks for them knows the machine. No part of the written form.
	Firm bool
}

// BoundLimit is one of the limits of a bound: which value it is about, and the key that gives it.
type BoundLimit struct {
	Key  string // "", "mean", "p50" or "p99"
	What string // "the mean"; empty: every value
	TimeLimit
}

// Limits returns the limits of b: first the one of every value, then those that the test gives of mean, p50 and p99.
func (b *Bound) Limits() []BoundLimit {
	list := []BoundLimit{{"", "", TimeLimit{b.Min, b.Max}}}
	for _, l := range []struct {
		key, what string
		of        *TimeLimit
	}{{"mean", "the mean", b.Mean}, {"p50", "the median", b.P50}, {"p99", "the 99th percentile", b.P99}} {
		if l.of != nil {
			list = append(list, BoundLimit{l.key, l.what, *l.of})
		}
	}
	return list
}

// LimitsTime reports whether b limits any time.
func (b *Bound) LimitsTime() bool {
	return slices.ContainsFunc(b.Limits(), func(l BoundLimit) bool { return l.Min != nil || l.Max != nil })
}

// RetransExpect is what is expected of retransmission latencies.
type RetransExpect struct {
	Judgement
	NackGeneration *Bound          // first out-of-order packet → NAK
	NackReaction   *Bound          // NAK → retransmission
	Retransmission *Bound          // lost packet → its retransmission
	Timeout        *Bound          // last transmission → retransmission by timeout
	AckSilence     *clock.Duration // of a responder, that is reported; nil: half of the local ACK timeout
	NakSilence     *clock.Duration // of a requester after a NAK; nil: three quarters of it
}

// CNPExpect is what is expected of congestion notification.
type CNPExpect struct {
	Judgement
	PerConnection []int       // CNPs of each connection in turn; nil: not checked
	Modes         []CNPPacing // pacing modes that must fit the CNPs seen
}

// CountersExpect is what is expected of the NICs' counters.
type CountersExpect struct {
	Judgement
	Requester, Responder []CounterExpect // sorted by name
}

// CounterExpect bounds the growth of one counter during the run.
type CounterExpect struct {
	Name     string
	Min, Max *int64
}

// CompletionExpect is how the work requests of one connection end.
type CompletionExpect struct {
	QPN          int
	From         Side // who posted them
	Status       generator.Status
	AfterRetries *int // transmissions of the fatal packet beyond the first; nil: not checked
}

// CompletionOf returns what is expected of the requests that side s posts on a connection; nil: plain success.
func (e *Expect) CompletionOf(connection int, s Side) *CompletionExpect {
	for i := range e.Completion {
		if c := &e.Completion[i]; c.QPN == connection && c.From == s {
			return c
		}
	}
	return nil
}
