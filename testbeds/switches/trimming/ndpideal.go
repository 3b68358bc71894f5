package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Ideal is the switch of NDP (Handley et al., SIGCOMM 2017): an output-queued switch that trims when the data queue is
// full, either the arriving or the last packet. Headers have their own queue. When it is full too, a header returns to
// its sender.
type Ideal struct {
	cutter
	room     int     // bytes of the data queue
	lastOne  float64 // probability of trimming the last packet in the queue instead of the arriving one
	toSender bool
}

// Ingress implements fabric.Mechanism.
func (s *Ideal) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	switch {
	case v.Action != fabric.Forward:
		return v
	case s.small(p):
		v.Queue = s.headers
		return v
	}
	v.Queue = s.data(p)
	port := sw.Port(int(v.Port))
	if s.waiting(now, port, v.Queue)+int(p.Size) <= s.room {
		return v
	}
	return s.full(now, sw, p, v)
}

// full makes room in the data queue for p, or trims p.
func (s *Ideal) full(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if !s.cuttable(p) {
		return v // another protocol's small packet: the queue's limits decide
	}
	if last := s.victim(sw, p, v); last != nil {
		port := sw.Port(int(v.Port))
		sw.Extract(now, port, int(v.Queue), last)
		s.header(now, sw, last, v)
		return v
	}
	s.cut(p)
	s.trims[v.Port].Overflow++
	return v.To(sw.Port(int(v.Port)), int(s.headers))
}

// victim returns the last waiting packet if the draw selects it for trimming instead of p.
func (s *Ideal) victim(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) *fabric.Packet {
	if s.lastOne == 0 || sw.Rand().Float64() >= s.lastOne {
		return nil
	}
	last := sw.Port(int(v.Port)).Queue(int(v.Queue)).Tail()
	// Trimming a smaller packet would not make room.
	if last == nil || last.Size < p.Size || !s.cuttable(last) {
		return nil
	}
	return last
}

// header trims p, which was in the data queue, and queues it as a header.
func (s *Ideal) header(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) {
	s.cut(p)
	s.trims[v.Port].Overflow++
	sw.Place(now, p, v.To(sw.Port(int(v.Port)), int(s.headers)))
}

// Overflow implements fabric.Mechanism.
func (s *Ideal) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if v.Queue != s.headers && s.cuttable(p) {
		return s.full(now, sw, p, v)
	}
	return s.sendBack(sw, p, v)
}

// sendBack returns a header to its sender because the header queue is full. Control packets and returned headers are
// lost.
func (s *Ideal) sendBack(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if !s.toSender || p.Flags&fabric.Trimmed == 0 || p.Flags&fabric.Returned != 0 {
		return s.lose(v, int(v.Port))
	}
	port := v.Port
	v, ok := s.turn(sw, p, v, int(s.headers))
	if ok {
		s.trims[port].Returned++
	}
	return v
}
