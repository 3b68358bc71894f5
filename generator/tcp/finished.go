package tcp

import "candela.dev/candela/clock"

// left is what remains of a connection at the receiver of a transfer: what late copies of segments need.
type left struct {
	have uint32 // bytes in order, modulo 2^32
	echo bool   // see ecnReceiver
	ecn  bool   // was negotiated
}

// Finish says that this end writes nothing more to a connection and needs nothing more of it. The connection leaves
// when it has nothing to send or to wait for; late copies of segments are still acknowledged. Only a connection with
// data in one direction leaves. The sink may call it.
func (h *Host) Finish(peer Endpoint, number uint32) {
	if c := h.find(key{peer, number}); c != nil {
		c.finished = true
	}
}

// idle reports whether a connection has nothing to send and nothing to wait for.
func (c *connection) idle() bool {
	return c.next == c.written && len(c.segments) == 0 && len(c.beyond) == 0 && c.pending == 0 && !c.ackNow &&
		!c.greets && !c.queued && len(c.earlier) == 0 && c.expires == clock.Never && c.ackAt == clock.Never &&
		(c.next == 0 || c.have == 0)
}

// leave removes a connection that has finished. A sender leaves nothing: it ignores late acknowledgements.
func (h *Host) leave(c *connection) {
	if c.place > 0 {
		h.timers.remove(c)
	}
	delete(h.known, c.key)
	if recent := &h.recent[c.number%recentConnections]; *recent == c {
		*recent = nil
	}
	if c.have > 0 {
		if h.gone == nil {
			h.gone = make(map[key]left)
		}
		h.gone[c.key] = left{uint32(c.have), c.echo, c.negotiated}
	}
}

// of returns the connection of a packet that has arrived. A data packet or a SYN opens one; a late copy opens the one
// that has left, until it is answered. nil: the packet belongs to none.
func (h *Host) of(p *Packet) *connection {
	k := key{p.From, p.Connection}
	if c := h.find(k); c != nil {
		return c
	}
	if p.Payload == 0 && (p.Header.Flags&FlagSYN == 0 || p.Header.Flags&FlagACK != 0) {
		h.counters.Unclaimed++
		return nil
	}
	c := h.connection(k)
	if was, ok := h.gone[k]; ok {
		c.finished, c.stage, c.negotiated = true, established, was.ecn
		c.have, c.echo = 1<<32+uint64(was.have), was.echo // above every copy
		c.top = c.have
	}
	return c
}
