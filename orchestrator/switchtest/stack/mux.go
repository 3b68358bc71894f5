// Package stack has the simplest transports of simulated hosts: packets at a constant rate, echo requests and answers,
// and a mux that connects several transports to one NIC.
package stack

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Mux connects several transports to one NIC. An arriving packet goes to the transport of its protocol. When the NIC is
// free, the transports are polled in turn.
type Mux struct {
	parts []part
	turn  int
}

type part struct {
	protocol fabric.Protocol
	stack    fabric.Stack
}

// Add adds a transport; each protocol has one.
func (m *Mux) Add(protocol fabric.Protocol, s fabric.Stack) {
	m.parts = append(m.parts, part{protocol, s})
}

// Stack returns the mux, or its only transport.
func (m *Mux) Stack() fabric.Stack {
	if len(m.parts) == 1 {
		return m.parts[0].stack
	}
	return m
}

// Receive implements fabric.Stack. It drops packets of protocols that the host does not have, as a real host does.
func (m *Mux) Receive(now clock.Time, p *fabric.Packet) {
	for i := range m.parts {
		if m.parts[i].protocol == p.Protocol {
			m.parts[i].stack.Receive(now, p)
			return
		}
	}
}

// Poll implements fabric.Stack.
func (m *Mux) Poll(now clock.Time, p *fabric.Packet) bool {
	for i := range m.parts {
		next := (m.turn + i) % len(m.parts)
		if m.parts[next].stack.Poll(now, p) {
			m.turn = next + 1
			return true
		}
	}
	return false
}

// NextTimer implements fabric.Stack.
func (m *Mux) NextTimer() clock.Time {
	at := clock.Never
	for i := range m.parts {
		at = min(at, m.parts[i].stack.NextTimer())
	}
	return at
}

// HandleTimer implements fabric.Stack.
func (m *Mux) HandleTimer(now clock.Time) {
	for i := range m.parts {
		if m.parts[i].stack.NextTimer() <= now {
			m.parts[i].stack.HandleTimer(now)
		}
	}
}
