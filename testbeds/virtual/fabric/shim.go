package fabric

import (
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/clock"
)

// A Shim is a layer between a host's stack and its NIC. It sees every packet in both directions and may change it.
// Forward passes the packet on and Drop discards it. With Consume the shim keeps the packet until it passes it on
// (Host.Transmit, Host.Deliver) or discards it (Host.Discard). A Shim belongs to one host.
type Shim interface {
	// Outbound takes a packet that the stack sends.
	Outbound(now clock.Time, h *Host, p *Packet) Action
	// Inbound takes a packet that has arrived at the NIC.
	Inbound(now clock.Time, h *Host, p *Packet) Action
}

// TimedShim is a Shim that uses timers (Host.Wake).
type TimedShim interface {
	// HandleTimer serves the timer that was requested with token.
	HandleTimer(now clock.Time, h *Host, token uint64)
}

// SetShim puts s between the host's stack and its NIC, before the simulation starts.
func (h *Host) SetShim(s Shim) {
	e := h.between()
	e.shim = s
	e.rand = rand.New(rand.NewPCG(h.net.spec.Seed, seedOf(fmt.Sprintf("shim %d", h.id))))
}

// Shim returns the host's shim, or nil.
func (h *Host) Shim() Shim {
	if h.egress == nil {
		return nil
	}
	return h.egress.shim
}

// Rand returns the random numbers of the host's shim, which depend only on seed and host.
func (h *Host) Rand() *rand.Rand { return h.egress.rand }

// Transmit passes a packet that the shim kept or made to the NIC.
func (h *Host) Transmit(now clock.Time, p *Packet) {
	h.egress.queue(now, p)
	h.egress.work(now)
}

// Deliver passes a packet that the shim kept or made to the stack.
func (h *Host) Deliver(now clock.Time, p *Packet) {
	h.egress.settle(p)
	h.hand(now, p)
}

// Discard drops a packet that the shim kept or made.
func (h *Host) Discard(now clock.Time, p *Packet) {
	h.egress.drop(now, p)
	h.part.dropped[p.Kind()]++
	if h.net.tap != nil {
		h.net.tap(Point{Host: true, Node: int(h.id), Port: ShimPort, Stage: Dropped, Reason: ReasonConsumed}, now, p)
	}
	h.part.pool.put(p)
}

// Make returns a new packet with the header h, for the host's shim to transmit, deliver or discard.
func (h *Host) Make(now clock.Time, header Header) *Packet {
	return h.part.make(now, header, h.ids.next())
}

// Wake schedules a call of the shim's HandleTimer with token.
func (h *Host) Wake(at clock.Time, token uint64) {
	e := h.egress
	var w *shimWake
	if n := len(e.wakes); n > 0 {
		w, e.wakes = e.wakes[n-1], e.wakes[:n-1]
	} else {
		w = &shimWake{egress: e}
		w.actor, w.node = w, h.port.number
	}
	w.token = token
	h.part.engine.schedule(&w.task, at)
}

type shimWake struct {
	task
	egress *egress
	token  uint64
}

// act implements actor.
func (w *shimWake) act(now clock.Time) {
	e, token := w.egress, w.token
	e.wakes = append(e.wakes, w)
	e.shim.(TimedShim).HandleTimer(now, e.host, token)
	e.host.Kick(now)
}

func (h *Host) hand(now clock.Time, p *Packet) {
	h.net.deliver(now, h, p)
	if h.stack != nil {
		h.stack.Receive(now, p)
	}
	h.part.pool.put(p)
}

// arriveAtShim passes p, received whole, to the shim.
func (h *Host) arriveAtShim(now clock.Time, p *Packet) {
	h.show(now, Arrived, p)
	switch h.egress.shim.Inbound(now, h, p) {
	case Forward:
		h.hand(now, p)
	case Consume:
	default:
		h.Discard(now, p)
	}
	h.Kick(now)
}
