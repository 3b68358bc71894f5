package report

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Sequence is what one direction of data of a connection looked like over time.
type Sequence struct {
	Connection int
	Reverse    bool // data from responder to requester: READ responses, or requests of the responder
	Points     []Point
	Omitted    int64 // points of ordinary packets that were thinned out
}

// Point is one packet of a Sequence.
type Point struct {
	TimeNS int64
	PSN    int64 // relative; 0: none
	ID     uint64
	Class  packet.Class
	Event  trace.EventType
	Resent bool // a data packet at or before the highest PSN seen
}

// Ladder is an unbroken run of packets of one connection, to be drawn as arrows between the hosts and the injector.
type Ladder struct {
	Connection int
	Title      string // what it shows: "around gbn.retransmit-first"
	Packets    []Step
}

// Step is one packet of a Ladder.
type Step struct {
	Point
	Reverse bool   // from responder to requester
	Label   string // "data psn 5 iter 2"
	Lost    bool   // not delivered: dropped, corrupted, trimmed
	Accused bool   // a packet of a finding
}
