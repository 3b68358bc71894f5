package tcp

import (
	"fmt"

	"candela.dev/candela/clock"
	wire "candela.dev/candela/packet/tcp"
)

// The core speaks in headers as they are on the wire.
type (
	Header = wire.Header
	Block  = wire.Block
	Flags  = wire.Flags
)

const (
	FlagPSH     = wire.FlagPSH
	FlagACK     = wire.FlagACK
	WindowScale = wire.WindowScale
	HeaderLen   = wire.HeaderLen
)

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
