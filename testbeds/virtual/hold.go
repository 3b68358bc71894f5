package virtual

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
)

// holder is where the switch keeps packets that leave later than they could.
type holder struct {
	pipeline.Holder[outgoing]
	sw     *injectorSwitch
	engine *engine
	task   task
}

// outgoing is a packet on its way to a port.
type outgoing struct {
	p    *packet.Packet
	port uint16
}

func newHolder(sw *injectorSwitch, e *engine) *holder {
	h := &holder{sw: sw, engine: e}
	h.task.actor = h
	return h
}

// hold takes a packet that r delays or reorders, and p with it.
func (h *holder) hold(now clock.Time, r *pipeline.Result, p *packet.Packet) {
	due := h.Hold(now, r, outgoing{p, r.Forward.Port})
	h.sw.lastRoCE = max(h.sw.lastRoCE, due)
	h.engine.schedule(&h.task, h.Next())
}

// act lets go of what is due.
func (h *holder) act(now clock.Time) {
	for _, x := range h.Due(now) {
		h.sw.transmit(now, x.port, x.p)
	}
	if h.Len() > 0 {
		h.engine.schedule(&h.task, h.Next())
	}
}
