package ndp

import "fmt"

// A machine is a finite state machine declared as a table: state × input → next state, or a violation. It says what is legal;
// which input an observation amounts to is worked out by sender.go and receiver.go.
type machine struct {
	name   string
	states []string
	inputs []string
	edges  []edge // state·len(inputs) + input
}

type edge struct {
	to   uint8
	rule Rule // that this input breaks in this state; "" if it is legal
}

// A row declares edges: input in any of the states leads to state to, or stays where it is.
type row struct {
	input  uint8
	states []uint8 // nil: every state
	to     uint8   // or stay
	rule   Rule
}

const (
	stay       = 0xfe
	undeclared = 0xff // of no row yet
)

// declare builds a machine from rows; a later row overrides an earlier one, so general rows come first.
func declare(name string, states, inputs []string, rows []row) *machine {
	m := &machine{name: name, states: states, inputs: inputs, edges: make([]edge, len(states)*len(inputs))}
	for i := range m.edges {
		m.edges[i].to = undeclared
	}
	for _, r := range rows {
		of := r.states
		if of == nil {
			for s := range states {
				of = append(of, uint8(s))
			}
		}
		for _, s := range of {
			to := r.to
			if to == stay {
				to = s
			}
			m.edges[int(s)*len(inputs)+int(r.input)] = edge{to: to, rule: r.rule}
		}
	}
	return m
}

// holes lists pairs of state and input that no row declares.
func (m *machine) holes() []string {
	var out []string
	for i, e := range m.edges {
		if e.to == undeclared {
			out = append(out, m.states[i/len(m.inputs)]+"/"+m.inputs[i%len(m.inputs)])
		}
	}
	return out
}

func (m *machine) transition(i int) string {
	e := m.edges[i]
	return fmt.Sprintf("%s: %s + %s -> %s", m.name, m.states[i/len(m.inputs)], m.inputs[i%len(m.inputs)], m.states[e.to])
}

// coverage counts how often each edge of a machine was taken, over all packets.
type coverage struct {
	m      *machine
	counts []int64
}

func newCoverage(m *machine) coverage { return coverage{m: m, counts: make([]int64, len(m.edges))} }

// step takes the edge of input from *state and returns the rule that it breaks, or "".
func (c *coverage) step(state *uint8, input uint8) Rule {
	i := int(*state)*len(c.m.inputs) + int(input)
	c.counts[i]++
	*state = c.m.edges[i].to
	return c.m.edges[i].rule
}

// addTo adds the legal transitions to out, those never taken with 0.
func (c *coverage) addTo(out map[string]int64) {
	for i, n := range c.counts {
		if c.m.edges[i].rule == "" {
			out[c.m.transition(i)] += n
		}
	}
}

// States of a packet at its sender, as far as what has passed towards it can have brought it.
const (
	txUnsent uint8 = iota
	txSent
	txNacked   // trimmed, and the sender told so
	txReturned // its header passed on the way back
	txAcked
)

var senderStates = []string{"unsent", "sent", "nacked", "returned", "acked"}

// Sender inputs: transmissions of the packet, and answers that passed towards the sender.
const (
	inNew          uint8 = iota // sent for the first time
	inAgain                     // sent again, before the RTO has run out
	inAgainLate                 // sent again, after it
	inAgainCrossed              // sent again when an ACK has passed that the sender may not have yet
	inAck
	inNack
	inReturn
)

var senderInputs = []string{"new", "again", "again-after-rto", "again-crossing-ack", "ack", "nack", "return"}

// senderMachine is one packet as its sender has to treat it (specification, section 5). A NACK or a return allows one
// retransmission, the RTO allows one, an ACK allows none.
var senderMachine = declare("sender", senderStates, senderInputs, []row{
	{input: inNew, to: txSent, rule: RuleSeqSkip},
	{input: inNew, states: []uint8{txUnsent}, to: txSent},
	{input: inAgain, to: txSent},
	{input: inAgain, states: []uint8{txUnsent}, to: txSent, rule: RuleSeqSkip},
	{input: inAgain, states: []uint8{txSent}, to: txSent, rule: RuleTimeoutEarly},
	{input: inAgain, states: []uint8{txAcked}, to: txAcked, rule: RuleSpurious},
	{input: inAgainLate, to: txSent},
	{input: inAgainLate, states: []uint8{txUnsent}, to: txSent, rule: RuleSeqSkip},
	{input: inAgainLate, states: []uint8{txAcked}, to: txAcked, rule: RuleSpurious},
	{input: inAgainCrossed, to: stay},
	{input: inAck, to: txAcked},
	{input: inAck, states: []uint8{txUnsent}, to: stay},
	{input: inNack, to: txNacked},
	{input: inNack, states: []uint8{txUnsent, txAcked, txReturned}, to: stay},
	{input: inReturn, to: txReturned},
	{input: inReturn, states: []uint8{txUnsent, txAcked, txNacked}, to: stay},
})

// States of a packet at its receiver, as far as its answers prove it.
const (
	rxMissing uint8 = iota
	rxHeader        // a header was delivered: a NACK is owed
	rxWhole         // the packet was delivered: an ACK is owed
	rxNacked
	rxAcked
)

var receiverStates = []string{"missing", "header", "whole", "nacked", "acked"}

// Receiver inputs: deliveries, and answers that answer one of them or none.
const (
	inHeader uint8 = iota
	inWhole
	inAcks       // an ACK, and a whole packet is unanswered (or a header of one that came whole before)
	inAcksAgain  // an ACK, and every delivery is answered
	inNacks      // a NACK, and a header is unanswered
	inNacksAgain // a NACK, and every header is answered
)

var receiverInputs = []string{"header", "whole", "ack", "ack-again", "nack", "nack-again"}

// receiverMachine is one packet as its receiver has to answer it (specification, section 5).
var receiverMachine = declare("receiver", receiverStates, receiverInputs, []row{
	{input: inHeader, to: rxHeader},
	{input: inHeader, states: []uint8{rxWhole, rxAcked}, to: stay}, // late: it is here already
	{input: inWhole, to: rxWhole},
	{input: inWhole, states: []uint8{rxAcked}, to: stay},
	{input: inAcks, to: rxAcked},
	{input: inAcks, states: []uint8{rxMissing}, to: stay, rule: RuleAckUnprovoked},
	{input: inAcks, states: []uint8{rxHeader, rxNacked}, to: stay, rule: RuleAckTrimmed},
	{input: inAcksAgain, to: stay, rule: RuleAckUnprovoked},
	{input: inAcksAgain, states: []uint8{rxHeader, rxNacked}, to: stay, rule: RuleAckTrimmed},
	{input: inNacks, to: stay}, // of a header that came before the packet did
	{input: inNacks, states: []uint8{rxHeader}, to: rxNacked},
	{input: inNacks, states: []uint8{rxMissing}, to: stay, rule: RuleNackUnprovoked},
	{input: inNacksAgain, to: stay, rule: RuleNackUnprovoked},
	{input: inNacksAgain, states: []uint8{rxWhole}, to: stay, rule: RuleNackWhole},
	{input: inNacksAgain, states: []uint8{rxAcked}, to: stay, rule: RuleNackWhole},
})
