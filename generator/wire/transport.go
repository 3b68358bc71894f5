package wire

import (
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/trace"
)

// Transport is the declaration of a transport of switch tests: parameters, seeded bugs, codec, and access to its
// packets. The registry adds its endpoints on a network and the judge of its hosts.
type Transport struct {
	parameter.Model
	Protocol trace.Protocol // of its packets
	Internal bool           // not named in test files, but used by kinds of workload

	Reliable      bool // all data arrives eventually
	OnePacketSize bool // all flows of a host have one packet size
	ToItself      bool // a host can send to itself
	OpenLoop      bool // flows may have a rate
	Ranks         bool // flows may have ranks
	RankTable     bool // packets carry none: the switch has a table of the ranks of flows
	Simulated     bool // judged by exact times, so not on real frames
	Unanswered    bool // no retransmissions: a flow is complete when a part of each packet has arrived

	Ranking Ranking // of flows that do not say

	*Codec

	// Access to packets. nil: the value is in the packet's own fields.
	Data       func(h *Header) bool // h carries, or carried, data of a flow; nil: all but notifications
	Connection func(h *Header) uint32
	Sequence   func(h *Header) uint64 // of a data packet, in its flow
	Payload    func(h *Header) int    // bytes in a whole data packet
}

// Carries reports whether a packet carries, or carried before trimming, data of a flow.
func (t *Transport) Carries(h *Header) bool {
	if t.Data != nil {
		return t.Data(h)
	}
	return h.Flags&trace.Notification == 0
}

// SequenceOf returns the number of a data packet in its flow.
func (t *Transport) SequenceOf(h *Header) uint64 {
	if t.Sequence != nil {
		return t.Sequence(h)
	}
	return uint64(h.Number)
}

// PayloadOf returns the bytes of payload in a whole data packet.
func (t *Transport) PayloadOf(h *Header) int {
	if t.Payload != nil {
		return t.Payload(h)
	}
	return max(0, int(h.Size)-t.HeaderSize(h.IPv6))
}

// ConnectionOf returns the number of the packet's connection.
func (t *Transport) ConnectionOf(h *Header) uint32 {
	if t.Connection != nil {
		return t.Connection(h)
	}
	return h.Flow
}

// PacketSize returns a parameter of every transport.
func PacketSize() parameter.Parameter {
	return parameter.Parameter{Name: "packet-size", Kind: parameter.Integer, Unit: "bytes", Default: "1500", Min: 128,
		Max: 9216,
		Doc: "Bytes of a full frame without FCS, headers included."}
}

// ECN returns the parameter of transports whose data packets may carry ECT.
func ECN() parameter.Parameter {
	return parameter.Parameter{Name: "ecn", Kind: parameter.Word, Words: []string{"not-ect", "ect0", "ect1"},
		Default: "not-ect",
		Doc:     "ECN codepoint of data packets."}
}
