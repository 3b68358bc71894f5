package tcp

import (
	"errors"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	wire "candela.dev/candela/packet/tcp"
)

// The core uses headers as on the wire.
type (
	Header = wire.Header
	Block  = wire.Block
	Flags  = wire.Flags
)

const (
	FlagSYN     = wire.FlagSYN
	FlagPSH     = wire.FlagPSH
	FlagACK     = wire.FlagACK
	FlagECE     = wire.FlagECE
	FlagCWR     = wire.FlagCWR
	WindowScale = wire.WindowScale
	HeaderLen   = wire.HeaderLen
)

// Endpoint is the address of a host. The core only compares endpoints.
type Endpoint uint32

// Packet is a packet that a host sends or receives.
type Packet struct {
	From, To   Endpoint
	Connection uint32
	Header     Header
	Payload    int // bytes
	// Number identifies packets for observers and is not on the wire. Data: the segment's number in its direction of the
	// connection, from 0, equal for retransmissions. Packets without payload: a unique number.
	Number uint64
	// Trimmed: a switch cut the payload.
	Trimmed bool
	Hops    int        // of a packet that has arrived: switches on its path
	ECN     packet.ECN // of the IP header
	// Rank is the rank that the connection gives it; what a receiver sends has 0.
	Rank uint64
}

// numberAck is set in the Number of packets without payload.
const numberAck = 1 << 63

// sequence returns the sequence number of an offset in the stream.
func (c *Config) sequence(offset uint64) uint32 { return uint32(offset) + c.origin() }

// origin returns the sequence number of the first byte of data. A SYN comes before it.
func (c *Config) origin() uint32 {
	if c.Handshake {
		return c.FirstSequence + 1
	}
	return c.FirstSequence
}

// greetings returns how much of the sequence is before the data: a SYN, which ranks count as sent.
func (c *Config) greetings() uint64 {
	if c.Handshake {
		return 1
	}
	return 0
}

// offset returns the offset of a sequence number in the stream, next to a known offset; false if it lies before the
// stream.
func (c *Config) offset(sequence uint32, near uint64) (uint64, bool) {
	at := int64(near) + int64(int32(sequence-c.origin()-uint32(near)))
	return uint64(at), at >= 0
}

// Control is a congestion control.
type Control uint8

// Congestion controls.
const (
	Cubic        Control = iota // RFC 9438, Linux's default
	Reno                        // RFC 5681
	DCTCP                       // RFC 8257; grows as Reno
	SwiftControl                // see Swift
)

// Config describes a host.
type Config struct {
	Address       Endpoint
	MSS           int            // payload of a full segment in bytes
	InitialWindow int            // segments; Linux: 10
	Threshold     int            // of the first slow start, in segments; 0: none (RFC 5681, 3.1: arbitrarily high)
	ReceiveWindow int            // bytes; Linux grows it to 6 MiB
	MinRTO        clock.Duration // Linux: 200 ms
	DelayedACK    clock.Duration // Linux: 40 ms; 0: an ACK for every segment
	Control       Control
	FirstSequence uint32 // of every connection, at both ends
	ECN           ECN
	Handshake     bool           // connections begin with SYN, SYN-ACK and ACK
	Unscaled      bool           // windows are not scaled: at most 65,535 bytes
	InitialRTO    clock.Duration // until there is a sample of the RTT; 0: MinRTO
	MaxRTO        clock.Duration // 0: 120 s, as Linux
	ThreeSRTT     bool           // the timeout is 3·SRTT, not SRTT + 4·RTTVAR
	MaxRetries    int            // by timeouts in a row, after which a connection is given up; 0: no bound
	QuickACKs     int            // ACKs without delay on a new connection; 0: 16, negative: none
	ACKEvery      int            // segments that one ACK may acknowledge; 0: 2
	Detection     Detection
	// Timestamps (RFC 7323): every ACK without data gives an RTT sample, also of retransmissions and of what is not in
	// order; handshakes give none. NewReno only, as they take the place of SACK. An ACK echoes the first segment that it
	// answers.
	Timestamps bool
	// NeedsACK: data that comes before the ACK of the handshake is dropped, although it carries that ACK, too (RFC 9293,
	// 3.10.7.4, would take it).
	NeedsACK bool
	// RestartsOnSend: the retransmission timer restarts when data is sent, too.
	RestartsOnSend bool
	Swift          Swift // of SwiftControl

	NoFastRetransmit, NoLimitedTransmit bool
}

const (
	mostRTO   = 120 * clock.Second // Linux
	quickACKs = 16                 // ACKs without delay on a new connection, as in Linux
	dupThresh = 3                  // RFC 6675
	minWindow = 2                  // segments, of the slow-start threshold (RFC 5681)
)

// Shift returns the shift of windows in headers without SYN.
func (c *Config) Shift() int {
	if c.Unscaled {
		return 0
	}
	return WindowScale
}

// quickACKs returns the number of ACKs without delay on a new connection.
func (c *Config) quickACKs() int {
	if c.QuickACKs == 0 {
		return quickACKs
	}
	return max(c.QuickACKs, 0)
}

// ackEvery returns the number of segments that one ACK may acknowledge.
func (c *Config) ackEvery() int {
	if c.ACKEvery == 0 {
		return 2
	}
	return c.ACKEvery
}

// initialRTO returns the timeout without a sample.
func (c *Config) initialRTO() clock.Duration { return max(c.InitialRTO, c.MinRTO) }

// maxRTO returns the greatest timeout.
func (c *Config) maxRTO() clock.Duration {
	if c.MaxRTO > 0 {
		return c.MaxRTO
	}
	return mostRTO
}

// tellable returns the part of the receive window that a header can advertise: multiples of its unit.
func (c *Config) tellable() int { return c.ReceiveWindow >> c.Shift() << c.Shift() }

// Validate returns an error for the first invalid field.
func (c *Config) Validate() error {
	switch {
	case c.MSS < 1 || c.MSS > 1<<16:
		return fmt.Errorf("MSS %d: must be 1 to 65536 bytes", c.MSS)
	case c.InitialWindow < 1 || c.InitialWindow > 1<<20:
		return fmt.Errorf("initial window %d: must be 1 to %d segments", c.InitialWindow, 1<<20)
	case c.Threshold != 0 && c.Threshold < minWindow || c.Threshold > 1<<20:
		return fmt.Errorf("initial slow-start threshold %d: must be 0, or %d to %d segments", c.Threshold, minWindow, 1<<20)
	case c.tellable() < c.MSS || c.ReceiveWindow > 0xffff<<c.Shift():
		return fmt.Errorf(
			"receive window %d: must be at least the MSS (%d), rounded up to a multiple of %d, and at most %d bytes",
			c.ReceiveWindow, c.MSS, 1<<c.Shift(), 0xffff<<c.Shift())
	case c.MinRTO <= 0 || c.MinRTO > mostRTO:
		return fmt.Errorf("minimum RTO %v: must be positive, at most %v", c.MinRTO, mostRTO)
	case c.InitialRTO != 0 && c.InitialRTO < c.MinRTO:
		return fmt.Errorf("initial RTO %v: must be at least the minimum of %v", c.InitialRTO, c.MinRTO)
	case c.MaxRTO != 0 && c.MaxRTO < c.initialRTO() || c.maxRTO() > mostRTO:
		return fmt.Errorf("maximum RTO %v: must be at least the initial RTO (%v) and at most %v", c.MaxRTO, c.initialRTO(),
			mostRTO)
	case c.DelayedACK < 0 || c.DelayedACK > clock.Second:
		return fmt.Errorf("delayed ACK %v: must be 0 to 1 s", c.DelayedACK)
	case c.MaxRetries < 0 || c.MaxRetries > 100:
		return fmt.Errorf("maximum of retries %d: must be 0 to 100", c.MaxRetries)
	case c.ACKEvery < 0 || c.ACKEvery > 64:
		return fmt.Errorf("an ACK every %d segments: must be 1 to 64", c.ACKEvery)
	case c.Detection > PerPacket:
		return fmt.Errorf("loss detection %d is unknown", c.Detection)
	case c.Timestamps && (c.Detection != NewReno || c.Control == SwiftControl):
		return errors.New("timestamps take the place of SACK and of Swift's delay: loss detection must be NewReno, and " +
			"the congestion control not Swift")
	case c.Control > SwiftControl:
		return fmt.Errorf("congestion control %d is unknown", c.Control)
	}
	if c.Control == SwiftControl {
		if err := c.Swift.validate(c.ECN.Codepoint); err != nil {
			return err
		}
	}
	return c.ECN.validate(c.Control)
}

// EventKind is the kind of an event.
type EventKind uint8

// Kinds of events.
const (
	Delivered    EventKind = 1 + iota // Bytes: received in order so far
	Acknowledged                      // everything written so far has been acknowledged; Bytes: its length
	Retransmitted
	TimedOut
	Recovering // fast recovery began
	Aborted    // after too many timeouts; Bytes: the first unacknowledged one
)

// Event is an event of a connection.
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

// Counters are the counters of a host.
type Counters struct {
	SegmentsSent, Retransmitted, Timeouts, Recoveries uint64
	SegmentsReceived, Duplicates, OutOfWindow         uint64
	ACKsSent, SYNsSent                                uint64 // without data
	Aborted                                           uint64 // connections that were given up
	Damaged                                           uint64 // trimmed
	Unclaimed                                         uint64 // without data, and of no connection
	Marks                                             uint64 // windows reduced by ECN
	Invalid                                           uint64 // ACKs of unsent data, and sequence numbers before the stream
}
