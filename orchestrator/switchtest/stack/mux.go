// Package stack has the simplest transports of simulated hosts: packets at a rate that nothing slows down, echo
// requests and their answers, and a mux that puts several transports behind one NIC.
package stack

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Mux is several transports behind one NIC. Arriving packets go to the transport of their protocol; when the NIC is
// free they are asked for a packet in turn.
type Mux struct {
	parts []part
	turn  int
}

type part struct {
	protocol fabric.Protocol
	stack    fabric.Stack
}

// Add puts a transport behind the NIC; each protocol has one.
func (m *Mux) Add(protocol fabric.Protocol, s fabric.Stack) {
	m.parts = append(m.parts, part{protocol, s})
}

// Stack returns the mux, or its transport if there is just one: then nothing stands between.
func (m *Mux) Stack() fabric.Stack {
	if len(m.parts) == 1 {
		return m.parts[0].stack
	}
	return m
}

// Receive implements fabric.Stack. Packets of a protocol that the host lacks are lost on it, as on a real one.
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
