package gbn

import "fmt"

// A machine is a finite state machine declared as a table: state × input → next state, or a named violation. It says what
// is legal; which input an observation amounts to is worked out by requester.go and responder.go.
type machine struct {
	name   string
	states []string
	inputs []string
	edges  []edge   // state·len(inputs) + input
	names  []string // of edges
}

// An edge is one entry of a machine's table.
type edge struct {
	to   uint8
	rule Rule // of the violation that this input is in this state; "" if it is legal
}

// A row declares edges: input in any of the states leads to state to, or stays where it is.
type row struct {
	input  uint8
	states []uint8 // nil: every state
	to     uint8   // or stay
	rule   Rule
}

const stay = 0xff

// declare builds a machine from rows; a later row overrides an earlier one, so general rows come first. Every pair of state
// and input must be covered, which a test checks with holes.
func declare(name string, states, inputs []string, rows []row) *machine {
	m := &machine{name: name, states: states, inputs: inputs, edges: make([]edge, len(states)*len(inputs))}
	for i := range m.edges {
		m.edges[i].to = stay
	}
	for _, r := range rows {
		for s := range states {
			if r.covers(uint8(s)) {
				to := r.to
				if to == stay {
					to = uint8(s)
				}
				m.edges[s*len(inputs)+int(r.input)] = edge{to: to, rule: r.rule}
			}
		}
	}
	m.names = make([]string, len(m.edges))
	for i, e := range m.edges {
		if e.to != stay { // a hole, which a test finds
			m.names[i] = fmt.Sprintf("%s: %s + %s -> %s", name, states[i/len(inputs)], inputs[i%len(inputs)], states[e.to])
		}
	}
	return m
}

func (r *row) covers(state uint8) bool {
	if r.states == nil {
		return true
	}
	for _, s := range r.states {
		if s == state {
			return true
		}
	}
	return false
}

// holes lists pairs of state and input that no row declares.
func (m *machine) holes() []string {
	var out []string
	for i, e := range m.edges {
		if e.to == stay {
			out = append(out, m.states[i/len(m.inputs)]+"/"+m.inputs[i%len(m.inputs)])
		}
	}
	return out
}

// transition names the edge with index i as coverage shows it.
func (m *machine) transition(i int) string { return m.names[i] }

// coverage counts how often each edge of a machine was taken, over all connections.
type coverage struct {
	m      *machine
	counts []int64
}

func newCoverage(m *machine) coverage { return coverage{m: m, counts: make([]int64, len(m.edges))} }

// step takes the edge of input from *state and returns the rule that it violates, or "".
func (c *coverage) step(state *uint8, input uint8) Rule {
	i := int(*state)*len(c.m.inputs) + int(input)
	c.counts[i]++
	*state = c.m.edges[i].to
	return c.m.edges[i].rule
}

// addTo adds the legal transitions to out, those never taken with 0. Violations are findings, not coverage.
func (c *coverage) addTo(out map[string]int64) {
	for i, n := range c.counts {
		if c.m.edges[i].rule == "" {
			out[c.m.transition(i)] += n
		}
	}
}

// addIllegal adds the transitions that are violations to out, those never taken with 0.
func (c *coverage) addIllegal(out map[string]int64) {
	for i, n := range c.counts {
		if c.m.edges[i].rule != "" {
			out[c.m.transition(i)] += n
		}
	}
}

// Requester states, as far as packets that have passed the observer can have brought the requester.
const (
	rqIdle      uint8 = iota // nothing outstanding
	rqSending                // requests outstanding
	rqNacked                 // a NACK (sequence, RNR or implied) is on its way to it or there, and not answered
	rqResending              // in a round of retransmission
	rqFailed                 // a fatal NAK has passed towards it
)

var requesterStates = []string{"idle", "sending", "nacked", "resending", "failed"}

// Requester inputs: requests that it sent, and responses that passed towards it.
const (
	rqNew            uint8 = iota // the next PSN, never sent before
	rqRepeat                      // the next PSN of a round of retransmission
	rqRestartNack                 // back to the PSN that a NACK asked for
	rqRestartRNR                  // back to the PSN of an RNR NAK
	rqRestartImplied              // back to the first missing READ response
	rqRestartTimeout              // back to the oldest unacknowledged PSN, no NACK asking for it
	rqSkipAcked                   // forward over acknowledged PSNs
	rqCaptureGap                  // forward over PSNs that the capture does not hold
	rqRestartAcked                // back to before the oldest PSN that can be unacknowledged
	rqRestartBeyond               // back, but past the oldest unacknowledged PSN
	rqRestartOff                  // back to a PSN that was oldest unacknowledged at no time
	rqRoundGap                    // forward over unacknowledged PSNs sent before
	rqPSNSkip                     // forward over PSNs never sent
	rqAck                         // some more acknowledged
	rqAckAll                      // everything acknowledged
	rqAckOld                      // nothing new acknowledged
	rqNack                        // PSN sequence error for the oldest unacknowledged PSN
	rqRNR                         // RNR NAK for it
	rqImplied                     // response that shows a READ response or atomic ACK to be missing
	rqFatal                       // NAK that ends the connection
)

var requesterInputs = []string{
	"new", "repeat", "restart-nack", "restart-rnr", "restart-implied-nak", "restart-timeout", "skip-acknowledged", "capture-gap",
	"restart-acknowledged", "restart-beyond", "restart-off", "round-gap", "psn-skip",
	"ack", "ack-all", "ack-old", "nack", "rnr", "implied-nak", "fatal-nak",
}

// requesterMachine is the Go-back-N requester (IBTA volume 1, 9.7.2 and 9.7.6; Lumina 5.4).
var requesterMachine = declare("requester", requesterStates, requesterInputs, []row{
	{input: rqNew, to: rqSending},
	{input: rqNew, states: []uint8{rqNacked, rqFailed}, to: stay}, // the old round goes on: packets already in the pipeline
	{input: rqRepeat, to: rqResending},
	{input: rqRepeat, states: []uint8{rqNacked, rqFailed}, to: stay},
	{input: rqRestartNack, to: rqResending},
	{input: rqRestartRNR, to: rqResending},
	{input: rqRestartImplied, to: rqResending},
	{input: rqRestartTimeout, to: rqResending},
	{input: rqRestartTimeout, states: []uint8{rqNacked}, to: stay}, // it crossed the NACK, which is still unanswered
	{input: rqSkipAcked, to: rqSending},
	{input: rqSkipAcked, states: []uint8{rqNacked}, to: stay},
	{input: rqCaptureGap, to: rqSending},
	{input: rqRestartAcked, to: rqResending, rule: RuleResendAcknowledged},
	{input: rqRestartBeyond, to: rqResending, rule: RuleTimeoutStart},
	{input: rqRestartBeyond, states: []uint8{rqNacked}, to: rqResending, rule: RuleRetransmitFirst},
	{input: rqRestartOff, to: rqResending, rule: RuleTimeoutStart},
	{input: rqRestartOff, states: []uint8{rqNacked}, to: rqResending, rule: RuleRetransmitFirst},
	{input: rqRoundGap, to: rqResending, rule: RuleRoundGap},
	{input: rqRoundGap, states: []uint8{rqNacked}, to: rqResending, rule: RuleRetransmitFirst},
	{input: rqPSNSkip, to: rqSending, rule: RulePSNSkip},
	{input: rqAck, to: stay},
	{input: rqAckAll, to: rqIdle},
	{input: rqAckOld, to: stay},
	{input: rqNack, to: rqNacked},
	{input: rqRNR, to: rqNacked},
	{input: rqImplied, to: rqNacked},
	{input: rqFatal, to: rqFailed},
	{input: rqAckAll, states: []uint8{rqFailed}, to: stay},
	{input: rqNack, states: []uint8{rqFailed}, to: stay},
	{input: rqRNR, states: []uint8{rqFailed}, to: stay},
	{input: rqImplied, states: []uint8{rqFailed}, to: stay},
})

// Responder states, as far as requests that have passed the observer can have brought the responder.
const (
	rsReady  uint8 = iota // every request up to the last was in order
	rsGap                 // a request arrived out of order: a NACK is owed
	rsNacked              // the NACK was sent; nothing but the missing request moves it on
	rsRNR                 // an RNR NAK was sent
	rsFailed              // a fatal NAK was sent
)

var responderStates = []string{"ready", "gap", "nacked", "rnr", "failed"}

// Responder inputs: requests that passed towards it, and responses that it sent.
const (
	rsExpected  uint8 = iota // the expected PSN
	rsDuplicate              // a PSN before the expected one
	rsAhead                  // a PSN after the expected one: the first sign of a gap
	rsDiscarded              // a PSN after the expected one while the NACK is out
	rsTrimmed                // the header of a trimmed request shows the expected one to be missing
	rsAck                    // acknowledges more
	rsAckAgain               // acknowledges the same again
	rsReAck                  // answers a duplicate below what was acknowledged
	rsNack
	rsRNRNak
	rsReadFirst    // starts to answer a READ
	rsReadNext     // goes on with it
	rsReadReplay   // starts to answer a duplicate READ
	rsReplayKernel // the same, but with MIDDLE or LAST, as the Linux kernel does
	rsAtomicAck
	rsFatal
	rsAckBeyond
	rsAckDecreasing
	rsNackWrongPSN
	rsNackRepeat
	rsNackDuplicate
	rsNackUnprovoked
	rsNackMissing
	rsRNRUnprovoked
	rsReadUnexpected
	rsReadOutOfOrder
	rsReadMissing
	rsAtomicUnexpected
	rsFatalMissing
)

var responderInputs = []string{
	"expected", "duplicate", "ahead", "discarded", "trimmed", "ack", "ack-again", "re-ack", "nack", "rnr-nak", "read-first", "read-next",
	"read-replay", "read-replay-kernel", "atomic-ack", "fatal-nak",
	"ack-beyond", "ack-decreasing", "nack-wrong-psn", "nack-repeat", "nack-duplicate", "nack-unprovoked", "nack-missing",
	"rnr-unprovoked", "read-unexpected", "read-out-of-order", "read-missing", "atomic-unexpected", "fatal-missing",
}

// responderMachine is the Go-back-N responder (IBTA volume 1, 9.7.4 and 9.7.5; Lumina 5.4).
var responderMachine = declare("responder", responderStates, responderInputs, []row{
	{input: rsExpected, to: rsReady},
	{input: rsDuplicate, to: stay},
	{input: rsAhead, to: rsGap},
	{input: rsDiscarded, to: stay},
	{input: rsTrimmed, to: stay}, // a receiver that does not react takes no notice
	{input: rsAck, to: stay},
	{input: rsAckAgain, to: stay},
	{input: rsReAck, to: stay},
	{input: rsNack, to: stay}, // late: the missing request has already passed
	{input: rsNack, states: []uint8{rsGap}, to: rsNacked},
	{input: rsRNRNak, to: rsRNR},
	{input: rsReadFirst, to: stay},
	{input: rsReadNext, to: stay},
	{input: rsReadReplay, to: stay},
	{input: rsReplayKernel, to: stay, rule: RuleReplayOpcode},
	{input: rsAtomicAck, to: stay},
	{input: rsFatal, to: rsFailed},
	{input: rsAckBeyond, to: stay, rule: RuleAckBeyond},
	{input: rsAckDecreasing, to: stay, rule: RuleAckDecreasing},
	{input: rsNackWrongPSN, to: stay, rule: RuleNakPSN},
	{input: rsNackRepeat, to: stay, rule: RuleNakRepeat},
	{input: rsNackDuplicate, to: stay, rule: RuleNakDuplicate},
	{input: rsNackUnprovoked, to: stay, rule: RuleNakUnprovoked},
	{input: rsNackMissing, to: stay, rule: RuleNakMissing},
	{input: rsRNRUnprovoked, to: stay, rule: RuleRNRUnprovoked},
	{input: rsReadUnexpected, to: stay, rule: RuleReadUnexpected},
	{input: rsReadOutOfOrder, to: stay, rule: RuleReadOrder},
	{input: rsReadMissing, to: stay, rule: RuleReadMissing},
	{input: rsAtomicUnexpected, to: stay, rule: RuleAtomicUnexpected},
	{input: rsFatalMissing, to: stay, rule: RuleNakFatalMissing},
	{input: rsExpected, states: []uint8{rsFailed}, to: stay},
	{input: rsAhead, states: []uint8{rsFailed}, to: stay},
	{input: rsRNRNak, states: []uint8{rsFailed}, to: stay},
})
