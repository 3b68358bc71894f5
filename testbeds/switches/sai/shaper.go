package sai

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// shaper limits a queue to a rate (SCHEDULER pir in SONiC); tests use it to congest a port with one sender. Packets
// wait here and pass to the port's queue one at a time. They count towards that queue's thresholds.
type shaper struct {
	rate  clock.BitRate // 0: none
	next  clock.Time    // when the next packet may pass
	bytes int
	wait  []*fabric.Packet
}

// enqueue passes an admitted packet to its queue, or holds it in the queue's shaper.
func (m *Mechanism) enqueue(now clock.Time, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	s := &m.shapers[v.Port][v.Queue]
	if s.rate == 0 && len(s.wait) == 0 {
		return v
	}
	if len(s.wait) == 0 && s.next <= now {
		s.next = now.Add(s.rate.Serialise(int(p.Size)))
		return v
	}
	if len(s.wait) == 0 {
		m.sw.Wake(s.next, token(v))
	}
	s.wait = append(s.wait, p)
	s.bytes += int(p.Size)
	m.waiting += int(p.Size)
	return v.Consumed()
}

// Stop implements fabric.Stopper: packets in shapers or held by a bug are lost with the switch.
func (m *Mechanism) Stop(now clock.Time, sw *fabric.Switch) {
	lose := func(p *fabric.Packet, port, queue int) {
		sw.Discard(now, p, fabric.Verdict{}.To(sw.Port(port), queue).Drop(fabric.ReasonStopped))
	}
	for port := range m.shapers {
		for queue := range m.shapers[port] {
			for _, p := range m.shapers[port][queue].wait {
				lose(p, port, queue)
			}
		}
	}
	for _, h := range m.held {
		lose(h.packet, h.port, h.queue)
	}
}

// token identifies a shaper's timer; 0 is the timer of the bugs.
func token(v fabric.Verdict) uint64 { return 1 + uint64(v.Port)*(lastQueue+1) + uint64(v.Queue) }

// pass serves the timer of a shaper: it passes on the oldest packet, or all of them if the shaper was removed.
func (m *Mechanism) pass(now clock.Time, token uint64) {
	port, queue := int(token-1)/(lastQueue+1), int(token-1)%(lastQueue+1)
	s := &m.shapers[port][queue]
	v := fabric.Verdict{}.To(m.sw.Port(port), queue)
	for len(s.wait) > 0 {
		p := s.wait[0]
		s.wait = s.wait[1:]
		size := int(p.Size)
		s.bytes -= size
		m.waiting -= size
		m.sw.Place(now, p, v)
		if s.rate == 0 {
			continue
		}
		s.next = now.Add(s.rate.Serialise(size))
		if len(s.wait) > 0 {
			m.sw.Wake(s.next, token)
		}
		return
	}
}

// Held implements fabric.Holder.
func (m *Mechanism) Held() int {
	packets := len(m.held)
	for port := range m.shapers {
		for queue := range m.shapers[port] {
			packets += len(m.shapers[port][queue].wait)
		}
	}
	return packets
}
