// Package generator describes the traffic of endpoints, both of our own transport models
// ([candela.dev/candela/generator/rdma]) and of real NICs.
package generator

import (
	"fmt"

	"candela.dev/candela/packet"
)

// Verb is an operation.
type Verb uint8

// Verbs of the reliable connection service.
const (
	VerbNone Verb = iota
	Write
	WriteImm
	Send
	SendImm
	Read
	CompareSwap
	FetchAdd
	SendInvalidate
)

var verbs = [...]string{"none", "write", "write-imm", "send", "send-imm", "read", "compare-swap", "fetch-add",
	"send-invalidate"}

// String returns the name in the configuration.
func (v Verb) String() string {
	if int(v) < len(verbs) {
		return verbs[v]
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

// ParseVerb returns the verb with a name in the configuration.
func ParseVerb(name string) (Verb, bool) {
	for i, n := range verbs {
		if n == name && i != 0 {
			return Verb(i), true
		}
	}
	return VerbNone, false
}

// Wire returns the verb that opcodes distinguish.
func (v Verb) Wire() packet.Verb {
	switch v {
	case Write, WriteImm:
		return packet.VerbWrite
	case Send, SendImm, SendInvalidate:
		return packet.VerbSend
	case Read:
		return packet.VerbRead
	case CompareSwap, FetchAdd:
		return packet.VerbAtomic
	case VerbNone:
	}
	return packet.VerbNone
}

// IsAtomic reports whether the operation is an atomic, which always works on eight bytes.
func (v Verb) IsAtomic() bool { return v == CompareSwap || v == FetchAdd }

// ConsumesReceive reports whether the operation consumes a receive request at the responder.
func (v Verb) ConsumesReceive() bool {
	return v == Send || v == SendImm || v == SendInvalidate || v == WriteImm
}

// PSNs returns the number of PSNs of a message of length bytes at a path MTU: at least one, and exactly one for
// atomics.
func (v Verb) PSNs(length, mtu int) int {
	if v.IsAtomic() {
		return 1
	}
	return max(1, (length+mtu-1)/mtu)
}

// Traffic is the traffic of one connection in one direction of requests.
type Traffic struct {
	Verbs       []Verb // cyclic: message i uses Verbs[i % len]
	Messages    int
	MessageSize int // bytes; ignored by atomics
	MTU         int // path MTU in bytes of payload
	TxDepth     int // outstanding work requests
	// StaleRKey makes requests keep the initial remote key after a SEND has invalidated it: the responder must reject
	// them.
	StaleRKey bool
}

// Message is one message of a Traffic's schedule.
type Message struct {
	Index    int // from 0
	Verb     Verb
	Length   int   // bytes
	FirstPSN int64 // relative, 1-based, in the request space of its requester
	PSNs     int
}

// Schedule calls yield for every message in order until it returns false.
func (t Traffic) Schedule(yield func(Message) bool) {
	psn := int64(1)
	for i := range t.Messages {
		m := Message{Index: i, Verb: t.Verbs[i%len(t.Verbs)], Length: t.MessageSize, FirstPSN: psn}
		if m.Verb.IsAtomic() {
			m.Length = 8
		}
		m.PSNs = m.Verb.PSNs(m.Length, t.MTU)
		if !yield(m) {
			return
		}
		psn += int64(m.PSNs)
	}
}

// TurnedRKey returns the remote key of memory with initial key rkey after n invalidations and re-registrations. The
// application counts them in the low eight bits of the key, so that old requests can't reach new memory.
func TurnedRKey(rkey uint32, n int) uint32 { return rkey&^0xff | uint32(uint8(rkey)+uint8(n)) }
