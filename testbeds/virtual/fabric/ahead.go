package fabric

import (
	"math/bits"
	"unsafe"

	"candela.dev/candela/prefetch"
)

// Looking ahead, the engine asks for the memory that the next events of the open day will use, if the network is large. What an event
// uses is found in steps, each of which reads what the step before asked for: an arrival leads to a packet, that to the port that
// it leaves by, that to its queue. While a batch of events is served, each step is taken for another batch behind it, so that
// memory has the time of a batch to come, and nothing waits for it.
const (
	depth = 4 // steps
	batch = 8 // events: so few that what they use is still in the first cache when they are served
)

// lookAhead lets the next batch be served, once it has taken the steps for what is behind.
func (e *engine) lookAhead() {
	if !e.large {
		e.ahead = len(e.today)
		return
	}
	for step := range depth {
		from := max(e.seen[step], e.position)
		to := min(e.position+batch*(depth-step), len(e.today))
		if from < to {
			e.foresee(step, from, to)
			e.lines.Fetch()
		}
		e.seen[step] = to
	}
	e.ahead = e.seen[depth-1]
}

// foresee takes a step for the events of today from one position to another.
func (e *engine) foresee(step, from, to int) {
	for i := from; i < to; i++ {
		w := e.today[i].what()
		switch w & kindMask {
		case arrival:
			if w.port() >= e.nics {
				e.foreseeAtHost(step, w.port(), e.packets.at(w.packet()))
				continue
			}
			e.foreseeArrival(step, w, &e.ways[i%len(e.ways)])
		case freeWire:
			if w.port() >= e.nics {
				e.foreseeAtHost(step, w.port(), nil)
				continue
			}
			e.foreseeDeparture(step, &e.ports[w.port()])
		case wakeUp, nothing:
		}
	}
}

// foreseeArrival asks for what a packet that arrives at a switch will use: the port that it leaves by, its queues, their last packets.
func (e *engine) foreseeArrival(step int, w what, way *int32) {
	lines := &e.lines
	if step == 0 {
		lines.Add(unsafe.Pointer(e.packets.at(w.packet())))
		lines.Add(unsafe.Pointer(&e.ports[w.port()].sw))
		return
	}
	if step == 1 {
		sw := e.ports[w.port()].sw
		*way = sw.routes.likely(sw, e.packets.at(w.packet()))
	}
	if *way < 0 {
		return
	}
	out := &e.ports[*way]
	if step == 1 {
		lines.AddTwo(unsafe.Pointer(out))
		return
	}
	lowest, highest := &out.queues[0], &out.queues[len(out.queues)-1]
	if step == 2 {
		lines.Add(unsafe.Pointer(lowest))
		lines.Add(unsafe.Pointer(highest))
		return
	}
	lines.Add(unsafe.Pointer(lowest.last))
	lines.Add(unsafe.Pointer(highest.last))
}

// foreseeDeparture asks for what a port of a switch will use when it sends: queues with packets, and the first of these.
func (e *engine) foreseeDeparture(step int, pt *Port) {
	if step == 0 {
		e.lines.AddTwo(unsafe.Pointer(pt))
		return
	}
	for filled := pt.filled; filled != 0; filled &= filled - 1 {
		q := &pt.queues[bits.TrailingZeros64(filled)]
		switch step {
		case 1:
			e.lines.AddTwo(unsafe.Pointer(q))
		case 2:
			e.lines.Add(unsafe.Pointer(q.first))
		}
	}
}

// A foreseer is a Stack that can ask for memory ahead of Receive, or with a nil packet of Poll: see ndp.Host.Foresee. Step 0 must not
// read anything.
type foreseer interface {
	foresee(step int, p *Packet, lines *prefetch.List)
}

// foreseeAtHost asks for what the host of a NIC port will use when p arrives, or with a nil p when its wire is free.
func (e *engine) foreseeAtHost(step, port int, p *Packet) {
	h := &e.hosts[port-e.nics]
	if step == 0 {
		e.lines.AddTwo(unsafe.Pointer(h))
		e.lines.AddTwo(unsafe.Pointer(&e.ports[port]))
		if p != nil {
			e.lines.AddTwo(unsafe.Pointer(p))
		}
	}
	if f := e.foreseers[port-e.nics]; f != nil {
		f.foresee(step, p, &e.lines)
	}
}
