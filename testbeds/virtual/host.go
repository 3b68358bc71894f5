package virtual

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
)

// host is a machine with one NIC. It passes frames between the wire and the NIC, and completions to the application.
type host struct {
	name    string
	nic     *rdma.NIC
	engine  *engine
	pool    *pool
	up      *link      // towards the switch
	wire    clock.Time // when the port becomes idle
	task    task
	settled func(now clock.Time) // called whenever the NIC may have completions
	fault   error                // a bug of ours that stops the simulation
	watch   Watcher              // nil: not watched
	place   Place                // for watch
}

func newHost(name string, nic *rdma.NIC, e *engine, p *pool) *host {
	h := &host{name: name, nic: nic, engine: e, pool: p}
	h.task.actor = h
	return h
}

// receive implements receiver.
func (h *host) receive(now clock.Time, _ uint16, p *packet.Packet) {
	if h.watch != nil {
		h.watch(now, h.place, p)
	}
	h.nic.HandlePacket(now, p)
	h.pool.put(p)
	h.settled(now)
	h.kick(now)
}

// act serves timers and transmits while the wire is idle.
func (h *host) act(now clock.Time) {
	if h.nic.NextTimer() <= now {
		h.nic.HandleTimer(now)
		h.settled(now)
	}
	if h.wire <= now {
		p := h.pool.get()
		if h.nic.Poll(now, p) {
			if h.watch != nil {
				h.watch(now, h.place, p)
			}
			h.wire, _ = h.up.send(now, p)
		} else {
			h.pool.put(p)
			if h.nic.NextTimer() <= now {
				h.fault = fmt.Errorf("NIC of %s asks to be polled at %v and then has nothing to send", h.name, now)
				return
			}
		}
	}
	h.kick(now)
}

// kick schedules the host's next action, now at the earliest, and no transmission before the wire is idle.
func (h *host) kick(now clock.Time) {
	next := h.nic.NextTimer()
	switch {
	case next == clock.Never:
		h.engine.cancel(&h.task)
		return
	case next <= now:
		next = max(now, h.wire)
	}
	h.engine.schedule(&h.task, next)
}
