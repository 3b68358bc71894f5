package virtual

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// holder is where the switch keeps packets that leave later than they could: delayed ones until their instant, reordered ones
// until those behind them have overtaken.
//
// A packet that leaves by time leaves one picosecond before a whole nanosecond of the switch's clock. Mirror stamps are in
// whole nanoseconds, so the trace tells exactly which packets arrived before it left and which after.
type holder struct {
	sw     *injectorSwitch
	engine *engine
	task   task
	queue  []held // by due, then by arrival
	ready  []held // scratch
}

// held is one packet that waits.
type held struct {
	p      *packet.Packet
	port   uint16
	due    clock.Time
	flow   trace.FlowID
	behind uint16 // later packets of the flow that have yet to arrive; 0: only time counts
}

func newHolder(sw *injectorSwitch, e *engine) *holder {
	h := &holder{sw: sw, engine: e}
	h.task.actor = h
	return h
}

// hold takes a packet that r delays or reorders, and p with it.
func (h *holder) hold(now clock.Time, r *pipeline.Result, p *packet.Packet) {
	wait := r.Forward.DelayNS
	if r.Forward.Behind > 0 {
		wait = pipeline.ReorderLimitNS
	}
	x := held{p: p, port: r.Forward.Port, due: dueAfter(now, wait), flow: r.Flow, behind: r.Forward.Behind}
	at := len(h.queue)
	for at > 0 && h.queue[at-1].due > x.due {
		at--
	}
	h.queue = append(h.queue, held{})
	copy(h.queue[at+1:], h.queue[at:])
	h.queue[at] = x
	h.sw.lastRoCE = max(h.sw.lastRoCE, x.due)
	h.engine.schedule(&h.task, h.queue[0].due)
}

// dueAfter returns the last instant before the nanosecond that begins ns after that of now.
func dueAfter(now clock.Time, ns int64) clock.Time {
	start := clock.Time(0).Add(clock.Duration(now.Nanoseconds()+ns) * clock.Nanosecond)
	return start.Add(-1)
}

// overtaken counts one more packet of a flow and returns those that waited for it, in the order of their arrival. They leave
// right behind it. The slice is valid until the next call.
func (h *holder) overtaken(flow trace.FlowID) []held {
	h.ready = h.ready[:0]
	left := 0
	for i := range h.queue {
		x := &h.queue[i]
		if x.behind > 0 && x.flow == flow {
			if x.behind--; x.behind == 0 {
				h.ready = append(h.ready, *x)
				continue
			}
		}
		h.queue[left] = *x
		left++
	}
	clear(h.queue[left:])
	h.queue = h.queue[:left]
	return h.ready
}

// act lets go of what is due.
func (h *holder) act(now clock.Time) {
	n := 0
	for n < len(h.queue) && h.queue[n].due <= now {
		h.sw.transmit(now, h.queue[n].port, h.queue[n].p)
		n++
	}
	left := copy(h.queue, h.queue[n:])
	clear(h.queue[left:])
	h.queue = h.queue[:left]
	if left > 0 {
		h.engine.schedule(&h.task, h.queue[0].due)
	}
}
