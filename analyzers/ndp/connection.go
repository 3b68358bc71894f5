package ndp

import (
	"fmt"

	"candela.dev/candela/clock"
)

// connection is what has been seen of one.
type connection struct {
	connectionKey
	number int
	host   *host // the receiver
	sender *host
	opened bool
	late   bool // not seen from its beginning: what it may send is unknown

	packets    []packet // ring of [base, next)
	base, next uint32
	last       uint32 // number of packets in all, once known; 0: unknown
	flights    flights

	// The sender's state as far as what passed towards it determines it. Links are FIFO, so it is exact at any point of
	// that order.
	transmissions uint32
	pulled        uint32 // highest PULL counter
	pulledAt      clock.Time
	heard         uint32     // ACKs and NACKs
	firstHeard    uint32     // of the first window: answered or returned
	atOnce        uint32     // returned headers that may be answered without a PULL
	timeouts      uint32     // RTOs that may have run out
	active        clock.Time // latest change: what a sender waits for begins there
	below         uint32     // ACKs have acknowledged all packets below
	missing       fifo[missing]
	board         *board // nil: paths are not judged

	// The receiver.
	delivered  uint32 // data packets that passed towards it, whole or trimmed
	certain    uint32 // those of them that it must know of
	learned    uint32 // those of them that arrived no later than one that it has answered
	counter    uint32 // highest PULL counter it sent
	forgiven   uint32 // PULLs that were reported missing
	settled    uint32 // deliveries that need no PULL any more: counter, and what was forgiven
	whole      uint32 // different packets that passed whole
	inOrder    uint32 // all below have passed whole
	complete   bool
	stragglers uint32 // deliveries below base that are not answered yet
	strayed    uint64 // order of the latest of them, see packet.order

	// Place in the host's line of connections that are owed a PULL.
	before, behind *connection
	waiting        bool
	turn           uint64    // host.pulls when its wait began
	served         [4]uint64 // host.pulls of its latest PULLs, the oldest first
}

// packet is what has been seen of one data packet.
type packet struct {
	sent, answered clock.Time // latest transmission; latest ACK, NACK or return that passed towards the sender
	delivered      clock.Time // latest header
	// latest NACK or return after that of answered, since the latest transmission; 0: none
	repeated                   clock.Time
	tx, rx                     uint8
	wholeSeen, wholeAnswered   uint32
	headerSeen, headerAnswered uint32
	order                      uint64 // of its latest delivery among those of its receiver
	path                       uint16 // of its latest transmission
	expired                    bool   // its RTO is counted
	crossed                    bool   // its latest transmission may not be a reaction to the answer before it
}

type missing struct {
	at     clock.Time
	number uint64
	seq    uint32
}

func (c *connection) describe() string {
	return fmt.Sprintf("connection %d of host %d to host %d", c.id, c.from, c.to)
}

func (c *connection) at(seq uint32) *packet { return &c.packets[seq&uint32(len(c.packets)-1)] }

func (c *connection) holds(seq uint32) bool { return seq >= c.base && seq < c.next }

// push makes room for packet next.
func (c *connection) push() *packet {
	if int(c.next-c.base) == len(c.packets) {
		old := c.packets
		c.packets = make([]packet, max(64, 2*len(old)))
		for seq := c.base; seq < c.next; seq++ {
			*c.at(seq) = old[seq&uint32(len(old)-1)]
		}
	}
	c.next++
	p := c.at(c.next - 1)
	*p = packet{}
	return p
}

// forget moves base past packets about which nothing more can be judged: acknowledged longer than a round trip ago,
// nothing owed.
func (c *connection) forget(now clock.Time, roundTrip clock.Duration) {
	for c.base < c.next {
		p := c.at(c.base)
		if p.tx != txAcked || p.answered.Add(roundTrip) >= now || p.wholeAnswered < p.wholeSeen ||
			p.headerAnswered < p.headerSeen {
			return
		}
		c.base++
	}
	c.inOrder = max(c.inOrder, c.base)
}

// first returns the size of the first window, as far as known.
func (c *connection) first(window int) uint32 {
	w := uint32(window)
	if c.last > 0 {
		return min(w, c.last)
	}
	return min(w, c.next)
}
