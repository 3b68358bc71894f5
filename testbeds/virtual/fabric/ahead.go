package fabric

import (
	"math/bits"
	"unsafe"

	"candela.dev/candela/prefetch"
)

// In a large network, the engine prefetches the memory that the next events of the open day will use. It finds that
// memory in steps, each of which reads what the previous step prefetched: an arrival leads to a packet, the packet to
// its output port, the port to its queue. While one batch of events is served, each step is done for a later batch, so
// that memory has the time of a batch to arrive.
const (
	depth = 3 // steps
	batch = 8 // few enough that their data is still in the first-level cache when they are served; a power of two
	ring  = 4 // batches: at least depth; a power of two
)

// ahead is the state of looking ahead.
type ahead struct {
	on      bool // the network's state exceeds the caches
	first   uint // index of the batch to be served next
	count   uint // of batches in use
	taken   int  // position in today up to which there are batches
	batches [ring]foresight
	lines   [24 * batch]uintptr

	exits     []exit     // by port of a switch
	hosts     []Host     // by port, less nics
	foreseers []foreseer // likewise; nil: the stack does not implement it
	nics      int        // number of the first host port; host ports come last
}

// foresight is a batch of events and the data found for them.
type foresight struct {
	followed   bool // the second step is taken
	end        int  // position in today after the batch
	arriving   uint // how many arrivals at switches there are
	departing  uint // departures from switches
	ending     uint // events of hosts
	arrivals   [batch]transit
	departures [batch]*Port
	hosts      [batch]what
}

type transit struct {
	packet *Packet
	in     *Port
	out    *exit // nil: not foreseen
}

// exit is a port and its first and last queues; most ports have no others.
type exit struct {
	port            *Port
	lowest, highest *Queue
}

// A foreseer is a Stack that can name, in steps, the memory it will use to receive a packet, or if p is nil, to be
// polled.
type foreseer interface {
	foresee(step int, p *Packet, lines prefetch.Lines) prefetch.Lines
}

// lookAhead takes the steps for later batches, then allows the engine to serve the next batch.
func (e *engine) lookAhead() {
	a := &e.look
	if !a.on {
		e.ahead = len(e.today)
		return
	}
	if a.count > 0 {
		a.first++
		a.count--
	}
	for a.taken = max(a.taken, e.position); a.count < depth && a.taken < len(e.today); a.count++ {
		b := a.batch(a.count)
		b.followed, b.end = false, min(a.taken+batch, len(e.today))
		e.glimpse(b, e.today[a.taken:b.end])
		a.taken = b.end
	}
	if a.count == 0 { // the rest was inserted late
		e.ahead = len(e.today)
		return
	}
	for i := range min(a.count, depth-1) {
		if b := a.batch(i); !b.followed {
			e.followPackets(b)
		}
	}
	b := a.batch(0)
	e.followQueues(b)
	e.ahead = b.end
}

// batch returns the batch that is served after i others.
func (a *ahead) batch(i uint) *foresight { return &a.batches[(a.first+i)%ring] }

// forget drops the batches of a day that is no longer open.
func (a *ahead) forget() { a.count, a.taken = 0, 0 }

// glimpse is the first step: the memory that the events themselves name.
func (e *engine) glimpse(b *foresight, events []event) {
	lines := prefetch.Lines(e.look.lines[:0])
	b.arriving, b.departing, b.ending = 0, 0, 0
	for _, ev := range events {
		w := ev.what()
		kind := w.kind()
		if kind == wakeUp {
			continue
		}
		pt := &e.ports[w.port()]
		switch {
		case w.port() >= e.look.nics:
			b.hosts[b.ending%batch] = w
			b.ending++
			lines = e.foreseeHost(0, w, lines)
		case kind == arrival:
			t := &b.arrivals[b.arriving%batch]
			b.arriving++
			t.packet, t.in = e.packets.at(w.packet()), pt
			lines = lines.And(unsafe.Pointer(t.packet)).And(unsafe.Pointer(&pt.sw))
		default:
			b.departures[b.departing%batch] = pt
			b.departing++
			lines = lines.AndTwo(unsafe.Pointer(pt))
		}
	}
	lines.Fetch()
}

// followPackets is the second step: the likely output ports of arriving packets, with their queues, and the queues of
// sending ports.
func (e *engine) followPackets(b *foresight) {
	lines := prefetch.Lines(e.look.lines[:0])
	for i := range b.arrivals[:b.arriving] {
		t := &b.arrivals[i]
		t.out = nil
		if port := t.in.sw.routes.likely(t.in.sw, t.packet); port >= 0 {
			out := &e.look.exits[port]
			t.out = out
			lines = lines.And(unsafe.Pointer(out.port)).And(unsafe.Pointer(out.lowest)).And(unsafe.Pointer(out.highest))
		}
	}
	for _, pt := range b.departures[:b.departing] {
		for filled := pt.filled; filled != 0; filled &= filled - 1 {
			lines = lines.AndTwo(unsafe.Pointer(&pt.queues[bits.TrailingZeros64(filled)]))
		}
	}
	for _, w := range b.hosts[:b.ending] {
		lines = e.foreseeHost(1, w, lines)
	}
	lines.Fetch()
	b.followed = true
}

// followQueues is the third step: the tails that arriving packets are linked to, or the state for sending at once, and
// the packets to be sent.
func (e *engine) followQueues(b *foresight) {
	lines := prefetch.Lines(e.look.lines[:0])
	for i := range b.arrivals[:b.arriving] {
		switch out := b.arrivals[i].out; {
		case out == nil:
		case out.port.filled != 0:
			lines = lines.And(unsafe.Pointer(out.lowest.last)).And(unsafe.Pointer(out.highest.last))
		default: // it may leave at once
			lines = lines.And(unsafe.Pointer(&out.port.sw)).And(unsafe.Pointer(&out.lowest.removed))
		}
	}
	for _, pt := range b.departures[:b.departing] {
		for filled := pt.filled; filled != 0; filled &= filled - 1 {
			lines = lines.And(unsafe.Pointer(pt.queues[bits.TrailingZeros64(filled)].first))
		}
	}
	for _, w := range b.hosts[:b.ending] {
		lines = e.foreseeHost(2, w, lines)
	}
	lines.Fetch()
}

// foreseeHost adds the memory that a host will use when a packet arrives or its wire is free.
func (e *engine) foreseeHost(step int, w what, lines prefetch.Lines) prefetch.Lines {
	i := w.port() - e.look.nics
	var p *Packet
	if w.kind() == arrival {
		p = e.packets.at(w.packet())
	}
	if step == 0 {
		lines = lines.AndTwo(unsafe.Pointer(&e.look.hosts[i])).AndTwo(unsafe.Pointer(&e.ports[w.port()]))
		if p != nil {
			lines = lines.AndTwo(unsafe.Pointer(p))
		}
	}
	if f := e.look.foreseers[i]; f != nil {
		return f.foresee(step, p, lines)
	}
	return lines
}
