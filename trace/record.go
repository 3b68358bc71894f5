// Package trace is the model of what an observer at the injector saw: one compact [Record] per RoCE packet, the mirror
// encoding and pcap files that carry records between programs, the connections that packets belong to, and [Checked],
// the only kind of trace that analyzers accept.
package trace

import "candela.dev/candela/packet"

// FlowID names a directed flow: 2·(connection−1), plus 1 for responder → requester.
type FlowID int32

// NoFlow marks a packet of no known connection.
const NoFlow FlowID = -1

// Connection returns the 1-based connection of f, or 0 for NoFlow.
func (f FlowID) Connection() int {
	if f < 0 {
		return 0
	}
	return int(f)/2 + 1
}

// Reverse reports whether f runs from responder to requester.
func (f FlowID) Reverse() bool { return f >= 0 && f&1 == 1 }

// Peer returns the flow in the other direction.
func (f FlowID) Peer() FlowID {
	if f < 0 {
		return f
	}
	return f ^ 1
}

// NewFlowID returns the flow of a 1-based connection.
func NewFlowID(connection int, reverse bool) FlowID {
	f := FlowID(2 * (connection - 1))
	if reverse {
		f++
	}
	return f
}

// Flags are the yes-or-no properties of a Record.
type Flags uint32

// Flags of a Record. A mirror copy has both Sent and Passed; in a pair of captures around the injector the first has
// Sent records and the second Passed ones.
const (
	Sent Flags = 1 << iota // seen on its way from the sender: proves what the sender did
	// seen on its way to the receiver (unless the event says otherwise): bounds what the receiver knows
	Passed
	AckReq    // BTH acknowledge request
	Solicited // BTH solicited event
	FECN      // BTH
	BECN      // BTH
	Truncated // captured shorter than the packet was
	HasAETH
	HasRETH
	// The receiver must refuse access: the injector changed the remote key, or an earlier SEND invalidated it. See
	// [Checked.WithDepartures] and [Checked.WithInvalidations]. Or the partition key is not the receiver's, which must
	// drop the packet silently. See [Partitions].
	ForeignRKey
	ForeignPKey
	// What a frame shows of an IP packet that was cut short: its IP header announces more bytes than follow, its IPv4
	// header checksum is wrong, its UDP source port changed. Only in pairs of captures.
	IPLengthStale
	IPChecksumBad
	PortChanged
	// TrimUnmarked: the trimmed packet lacks the mark that its receiver looks for. See [Checked.WithTrims].
	TrimUnmarked
	// HasCM: a datagram with a message of the connection manager, see [Record.CM].
	HasCM
	MigReq // BTH migration request
)

// Record is one observation of one RoCE packet. It has no pointers, so that a million of them cost the garbage
// collector nothing.
type Record struct {
	ID     uint64 // mirror sequence number, or the 1-based frame number of a plain capture
	TimeNS int64  // unwrapped nanoseconds on the observer's clock; the origin is that of the capture file
	VA     uint64 // RETH or AtomicETH; of an atomic ACK the AtomicAckETH, see Original

	PSN        packet.PSN
	DestQP     packet.QPN
	Flow       FlowID
	DMALen     uint32 // RETH
	MSN        uint32 // AETH
	RKey       uint32 // RETH or AtomicETH; of a SEND with invalidate the key in its IETH
	Operand    uint64 // immediate data, or what an atomic adds or swaps in
	Compare    uint64 // what a COMPARE SWAP compares with
	PayloadLen uint16 // bytes without pad, as the packet announces even if the capture is shorter
	PKey       uint16 // BTH partition key
	SrcPort    uint16 // UDP source port
	// reserved bits of the BTH: those next to FECN and BECN in the high byte, those next to the acknowledge request in the
	// low one
	Reserved uint16
	Flags    Flags
	Version  uint8 // transport header version
	Opcode   packet.Opcode
	Syndrome packet.Syndrome // AETH
	Event    EventType
	ECN      packet.ECN // as the packet arrived, before the event
	ICRC     packet.ICRCStatus
	PadCount uint8
	DSCP     uint8
	Payload  PayloadHash // of what the capture holds of the payload; only [Checked.Payloads] asks for it
}

// Has reports whether all of flags f are set.
func (r *Record) Has(f Flags) bool { return r.Flags&f == f }

// Original returns the value that an atomic found in memory, if r is the answer to one.
func (r *Record) Original() (value uint64, ok bool) {
	return r.VA, r.Opcode == packet.AtomicAcknowledge
}

// CM returns the message of the connection manager that r carries, if it does.
func (r *Record) CM() (c packet.CM, ok bool) {
	if r.Flags&HasCM == 0 {
		return packet.CM{}, false
	}
	return packet.CM{
		Attribute: packet.CMAttribute(r.DMALen >> 24), QPN: packet.QPN(r.DMALen & maxUint24),
		LocalID: uint32(r.VA), RemoteID: uint32(r.VA >> 32), StartingPSN: packet.PSN(r.MSN),
		MTU: uint16(r.RKey & 0x1fff), Service: uint8(r.RKey >> 13 & 3), Retry: uint8(r.RKey >> 15 & 7),
		Timeout: uint8(r.RKey >> 18 & 31), RNRRetry: uint8(r.RKey >> 23 & 7), Reason: uint16(r.PKey),
	}, true
}

// setCM makes r carry a message of the connection manager in header fields that a datagram does not have. The partition
// key field has the reason of a rejection.
func (r *Record) setCM(c *packet.CM) {
	r.Flags |= HasCM
	r.DMALen, r.VA, r.MSN = uint32(c.Attribute)<<24|uint32(c.QPN), uint64(c.RemoteID)<<32|uint64(c.LocalID),
		uint32(c.StartingPSN)
	r.RKey = uint32(c.MTU)&0x1fff | uint32(c.Service&3)<<13 | uint32(c.Retry&7)<<15 | uint32(c.Timeout&31)<<18 | uint32(
		c.RNRRetry&7)<<23
	r.PKey = c.Reason
}

// Class returns the injector's classification of the packet.
func (r *Record) Class() packet.Class { return packet.Classify(r.Opcode, r.Syndrome) }

// Delivered reports whether the receiver gets the packet and accepts its iCRC and its partition, as far as the observer
// knows.
func (r *Record) Delivered() bool {
	if r.Flags&Passed == 0 || r.Flags&ForeignPKey != 0 || r.ICRC == packet.ICRCInvalid {
		return false
	}
	return !r.Lost()
}

// Lost reports whether the injector kept the receiver from getting the packet or from accepting its iCRC.
func (r *Record) Lost() bool {
	return r.Event.Loses()
}

// Marked reports whether the packet carries CE when it reaches the receiver.
func (r *Record) Marked() bool { return r.ECN == packet.CE || r.Event.Marks() }
