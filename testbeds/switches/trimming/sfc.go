package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// SourceFlowControl is SFC: above a threshold the header returns to the source, with addresses reversed. Packets are
// not trimmed towards the destination (Lee et al., IETF 112).
type SourceFlowControl struct {
	cutter
	threshold int // bytes
}

// Ingress implements fabric.Mechanism.
func (s *SourceFlowControl) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	switch {
	case v.Action != fabric.Forward:
		return v
	case s.small(p):
		v.Queue = s.headers
		return v
	}
	v.Queue = s.data(p)
	if s.cuttable(p) && s.waiting(now, sw.Port(int(v.Port)), v.Queue)+int(p.Size) > s.threshold {
		return s.back(sw, p, v)
	}
	return v
}

func (s *SourceFlowControl) back(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	port := v.Port
	s.cut(p)
	s.trims[port].Overflow++
	v, ok := s.turn(sw, p, v, int(s.headers))
	if ok {
		s.trims[port].Returned++
	}
	return v
}

// Overflow implements fabric.Mechanism.
func (s *SourceFlowControl) Overflow(_ clock.Time, sw *fabric.Switch, p *fabric.Packet,
	v fabric.Verdict) fabric.Verdict {
	if v.Queue != s.headers && s.cuttable(p) {
		return s.back(sw, p, v)
	}
	return s.lose(v, int(v.Port))
}
