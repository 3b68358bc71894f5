// Package generator describes the traffic that endpoints produce, independent of who produces it: our own transport
// models ([candela.dev/candela/generator/rdma]) or real NICs.
package generator

import (
	"fmt"

	"candela.dev/candela/packet"
)

// Verb is an operation as the configuration names it.
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

// String returns the verb in the words of the configuration.
func (v Verb) String() string {
	if int(v) < len(verbs) {
		return verbs[v]
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

// ParseVerb returns the verb that a configuration names.
func ParseVerb(name string) (Verb, bool) {
	for i, n := range verbs {
		if n == name && i != 0 {
			return Verb(i), true
		}
	}
	return VerbNone, false
}

// Wire returns the verb as opcodes distinguish it.
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

// IsAtomic reports whether the operation always works on eight bytes.
func (v Verb) IsAtomic() bool { return v == CompareSwap || v == FetchAdd }

// ConsumesReceive reports whether the operation takes a receive work request at the responder.
func (v Verb) ConsumesReceive() bool {
	return v == Send || v == SendImm || v == SendInvalidate || v == WriteImm
}

// PSNs returns how many packet sequence numbers one message of length bytes consumes at the given path MTU: at least
// one, and exactly one for atomics.
func (v Verb) PSNs(length, mtu int) int {
	if v.IsAtomic() {
		return 1
	}
	return max(1, (length+mtu-1)/mtu)
}

// Traffic is what one connection carries in one direction of requests.
type Traffic struct {
	Verbs       []Verb // cyclic: message i uses Verbs[i % len]
	Messages    int
	MessageSize int // bytes; ignored by atomics
	MTU         int // path MTU in bytes of payload
	TxDepth     int // outstanding work requests
	// StaleRKey makes requests go on with the remote key of the start after a SEND has invalidated it: they must be
	// refused.
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

// TurnedRKey returns the remote key that memory with key rkey has after it was invalidated and registered again n
// times: the low eight bits of a key belong to the application, which counts in them, so that old requests can't reach
// new memory.
func TurnedRKey(rkey uint32, n int) uint32 { return rkey&^0xff | uint32(uint8(rkey)+uint8(n)) }
