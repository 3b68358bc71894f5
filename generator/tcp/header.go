package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"candela.dev/candela/clock"
)

// Block is a range of sequence numbers, End excluded; empty: none.
type Block struct{ Start, End uint32 }

// Flags are those of RFC 9293 that occur here, as on the wire.
type Flags uint8

// Flags.
const (
	FlagPSH Flags = 1 << 3
	FlagACK Flags = 1 << 4
)

// WindowScale is the shift of Header.Window (RFC 7323), the same at both ends.
const WindowScale = 10

// Header is a TCP header without ports and checksum, which belong to whoever carries it.
type Header struct {
	Seq, Ack uint32
	SACK     Block  // option of ACKs
	Window   uint16 // in units of 1<<WindowScale bytes
	Flags    Flags
}

// HeaderLen is the length of every header here: 20 bytes and 12 of options, which hold a SACK block or nothing. Linux's
// segments have the same length: their options hold time stamps.
const HeaderLen = 32

const (
	optionNOP  = 1
	optionSACK = 5
	blockLen   = 10 // SACK option with one block
)

// ErrForeign says that bytes are no header of this package.
var ErrForeign = errors.New("not a TCP header of this kind")

// AppendTo appends the header with the given ports and a checksum of zero.
func (h *Header) AppendTo(b []byte, src, dst uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint32(b, h.Seq)
	b = binary.BigEndian.AppendUint32(b, h.Ack)
	b = append(b, HeaderLen/4<<4, byte(h.Flags))
	b = binary.BigEndian.AppendUint16(b, h.Window)
	b = append(b, 0, 0, 0, 0, optionNOP, optionNOP)
	if h.SACK == (Block{}) {
		return append(b, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP,
			optionNOP)
	}
	b = append(b, optionSACK, blockLen)
	b = binary.BigEndian.AppendUint32(b, h.SACK.Start)
	return binary.BigEndian.AppendUint32(b, h.SACK.End)
}

// Parse decodes a header that AppendTo made. On error h is unchanged.
func (h *Header) Parse(b []byte) error {
	switch {
	case len(b) < HeaderLen:
		return fmt.Errorf("%w: %d bytes, want at least %d", ErrForeign, len(b), HeaderLen)
	case b[12] != HeaderLen/4<<4:
		return fmt.Errorf("%w: data offset %d, want %d words", ErrForeign, b[12]>>4, HeaderLen/4)
	case Flags(b[13])&^(FlagPSH|FlagACK) != 0:
		return fmt.Errorf("%w: flags 0x%02x", ErrForeign, b[13])
	}
	g := Header{
		Seq: binary.BigEndian.Uint32(b[4:]), Ack: binary.BigEndian.Uint32(b[8:]), Flags: Flags(b[13]),
		Window: binary.BigEndian.Uint16(b[14:]),
	}
	switch {
	case b[22] == optionSACK && b[23] == blockLen:
		g.SACK = Block{binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint32(b[28:])}
	case b[22] != optionNOP:
		return fmt.Errorf("%w: option %d", ErrForeign, b[22])
	}
	*h = g
	return nil
}

// Endpoint is the address of a host. The core compares endpoints and nothing else.
type Endpoint uint32

// Packet is what crosses the border of a host.
type Packet struct {
	From, To   Endpoint
	Connection uint32
	Header     Header
	Payload    int // bytes
	// Number tells packets apart for observers, and is not on the wire: of data the segment's number in its direction of
	// the connection, from 0, again in retransmissions; of packets without payload a number that no other has.
	Number uint64
	// Trimmed: the payload was cut on the way.
	Trimmed bool
}

// numberAck is set in the Number of packets without payload.
const numberAck = 1 << 63

// sequence is a 32-bit number on the wire and its place in the stream.
func (c *Config) sequence(offset uint64) uint32 { return uint32(offset) + c.FirstSequence }

// offset returns the place in the stream, nearest to one that is known, of a number on the wire; false if it lies
// before the stream.
func (c *Config) offset(sequence uint32, near uint64) (uint64, bool) {
	at := int64(near) + int64(int32(sequence-c.FirstSequence-uint32(near)))
	return uint64(at), at >= 0
}

// Control is a congestion control.
type Control uint8

// Congestion controls.
const (
	Cubic Control = iota // RFC 9438, Linux's default
	Reno                 // RFC 5681
)

// Config describes a host.
type Config struct {
	Address       Endpoint
	MSS           int            // payload of a full segment in bytes
	InitialWindow int            // segments; Linux: 10
	ReceiveWindow int            // bytes; Linux grows it to 6 MiB
	MinRTO        clock.Duration // Linux: 200 ms
	DelayedACK    clock.Duration // Linux: 40 ms; 0: every segment is acknowledged at once
	Control       Control
	FirstSequence uint32 // of every connection, at both ends
}

const (
	maxRTO    = 120 * clock.Second // Linux
	quickACKs = 16                 // segments that a new connection acknowledges at once, as Linux does
	dupThresh = 3                  // RFC 6675
	minWindow = 2                  // segments, of the slow-start threshold (RFC 5681)
)

// tellable is as much of the receive window as a header can tell: whole units of 1<<WindowScale bytes.
func (c *Config) tellable() int { return c.ReceiveWindow >> WindowScale << WindowScale }

// Validate reports what is wrong.
func (c *Config) Validate() error {
	switch {
	case c.MSS < 1 || c.MSS > 1<<16:
		return fmt.Errorf("MSS %d: must be 1 to 65536 bytes", c.MSS)
	case c.InitialWindow < 1 || c.InitialWindow > 1<<20:
		return fmt.Errorf("initial window %d: must be 1 to %d segments", c.InitialWindow, 1<<20)
	case c.tellable() < c.MSS || c.ReceiveWindow > 0xffff<<WindowScale:
		return fmt.Errorf(
			"receive window %d: must be at least the MSS (%d), rounded up to a multiple of %d, and at most %d bytes",
			c.ReceiveWindow, c.MSS, 1<<WindowScale, 0xffff<<WindowScale)
	case c.MinRTO <= 0 || c.MinRTO > maxRTO:
		return fmt.Errorf("minimum RTO %v: must be positive, at most %v", c.MinRTO, maxRTO)
	case c.DelayedACK < 0 || c.DelayedACK > clock.Second:
		return fmt.Errorf("delayed ACK %v: must be 0 to 1 s", c.DelayedACK)
	case c.Control > Reno:
		return fmt.Errorf("congestion control %d is unknown", c.Control)
	}
	return nil
}

// EventKind says what happened.
type EventKind uint8

// Kinds of events.
const (
	Delivered    EventKind = 1 + iota // Bytes: of the stream from Peer that have arrived in order
	Acknowledged                      // everything written so far has been acknowledged; Bytes: how much
	Retransmitted
	TimedOut
	Recovering // fast recovery began
)

// Event is something that happened to a connection.
type Event struct {
	Kind        EventKind
	Local, Peer Endpoint
	Connection  uint32
	Bytes       uint64
}

// Sink takes events. It may write to connections of the same host.
type Sink interface {
	TCPEvent(now clock.Time, e Event)
}

// Counters count what a host has done.
type Counters struct {
	SegmentsSent, Retransmitted, Timeouts, Recoveries uint64
	SegmentsReceived, Duplicates, OutOfWindow         uint64
	ACKsSent                                          uint64 // without data
	Damaged                                           uint64 // trimmed
	Invalid                                           uint64 // acknowledges what was not sent, or lies before the stream
}
