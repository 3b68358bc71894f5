// Package injector defines events and turns the events of a test into entries of the injector's tables, over P4Runtime
// only.
//
// The orchestrator resolves the relative numbers of a configuration into [Intent]s; [Connection]s have the numbers that
// the endpoints drew at run time. Translating both into table entries is pure; only [Client] communicates.
package injector

import (
	"net/netip"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Endpoint is one side of a connection as the wire shows it. QPN and IPSN are its own: packets to it carry its QPN, and
// its requests start at its IPSN.
type Endpoint struct {
	IP   netip.Addr
	QPN  packet.QPN
	IPSN packet.PSN
}

// Connection is one RC connection; its number is its place in the list, from 1.
type Connection struct {
	Requester, Responder Endpoint
}

// IterScope says what an event's ITER counts.
type IterScope uint8

// Iter scopes.
const (
	// IterConnection counts rounds of transmission per (flow, space), as Lumina's paper does.
	IterConnection IterScope = iota
	// IterMessage counts as Lumina's prototype does: every PSN other than last+1 starts a round, and a message's first
	// packet that arrives in order returns to round 1.
	IterMessage
	// IterPacket counts how often the injector has seen this PSN.
	IterPacket
)

// String returns the scope in the words of the configuration.
func (s IterScope) String() string {
	return [...]string{"connection", "message", "packet"}[s]
}

// Any, as an Iter or Nth, matches every round or arrival.
const Any = 0

// TrimFlags are the options of a trim.
type TrimFlags = packet.TrimFlags

// Trim flags of the injector contract.
const (
	TrimSetDSCP         = packet.TrimSetDSCP
	TrimUpdateIPLength  = packet.TrimUpdateIPLength
	TrimUpdateUDPLength = packet.TrimUpdateUDPLength
)

// Action is what to do to a packet.
type Action struct {
	Type trace.EventType
	// Params are the parameters in the order of the P4Info. Their number distinguishes actions of one event: see
	// [trace.Actions].
	Params []uint64
}

// NewAction returns an action with parameters.
func NewAction(event trace.EventType, params ...uint64) Action { return Action{event, params} }

// Row returns what is declared of the action.
func (a Action) Row() *trace.Action { return trace.ActionOf(a.Type, len(a.Params)) }

// Rewritten returns the field that a rewrite sets, and its value; RewriteNone for other actions. The PSN of an intent
// counts from 1.
func (a Action) Rewritten() (packet.RewriteField, uint64) {
	if a.Type != trace.EventRewrite || len(a.Params) != 2 {
		return packet.RewriteNone, 0
	}
	return packet.RewriteField(a.Params[0]), a.Params[1]
}

// Intent is one event of a test, resolved as far as it can be before the endpoints have drawn their numbers.
type Intent struct {
	Index int    // of the event in the configuration's list, from 0
	Where string // config path and position, for errors: "drop.yml:14:9: traffic.data-pkt-events[1]"

	Flow  trace.FlowID
	Space packet.Space
	Class packet.Class // ClassData for data packets
	// RelPSN is the packet's 1-based place in its PSN space, 0 for a control event addressed by ordinal alone.
	RelPSN int64
	// Nth is ITER for data packets and the ordinal for control packets, from 1, or Any.
	Nth   uint16
	Scope IterScope // of data packets

	Action Action
}
