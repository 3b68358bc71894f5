package fabric

import (
	"fmt"

	"candela.dev/candela/clock"
)

// A Stack is the transport of one host: protocol endpoints without I/O. The host's NIC calls it; it never calls back.
//
// Every packet that a host sends is polled: when the NIC is free, after Receive, after HandleTimer and after a packet
// has left. A stack that answered Poll with false is polled again after the next Receive or HandleTimer.
type Stack interface {
	// Receive takes a packet that arrived. p is valid during the call only.
	Receive(now clock.Time, p *Packet)
	// Poll fills p, whose header is zero but for ID and Src, with the next packet to send now: at least Dst, Size and
	// Protocol. It returns false, and leaves p alone, if there is none.
	Poll(now clock.Time, p *Packet) bool
	// NextTimer returns when HandleTimer wants to be called, or clock.Never. It is asked after each of the other calls. It
	// may be an instant of the past while there are packets to send.
	NextTimer() clock.Time
	// HandleTimer serves timers that are due, if any.
	HandleTimer(now clock.Time)
}

// A Sender is a Stack that knows when it has a packet to send. Its host polls it no earlier, and looks at it when the
// wire is free again only if something is due by then.
type Sender interface {
	// NextPacket returns when Poll has a packet if nothing else happens before, an instant of the past if it has one now,
	// or clock.Never. From then on, unless the wire is busy, NextTimer is due, too.
	NextPacket() clock.Time
}

// InitialTTL is what hosts send with: the number of switches that a packet may visit (deflection may need many).
const InitialTTL = 250

// Host is a machine with one NIC port.
type Host struct {
	id    HostID
	net   *Network
	part  *part
	port  *Port
	stack Stack
	sends Sender // the stack, if it is one; nil: it is polled always
	timer timer
	// held is a packet that was polled and may not leave: its class is paused.
	held   *Packet
	ids    identities
	egress *egress // nil: the stack sends when the wire is free
}

// timer wakes the host's stack.
type timer struct {
	task
	host *Host
}

// ID returns the host's number.
func (h *Host) ID() HostID { return h.id }

// Port returns the host's NIC port.
func (h *Host) Port() *Port { return h.port }

// Attach gives the host its transport, before the simulation starts.
func (h *Host) Attach(s Stack) {
	h.stack = s
	h.net.foreseers[h.id], _ = s.(foreseer)
	h.sends, _ = s.(Sender)
}

// Stack returns the host's transport, nil if it has none.
func (h *Host) Stack() Stack { return h.stack }

// Kick has the stack polled and its timer read again: for callers that changed it from outside (an application that
// starts a flow).
func (h *Host) Kick(now clock.Time) {
	if h.stack != nil {
		h.work(now)
	} else if h.egress != nil {
		h.egress.work(now)
	}
}

// Retime has the stack's timer read again: for callers that gave it something to do later.
func (h *Host) Retime(now clock.Time) {
	if h.stack == nil {
		return
	}
	at := h.stack.NextTimer()
	if at != clock.Never && (h.timer.place == 0 || at < h.timer.at) {
		h.part.engine.schedule(&h.timer.task, max(at, now))
	}
}

// arrive takes p, which has come in whole.
func (h *Host) arrive(now clock.Time, p *Packet) {
	if p.Flags&Shimmed != 0 { // no transport of a host has the protocol of a shim
		h.refuse(now, p)
		return
	}
	if h.egress != nil && h.egress.shim != nil {
		h.arriveAtShim(now, p)
		return
	}
	h.net.deliver(now, h, p)
	if h.stack == nil {
		h.part.pool.put(p)
		return
	}
	h.stack.Receive(now, p)
	h.part.pool.put(p)
	h.work(now)
}

// refuse drops a packet that no stack understands.
func (h *Host) refuse(now clock.Time, p *Packet) {
	h.part.dropped[p.Kind()]++
	if h.net.tap != nil {
		h.net.tap(Point{Host: true, Node: int(h.id), Port: ShimPort, Stage: Dropped, Reason: ReasonConsumed}, now, p)
	}
	h.part.pool.put(p)
}

// act implements actor: the stack's timer was due when it was set; it may have been put off since.
func (t *timer) act(now clock.Time) { t.host.work(now) }

// work serves the timer, sends what can be sent and sets the timer.
func (h *Host) work(now clock.Time) {
	at := h.stack.NextTimer()
	due := at <= now
	if due {
		h.stack.HandleTimer(now)
	}
	sent := false
	if h.egress != nil {
		h.egress.work(now)
		due = true
	} else if h.port.idle(now) && h.mayTransmit(now) {
		sent = h.transmit(now)
		due = true
	}
	if due {
		at = h.stack.NextTimer()
	}
	if (sent || h.sends != nil && h.port.busyUntil > now) && h.awaits(at) {
		h.port.wait(&h.part.engine)
	}
	switch {
	case at > now:
		// A timer put off is left where it is and looked at when it fires: retransmission timers move with every packet.
		if at != clock.Never && (h.timer.place == 0 || at < h.timer.at) {
			h.part.engine.schedule(&h.timer.task, at)
		}
	case h.egress != nil && (h.egress.full(now) || h.egress.working):
	case h.port.idle(now) && h.held == nil:
		h.part.fail(fmt.Errorf("host %d at %v: the stack's timer of %v is due, was served, and is still due", h.id, now, at))
	}
}

// mayTransmit reports whether transmit may have a packet.
func (h *Host) mayTransmit(now clock.Time) bool {
	return h.sends == nil || h.held != nil || h.port.urgent || h.sends.NextPacket() <= now
}

// awaits reports whether there is something to do when the wire is free, if the stack's timer is due at an instant.
func (h *Host) awaits(timer clock.Time) bool {
	free := h.port.busyUntil
	return h.sends == nil || timer <= free || h.held != nil || h.port.urgent || h.sends.NextPacket() <= free
}

// transmit sends a packet and reports whether there was one.
func (h *Host) transmit(now clock.Time) bool {
	if h.port.urgent {
		h.port.send(&h.part.engine, now, h.port.nextControl())
		return true
	}
	p := h.held
	if p == nil {
		if p = h.poll(now); p == nil {
			return false
		}
	}
	if h.port.paused&(1<<p.Class) != 0 {
		h.held = p
		return false
	}
	h.held = nil
	h.port.send(&h.part.engine, now, p)
	return true
}

// poll asks the stack for a packet.
func (h *Host) poll(now clock.Time) *Packet {
	p := h.part.pool.get()
	p.ID, p.Src = h.ids.last+1, h.id
	if !h.stack.Poll(now, p) {
		h.part.pool.put(p)
		return nil
	}
	h.ids.last++
	p.Original = max(p.Original, p.Size)
	if h.net.share != nil {
		p.share = h.net.share(&p.Header)
	}
	if p.TTL == 0 {
		p.TTL = InitialTTL
	}
	h.part.sent[p.Kind()]++
	if h.net.tap != nil {
		h.net.tap(Point{Host: true, Node: int(h.id), Stage: Egress}, now, p)
	}
	return p
}
