package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Ideal is the switch that NDP asks for (Handley et al., SIGCOMM 2017): an output-queued switch whose data queue, when
// full, has a packet cut, the arriving or the last one, and whose headers have a queue of their own. When that is full
// too, a header goes back to its sender.
type Ideal struct {
	cutter
	room     int     // bytes of the data queue
	lastOne  float64 // probability that the last packet in the queue is cut rather than the arriving one
	toSender bool
}

// Ingress implements fabric.Mechanism.
func (s *Ideal) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	switch {
	case v.Action != fabric.Forward:
		return v
	case s.small(p):
		v.Queue = headerQueue
		return v
	}
	v.Queue = dataQueue
	port := sw.Port(int(v.Port))
	if s.waiting(now, port)+int(p.Size) <= s.room {
		return v
	}
	return s.full(now, sw, p, v)
}

// full makes room in the data queue for p, or cuts p.
func (s *Ideal) full(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if !s.cuttable(p) {
		return v // another protocol's small packet: the queue itself decides
	}
	if last := s.victim(sw, p, v); last != nil {
		port := sw.Port(int(v.Port))
		sw.Extract(now, port, dataQueue, last)
		s.header(now, sw, last, v)
		return v
	}
	s.cut(p)
	s.trims[v.Port].Overflow++
	return v.To(sw.Port(int(v.Port)), headerQueue)
}

// victim returns the last waiting packet if chance wants it cut instead of p.
func (s *Ideal) victim(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) *fabric.Packet {
	if s.lastOne == 0 || sw.Rand().Float64() >= s.lastOne {
		return nil
	}
	last := sw.Port(int(v.Port)).Queue(dataQueue).Tail()
	// Cutting a smaller packet would not make room.
	if last == nil || last.Size < p.Size || !s.cuttable(last) {
		return nil
	}
	return last
}

// header cuts p, which has waited in the data queue, and queues it as a header.
func (s *Ideal) header(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) {
	s.cut(p)
	s.trims[v.Port].Overflow++
	sw.Place(now, p, v.To(sw.Port(int(v.Port)), headerQueue))
}

// Overflow implements fabric.Mechanism.
func (s *Ideal) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if v.Queue == dataQueue && s.cuttable(p) {
		return s.full(now, sw, p, v)
	}
	return s.sendBack(sw, p, v)
}

// sendBack returns a header that found its queue full. Control packets and headers on their way back are lost.
func (s *Ideal) sendBack(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if !s.toSender || p.Flags&fabric.Trimmed == 0 || p.Flags&fabric.Returned != 0 {
		return s.lose(v, int(v.Port))
	}
	port := v.Port
	v, ok := s.turn(sw, p, v, headerQueue)
	if ok {
		s.trims[port].Returned++
	}
	return v
}
