package virtual

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// wireOverhead is the length of a frame on the wire beyond its captured bytes: FCS, preamble with delimiter, and
// inter-packet gap (IEEE 802.3 clause 4.2).
const wireOverhead = 4 + 8 + 12

// A receiver takes frames that have fully arrived. It then owns p.
type receiver interface {
	receive(now clock.Time, port uint16, p *packet.Packet)
}

// link is one direction of a cable, with a FIFO before it. Frames leave in order at the rate and arrive after the
// propagation delay.
type link struct {
	engine *engine
	rate   clock.BitRate
	delay  clock.Duration
	to     receiver
	port   uint16 // at the receiver

	// limit is the FIFO's capacity in wire bytes; 0: unlimited, because the sender paces itself.
	limit   int
	dropped uint64 // frames dropped at the full FIFO

	busyUntil clock.Time
	flight    fifo
	task      task
	hops      uint64 // frames delivered
}

func newLink(e *engine, rate clock.BitRate, delay clock.Duration, to receiver, port uint16) *link {
	l := &link{engine: e, rate: rate, delay: delay, to: to, port: port}
	l.task.actor = l
	return l
}

// send queues p, available from ready on, and returns when its last bit leaves. If the FIFO is full, ok is false and
// the caller keeps p.
func (l *link) send(ready clock.Time, p *packet.Packet) (left clock.Time, ok bool) {
	size := p.Len() + wireOverhead
	if l.limit > 0 && l.busyUntil > ready && backlog(l.busyUntil.Sub(ready), l.rate)+size > l.limit {
		l.dropped++
		return 0, false
	}
	l.busyUntil = max(ready, l.busyUntil).Add(l.rate.Serialise(size))
	l.flight.push(inFlight{l.busyUntil.Add(l.delay), p})
	if l.task.place == 0 {
		l.engine.schedule(&l.task, l.flight.head().at)
	}
	return l.busyUntil, true
}

// act delivers the frame at the head of the wire.
func (l *link) act(now clock.Time) {
	f := l.flight.pop()
	l.hops++
	if l.flight.n > 0 {
		l.engine.schedule(&l.task, l.flight.head().at)
	}
	l.to.receive(now, l.port, f.p)
}

// inFlight is a frame on the wire and the arrival time of its last bit.
type inFlight struct {
	at clock.Time
	p  *packet.Packet
}

// fifo is a ring buffer that grows and never shrinks.
type fifo struct {
	ring     []inFlight // length a power of two
	first, n int
}

func (f *fifo) push(x inFlight) {
	if f.n == len(f.ring) {
		grown := make([]inFlight, max(16, 2*len(f.ring)))
		for i := range f.n {
			grown[i] = f.ring[(f.first+i)&(len(f.ring)-1)]
		}
		f.ring, f.first = grown, 0
	}
	f.ring[(f.first+f.n)&(len(f.ring)-1)] = x
	f.n++
}

func (f *fifo) head() *inFlight { return &f.ring[f.first] }

func (f *fifo) pop() inFlight {
	x := f.ring[f.first]
	f.ring[f.first].p = nil
	f.first = (f.first + 1) & (len(f.ring) - 1)
	f.n--
	return x
}

// pool recycles packets, so that a steady state allocates nothing.
type pool struct{ free []*packet.Packet }

func (p *pool) get() *packet.Packet {
	if n := len(p.free); n > 0 {
		x := p.free[n-1]
		p.free = p.free[:n-1]
		return x
	}
	return new(packet.Packet)
}

func (p *pool) put(x *packet.Packet) { p.free = append(p.free, x) }
