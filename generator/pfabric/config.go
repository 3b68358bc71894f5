package pfabric

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
	Probe
)

// Packet is a packet that a host sends or receives.
type Packet struct {
	From, To   Endpoint
	Kind       Kind
	Connection uint32 // number given by the sender of the flow
	Number     uint32 // of the packet in its flow, from 0; of an ACK: the packet that it is for
	Total      uint32 // packets of the flow, 0: without end; of an ACK: packets that have arrived in order
	Payload    int    // bytes
	Rank       uint64
}

// Config describes a host.
type Config struct {
	Address    Endpoint
	Payload    int // bytes of every data packet but a flow's last one
	Window     int // packets that a flow starts with: a bandwidth-delay product
	RTO        clock.Duration
	ProbeAfter int // timeouts in a row; 0: never
	Bugs       Bugs
}

// Validate returns an error for the first invalid field.
func (c *Config) Validate() error {
	switch {
	case c.Payload < 1 || c.Payload > 0xffff:
		return fmt.Errorf("payload of %d bytes: must be 1 to 65535", c.Payload)
	case c.Window < 1:
		return fmt.Errorf("initial window of %d packets: must be 1 or more", c.Window)
	case c.RTO <= 0:
		return fmt.Errorf("RTO of %v: must be positive", c.RTO)
	case c.ProbeAfter < 0:
		return fmt.Errorf("probes after %d timeouts: must be 0 or more", c.ProbeAfter)
	}
	return nil
}

// Flow is a transfer that a host is to make.
type Flow struct {
	To    Endpoint
	Bytes uint64 // of payload; 0: without end
	Start clock.Time
	// Stop is when a flow without end gets one: it sends one packet more, which says that it is the last. 0: never.
	Stop clock.Time
	Rank wire.Ranking
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
	PFabricEvent(now clock.Time, e Event)
}
