package bolt

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
)

// Endpoint is the address of a host. The core compares endpoints and nothing else.
type Endpoint uint32

// Kind is what a packet is for.
type Kind uint8

// Kinds of packets.
const (
	Data Kind = 1 + iota
	Ack
	SRC // from a switch to the sender of data
)

// Flags are those of data packets, which their ACKs repeat.
type Flags uint8

// Flags.
const (
	First Flags = 1 << iota // sent before the first RTT was over
	Last                    // its ACK will let no new packet go
	Inc                     // the window may grow, as far as switches let the flag be
	Dec                     // a switch has sent an SRC packet for it
)

// Packet is a packet that a host sends or receives.
type Packet struct {
	From, To   Endpoint
	Kind       Kind
	Flags      Flags
	Connection uint32 // number given by the sender of the flow
	Number     uint32 // of the packet in its flow, from 0; of ACK and SRC: the packet that they are for
	Total      uint32 // packets of the flow, 0: without end; of an ACK: packets that have arrived in order
	SentNS     uint32 // when the data packet left its sender, in ns modulo 2³²
	Payload    int    // bytes
	Queue      uint32 // of SRC: bytes that waited at the port
	RateMbps   uint32 // of SRC: of the port's link, below 2²⁴
	Rank       uint64 // of data, as the flow gives it
}

// Config describes a host.
type Config struct {
	Address   Endpoint
	Payload   int // bytes of every data packet but a flow's last one
	Frame     int // bytes of such a packet with its headers
	Rate      clock.BitRate
	Window    int     // packets that a flow starts with: a bandwidth-delay product
	MaxWindow int     // packets
	MinWindow float64 // packets
	Increase  float64 // packets a round trip
	RTO       clock.Duration
	Reorder   int // packets; 0: losses are detected by the timer alone
	Bugs      Bugs
}

// Validate returns an error for the first invalid field.
func (c *Config) Validate() error {
	switch {
	case c.Payload < 1 || c.Payload > 0xffff:
		return fmt.Errorf("payload of %d bytes: must be 1 to 65535", c.Payload)
	case c.Frame < c.Payload:
		return fmt.Errorf("frame of %d bytes: must be at least the payload of %d", c.Frame, c.Payload)
	case c.Rate <= 0:
		return fmt.Errorf("rate of %d b/s: must be positive", c.Rate)
	case c.MaxWindow < 1:
		return fmt.Errorf("greatest window of %d packets: must be 1 or more", c.MaxWindow)
	case c.Window < 1 || c.Window > c.MaxWindow:
		return fmt.Errorf("initial window of %d packets: must be 1 to the greatest window of %d", c.Window, c.MaxWindow)
	case c.MinWindow <= 0 || c.MinWindow > 1:
		return fmt.Errorf("least window of %g packets: must be above 0, at most 1", c.MinWindow)
	case c.Increase < 0:
		return fmt.Errorf("increase of %g packets: must not be negative", c.Increase)
	case c.RTO <= 0:
		return fmt.Errorf("RTO of %v: must be positive", c.RTO)
	case c.Reorder < 0:
		return fmt.Errorf("reordering of %d packets: must be 0 or more", c.Reorder)
	}
	return nil
}

// Flow is a transfer that a host is to make.
type Flow struct {
	To    Endpoint
	Bytes uint64 // of payload; 0: without end
	Start clock.Time
	Rank  wire.Ranking // of data packets
}

// EventKind is what happened.
type EventKind uint8

// Kinds of events.
const (
	Received      EventKind = 1 + iota // the receiver has all of the flow
	Finished                           // the sender knows that
	Retransmitted                      // a packet was retransmitted
	TimedOut                           // the timer has run out
)

// Event is something that a host reports.
type Event struct {
	Kind             EventKind
	Sender, Receiver Endpoint
	Connection       uint32
	Arrivals         Arrivals // of Received
	Sent             uint64   // of Finished: data packets, retransmissions included
}

// Arrivals is what has arrived of a flow.
type Arrivals struct {
	Packets, Duplicates, Reordered uint32
	Bytes                          uint64 // each once
}

// A Sink takes events, in the order of their happening. It may call Host.Send.
type Sink interface {
	BoltEvent(now clock.Time, e Event)
}
