package fabric

import (
	"math"
	"math/bits"

	"candela.dev/candela/clock"
)

// PortKind is the kind of a port's peer.
type PortKind uint8

// Kinds of ports.
const (
	HostPort          PortKind = 1 + iota // towards a host
	SwitchPort                            // towards another switch
	RecirculationPort                     // back into the switch, one per pipeline
	NICPort                               // of a host
)

// Port is one end of a link: the transmitter towards its peer and, at a switch, the queues before it. Fields used
// together share a cache line of 64 bytes, because a large network has more ports than the caches hold.
type Port struct {
	// Used when a packet is queued or leaves.
	busyUntil clock.Time
	filled    uint64 // which queues have packets
	queues    []Queue
	host      *Host  // its owner; nil: a switch's
	perByte   uint32 // picoseconds per byte if that is an integer, else 0
	number    int32  // in the network
	framing   uint16 // bytes that a frame occupies on the link beyond Packet.Size
	paused    uint8  // which classes must not send (PFC)
	turn      uint8  // the queue whose turn it is, plus one (see weighted)
	waiting   bool   // for busyUntil: the engine will call wireFree
	metered   bool   // every change of its queues is booked (see Network.Meter)
	held      uint8  // which queues hold something by their meters
	_         [1]byte

	// Used when a packet leaves, or arrives.
	sw                      *Switch        // its owner; nil: a host's
	delay                   clock.Duration // propagation, plus the forwarding latency of its switch
	sent, sentBytes         uint64
	received, receivedBytes uint64
	peer                    int32 // number of the port at the other end
	index                   uint16
	kind                    PortKind
	urgent                  bool // control has packets
	away                    bool // the other end is in another partition
	cut                     bool // what arrives may have been on the link when it failed
	_                       [2]byte
	meters                  int32 // number of the first queue's in the network

	net      *Network
	control  line        // PFC frames, before all others
	pause    *pauseState // of the packets received here; nil: PFC off
	pipeline int
	rate     clock.BitRate
	counters PortCounters // without those kept above: see Counters
	failed   bool         // its link is
	avoided  bool         // no route uses it
	shunned  bool         // as a fault needs to know: avoided at some time

	lostUntil clock.Time // what arrives until then was on the link when it failed
	settled   struct {   // when the rate of the link changed last
		busy        clock.Duration
		sent, bytes uint64
	}
	cutOff uint64 // frames that were on the link to the port when it failed
	_      [8]byte
}

// PortCounters count since the start of the simulation. Bytes are those of packets, without framing.
type PortCounters struct {
	Sent, SentBytes               uint64
	Busy                          clock.Duration // time spent sending
	Received, ReceivedBytes       uint64
	Dropped, DroppedBytes         uint64
	PausesSent, PausesReceived    uint64
	HeadroomBytes, MaxIngressUsed int // of lossless classes: most headroom used, and most bytes held of one class
}

// Index returns the port's number: at a switch the front ports from 0, then the recirculation ports.
func (pt *Port) Index() int { return int(pt.index) }

// Kind returns the kind of the port's peer.
func (pt *Port) Kind() PortKind { return pt.kind }

// Lost returns how many frames were on the link to the port when it failed.
func (pt *Port) Lost() uint64 { return pt.cutOff }

// Failed reports whether the port's link has failed.
func (pt *Port) Failed() bool { return pt.failed }

// Switch returns the switch that the port belongs to; nil: it is a host's.
func (pt *Port) Switch() *Switch { return pt.sw }

// Peer returns the switch at the other end; nil: a host.
func (pt *Port) Peer() *Switch { return pt.net.ports[pt.peer].sw }

// Pipeline returns the switch pipeline, from 0, that the port belongs to.
func (pt *Port) Pipeline() int { return pt.pipeline }

// Rate returns the port's line rate.
func (pt *Port) Rate() clock.BitRate { return pt.rate }

// Framing returns the bytes that each frame takes on the port's link beyond its size.
func (pt *Port) Framing() int { return int(pt.framing) }

// Queues returns how many queues the port has.
func (pt *Port) Queues() int { return len(pt.queues) }

// Queue returns one of the port's queues.
func (pt *Port) Queue(i int) *Queue { return &pt.queues[i] }

// Counters returns the port's counters; the caller only reads them.
func (pt *Port) Counters() *PortCounters {
	c := &pt.counters
	c.Sent, c.SentBytes, c.Received, c.ReceivedBytes = pt.sent, pt.sentBytes, pt.received, pt.receivedBytes
	if pt.perByte != 0 {
		bytes := c.SentBytes - pt.settled.bytes + (c.Sent-pt.settled.sent)*uint64(pt.framing)
		c.Busy = pt.settled.busy + clock.Duration(pt.perByte)*clock.Duration(bytes)
	}
	return c
}

// Bytes returns how many bytes wait in all queues of the port.
func (pt *Port) Bytes() int {
	n := 0
	for m := pt.filled; m != 0; m &= m - 1 {
		n += pt.queues[bits.TrailingZeros64(m)].bytes
	}
	return n
}

// BusyUntil returns when the frame on the wire will have left; a time in the past if the wire is idle.
func (pt *Port) BusyUntil() clock.Time { return pt.busyUntil }

// HostAt returns the host that the port leads to; ok is false for other ports.
func (pt *Port) HostAt() (id HostID, ok bool) {
	if pt.kind != HostPort {
		return 0, false
	}
	return pt.net.ports[pt.peer].host.id, true
}

// connect sets up one direction of a link.
func (pt *Port) connect(to *Port, l *LinkSpec, latency clock.Duration) {
	pt.peer = to.number
	pt.tune(l, latency)
	if pt.failed = l.Failed; pt.failed {
		pt.avoided = true
		if pt.sw != nil {
			pt.sw.routes.cut = true
		}
		for i := range pt.queues {
			pt.queues[i].room = 0
		}
	}
}

// tune sets the rate and delay of the link, latency that of the forwarding before it.
func (pt *Port) tune(l *LinkSpec, latency clock.Duration) {
	pt.rate, pt.delay, pt.framing = l.Rate, l.Delay+latency, uint16(l.Framing)
	if pt.sw != nil {
		pt.framing = uint16(max(0, l.Framing+pt.sw.config.Gap))
	}
	pt.perByte = 0
	if bit := int64(clock.Second) * 8; bit%int64(l.Rate) == 0 && bit/int64(l.Rate) <= math.MaxUint32 {
		pt.perByte = uint32(bit / int64(l.Rate))
	}
}

// serialise returns how long a frame of size bytes occupies the link.
func (pt *Port) serialise(size int) clock.Duration {
	if pt.perByte != 0 {
		return clock.Duration(pt.perByte) * clock.Duration(size+int(pt.framing))
	}
	return pt.rate.Serialise(size + int(pt.framing))
}

// send puts p on the idle wire.
func (pt *Port) send(e *engine, now clock.Time, p *Packet) {
	d := pt.serialise(int(p.Size))
	pt.busyUntil = now.Add(d)
	pt.sent++
	pt.sentBytes += uint64(p.Size)
	if pt.perByte == 0 {
		pt.counters.Busy += d
	}
	if pt.away {
		e.post(p, pt.peer, pt.busyUntil.Add(pt.delay))
		return
	}
	e.deliver(p, pt.peer, pt.busyUntil.Add(pt.delay))
}

func (pt *Port) part() *part {
	if pt.sw != nil {
		return pt.sw.part
	}
	return pt.host.part
}

func (pt *Port) idle(now clock.Time) bool { return pt.busyUntil <= now && !pt.waiting }

// wait schedules wireFree for when the frame on the wire has left.
func (pt *Port) wait(e *engine) {
	if !pt.waiting {
		pt.waiting = true
		e.insert(max(pt.busyUntil, e.now), freeWire<<kindShift|what(pt.number)<<packetBits)
	}
}

func (pt *Port) wireFree(now clock.Time) {
	pt.waiting = false
	pt.ready(now)
}

// ready lets the port's owner send.
func (pt *Port) ready(now clock.Time) {
	if pt.sw != nil {
		pt.sw.ready(now, pt)
		return
	}
	pt.host.Kick(now)
}

func (pt *Port) arrive(now clock.Time, p *Packet) {
	if pt.cut && now <= pt.lostUntil {
		pt.lose(now, p)
		return
	}
	p.Hops++
	pt.received++
	pt.receivedBytes += uint64(p.Size)
	switch {
	case p.Protocol == PFC:
		pt.handlePause(now, p)
	case pt.sw != nil:
		pt.sw.arrive(now, pt, p)
	default:
		pt.host.arrive(now, p)
	}
}

// eligible returns the set of queues, one bit each, that have packets and may send.
func (pt *Port) eligible() uint64 { return pt.filled &^ uint64(pt.paused) }

// pop takes the first packet out of queue i, which has one.
func (pt *Port) pop(i int) *Packet {
	q := &pt.queues[i]
	p := q.first
	if q.ranked {
		q.config.index.remove(p, nil)
	}
	q.first = p.next
	if p.next == nil {
		q.last = nil
		pt.filled &^= 1 << (i & 63)
	}
	p.next = nil
	q.took(p)
	return p
}

func (pt *Port) dequeue(i int, p *Packet) {
	q := &pt.queues[i]
	q.remove(p)
	if q.first == nil {
		pt.filled &^= 1 << i
	}
}
