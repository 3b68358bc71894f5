package ndp

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
)

// Endpoint is the address of a host. The core compares endpoints and nothing else.
type Endpoint uint32

// Config describes a host.
type Config struct {
	Address Endpoint
	// InitialWindow is how many packets a connection sends before it has heard anything; at least 1.
	InitialWindow int
	// Payload is the size in bytes of every data packet's payload but the last one's.
	Payload int
	// PullGap is the time between two PULLs: that of a full data packet on the receiver's link, or a little more.
	PullGap clock.Duration
	// RTO is when an unanswered packet is taken for lost, and a connection that waits for a PULL gives up waiting; it
	// doubles for each further loss of the packet, up to 64 times. 0: never. It only has to cover what trimming leaves
	// uncovered: headers lost to corruption, or to a header queue that returns nothing.
	RTO clock.Duration
	// Paths is the number of paths to spray over, tagged 0 to Paths-1; at least 1.
	Paths   int
	Penalty Penalty
	// FirstConnection is the number of the host's first connection. A live host draws it, so that a packet of an earlier
	// life does not meet a connection of this one.
	FirstConnection uint32
	Seed            uint64
	Bugs            Bugs
}

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	switch {
	case c.InitialWindow < 1:
		return fmt.Errorf("initial window of %d packets: a connection must start with at least 1", c.InitialWindow)
	case c.Payload < 1 || c.Payload > 0xffff:
		return fmt.Errorf("payload of %d bytes: 1 to 65535 fit into a packet", c.Payload)
	case c.PullGap <= 0:
		return fmt.Errorf("gap of %v between PULLs: it must be positive", c.PullGap)
	case c.RTO < 0:
		return fmt.Errorf("RTO of %v: it must be positive, or 0 for never", c.RTO)
	case c.Paths < 1 || c.Paths > 1<<16:
		return fmt.Errorf("%d paths: 1 to 65536 can be told apart", c.Paths)
	}
	return c.Penalty.validate(c.Paths)
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

// Cause is why a packet was retransmitted.
type Cause uint8

// Causes.
const (
	CauseNack Cause = 1 + iota
	CauseReturned
	CauseTimeout
)

var causeNames = [...]string{"unset", "nack", "returned", "timeout"}

// String returns the cause in lower case.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("cause(%d)", uint8(c))
}

// EventKind is what happened.
type EventKind uint8

// Event kinds.
const (
	Started       EventKind = 1 + iota // the sender may send its first packet
	Received                           // the receiver has all of the flow
	Finished                           // the sender knows that
	Retransmitted                      // a packet was retransmitted
	TimedOut                           // an RTO has run out
)

// Event is something that a host reports. It is valid beyond the call.
type Event struct {
	Kind       EventKind
	Cause      Cause // of Retransmitted
	Sender     Endpoint
	Receiver   Endpoint
	Connection uint32
	Seq        uint32     // of Retransmitted and TimedOut
	Started    clock.Time // of Finished: when it may have sent its first packet; of Received: first sight of it
	Bytes      uint64     // of Received and Finished: payload

	Packets    uint32 // of Received: that arrived whole, each once; of Finished: transmissions
	Duplicates uint32 // of Received: that arrived whole, or as a header, after they had arrived whole
	Trimmed    uint32 // of Received: headers
	Reordered  uint32 // of Received: that arrived whole for the first time after one with a higher number had
}

// A Sink takes events, in the order of their happening. It may call Host.Send.
type Sink interface {
	NDPEvent(now clock.Time, e Event)
}

// Counters count what a host did since its creation.
type Counters struct {
	DataSent, Retransmitted, Timeouts           uint64
	AcksSent, NacksSent, PullsSent              uint64
	WholeReceived, TrimmedReceived, Duplicates  uint64
	AcksReceived, NacksReceived, PullsReceived  uint64
	ReturnedReceived, ReturnedAtOnce, Unclaimed uint64 // Unclaimed: of no connection, or returned feedback
	BytesReceived                               uint64 // payload, each byte once
}
