package fabric

import (
	"math/bits"

	"candela.dev/candela/clock"
)

// PortKind is what a port leads to.
type PortKind uint8

// Kinds of ports.
const (
	HostPort          PortKind = 1 + iota // towards a host
	SwitchPort                            // towards another switch
	RecirculationPort                     // back into the switch, one per pipeline
	NICPort                               // of a host
)

// A node is what has ports: a switch or a host.
type node interface {
	// arrive takes p, which has come in whole through in.
	arrive(now clock.Time, in *Port, p *Packet)
	// ready is called when the port has sent a frame, or may send again.
	ready(now clock.Time, out *Port)
	// touch reads what arrive will read of the node's tables (see engine.openNext).
	touch(p *Packet) int64
}

// Port is one end of a link: the transmitter towards its peer, with the queues in front of it (none at hosts). Its fields stand
// in the cache lines of 64 bytes that they are used with.
type Port struct {
	// Used when a packet arrives.
	node                    node
	net                     *Network
	received, receivedBytes uint64
	index                   int32
	pipeline                int32
	kind                    PortKind
	pause                   *pauseState // of the packets that came in here; nil: PFC off

	// Used when one is queued or leaves.
	busyUntil clock.Time
	filled    uint64 // which queues have packets
	paused    uint64 // which must not send (PFC)
	queues    []Queue
	scheduler Scheduler

	free    task // when busyUntil comes; pending only if somebody waits for it
	peer    *Port
	perByte clock.Duration // serialisation of one byte, if that is a whole number of picoseconds; else 0
	delay   clock.Duration // propagation, and forwarding latency of the switch behind it
	framing int            // bytes that a frame occupies on the link beyond Packet.Size

	control  line // PFC frames, before all others
	counters PortCounters
	rate     clock.BitRate
	_        [8]byte
}

// PortCounters count since the start of the simulation. Bytes are those of packets, without framing.
type PortCounters struct {
	Sent, SentBytes               uint64
	Busy                          clock.Duration // time spent sending
	Received, ReceivedBytes       uint64
	Dropped, DroppedBytes         uint64
	PausesSent, PausesReceived    uint64
	HeadroomBytes, MaxIngressUsed int // of lossless classes: the most that was used of headroom, and held of one class
}

// Index returns the port's number: at a switch the front ports from 0, then the recirculation ports.
func (pt *Port) Index() int { return int(pt.index) }

// Kind returns what the port leads to.
func (pt *Port) Kind() PortKind { return pt.kind }

// Pipeline returns the switch pipeline, from 0, that the port belongs to.
func (pt *Port) Pipeline() int { return int(pt.pipeline) }

// Rate returns the port's line rate.
func (pt *Port) Rate() clock.BitRate { return pt.rate }

// Queues returns how many queues the port has.
func (pt *Port) Queues() int { return len(pt.queues) }

// Queue returns one of the port's queues.
func (pt *Port) Queue(i int) *Queue { return &pt.queues[i] }

// Counters returns the port's counters; the caller only reads them.
func (pt *Port) Counters() *PortCounters {
	pt.counters.Received, pt.counters.ReceivedBytes = pt.received, pt.receivedBytes
	return &pt.counters
}

// Bytes returns how many bytes wait in all queues of the port.
func (pt *Port) Bytes() int {
	n := 0
	for m := pt.filled; m != 0; m &= m - 1 {
		n += pt.queues[bits.TrailingZeros64(m)].bytes
	}
	return n
}

// BusyUntil returns when the frame on the wire has left; an instant of the past if there is none.
func (pt *Port) BusyUntil() clock.Time { return pt.busyUntil }

// HostAt returns the host that the port leads to; ok is false for other ports.
func (pt *Port) HostAt() (id HostID, ok bool) {
	if h, is := pt.peer.node.(*Host); is && pt.kind == HostPort {
		return h.id, true
	}
	return 0, false
}

// connect sets up one direction of a link.
func (pt *Port) connect(to *Port, l *LinkSpec, latency clock.Duration) {
	pt.peer = to
	pt.rate, pt.delay, pt.framing = l.Rate, l.Delay+latency, l.Framing
	pt.perByte = 0
	if bit := int64(clock.Second) * 8; bit%int64(l.Rate) == 0 {
		pt.perByte = clock.Duration(bit / int64(l.Rate))
	}
	pt.free.actor = pt
}

// serialise returns how long a frame of size bytes occupies the link.
func (pt *Port) serialise(size int) clock.Duration {
	if pt.perByte != 0 {
		return pt.perByte * clock.Duration(size+pt.framing)
	}
	return pt.rate.Serialise(size + pt.framing)
}

// send puts p on the wire, which is free.
func (pt *Port) send(now clock.Time, p *Packet) {
	d := pt.serialise(int(p.Size))
	pt.busyUntil = now.Add(d)
	pt.counters.Sent++
	pt.counters.SentBytes += uint64(p.Size)
	pt.counters.Busy += d
	p.to = pt.peer
	pt.net.engine.deliver(p, pt.busyUntil.Add(pt.delay))
}

// idle reports whether the port can send now.
func (pt *Port) idle(now clock.Time) bool { return pt.busyUntil <= now && pt.free.place == 0 }

// wait has the node called when the frame on the wire has left.
func (pt *Port) wait() { pt.net.engine.schedule(&pt.free, pt.busyUntil) }

// act implements actor: the wire is free.
func (pt *Port) act(now clock.Time) { pt.node.ready(now, pt) }

// arrive takes p from the wire.
func (pt *Port) arrive(now clock.Time, p *Packet) {
	pt.net.hops++
	p.Hops++
	pt.received++
	pt.receivedBytes += uint64(p.Size)
	if p.Protocol == PFC {
		pt.handlePause(now, p)
		return
	}
	pt.node.arrive(now, pt, p)
}

// touch reads what queueing or sending a packet uses of the port (see touch).
func (pt *Port) touch() int64 {
	sum := int64(pt.free.place)
	if pt.filled != 0 {
		sum += int64(pt.queues[bits.TrailingZeros64(pt.filled)].packets)
	}
	if w, ok := pt.scheduler.(*weighted); ok {
		sum += int64(w.at)
	}
	return sum
}

// enqueue puts p into queue i; there is room.
func (pt *Port) enqueue(i int, p *Packet) {
	pt.queues[i].insert(p)
	pt.filled |= 1 << i
}

// dequeue takes p out of queue i.
func (pt *Port) dequeue(i int, p *Packet) {
	q := &pt.queues[i]
	q.remove(p)
	if q.first == nil {
		pt.filled &^= 1 << i
	}
}
