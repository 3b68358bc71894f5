package config

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
)

// Expect is what the author of a test expects. An analyzer without an entry is expected to pass.
type Expect struct {
	GBN        Judgement
	Retrans    RetransExpect
	CNP        CNPExpect
	RP         Judgement
	Fields     FieldsExpect
	Trim       TrimExpect
	Counters   CountersExpect
	Completion []CompletionExpect
	Baseline   BaselineExpect
}

// Outcome is the expected result of an analyzer.
type Outcome uint8

// Outcomes.
const (
	OutcomeUnset Outcome = iota // not given: as OutcomePass
	OutcomePass                 // no violation
	OutcomeFail                 // at least one violation, of any rule
	OutcomeRules                // exactly the rules of Judgement.Violations are violated, each at least once
)

// String returns the outcome in the words of the configuration.
func (o Outcome) String() string { return [...]string{"unset", "pass", "fail", "rules"}[o] }

// Judgement is what an analyzer is expected to find. Tests of the analyzers expect violations: a checker that has never
// failed proves nothing.
type Judgement struct {
	Outcome    Outcome
	Violations []string // OutcomeRules: rule ids, e.g. "gbn.nak-psn"; all of them must fire
	Tolerated  []string // rule ids that may or may not fire
}

// FieldsExpect is what is expected of header fields, beyond what follows from the traffic.
type FieldsExpect struct {
	Judgement
	MigReq  *int // of all packets except CNPs; nil: any value
	CNPDSCP *int // nil: any value
}

// TrimExpect is what is expected of the recovery of trimmed packets.
type TrimExpect struct {
	Judgement
	Nack     *Bound // trimmed header → NAK, or repeated READ request
	Reaction *Bound // NAK or repeated READ request → retransmission
	Recovery *Bound // trimmed header → the whole packet delivered
	Gain     *Bound // reduction of the recovery time relative to the paired run
}

// TimeLimit limits a time. Nil: no limit on that side.
type TimeLimit struct{ Min, Max *clock.Duration }

// Bound limits every value of a distribution, and its mean, median and 99th percentile. Nil: no limit.
type Bound struct {
	Min, Max       *clock.Duration
	Mean, P50, P99 *TimeLimit
	Count          *int64 // expected number of values
	// Firm bounds are also judged on software hosts: the author knows the machine. Firm is not written.
	Firm bool
}

// BoundLimit is one limit of a bound.
type BoundLimit struct {
	Key  string // "", "mean", "p50" or "p99"
	What string // "the mean"; empty: every value
	TimeLimit
}

// Limits returns the limits of b: first that of every value, then those given for mean, p50 and p99.
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
	AckSilence     *clock.Duration // responder silence that is reported; nil: half of the local ACK timeout
	NakSilence     *clock.Duration // of a requester after a NAK; nil: three quarters of the local ACK timeout
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

// CompletionExpect is how the work requests of one connection complete.
type CompletionExpect struct {
	QPN          int
	From         Side // the side that posted them
	Status       generator.Status
	AfterRetries *int // retransmissions of the fatal packet; nil: not checked
}

// CompletionOf returns the expected completion of the requests that side s posts on a connection; nil: success.
func (e *Expect) CompletionOf(connection int, s Side) *CompletionExpect {
	for i := range e.Completion {
		if c := &e.Completion[i]; c.QPN == connection && c.From == s {
			return c
		}
	}
	return nil
}
