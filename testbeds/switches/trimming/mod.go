package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// MirrorOnDrop is MoD, as on Trident 4 and Spectrum 2. When a packet finds its queue full, the traffic manager mirrors
// its header to the recirculation port of its pipeline; the header then enters the header queue.
type MirrorOnDrop struct {
	cutter
	toSender bool // headers return to the source (SFC)
}

// Ingress implements fabric.Mechanism.
func (m *MirrorOnDrop) Ingress(_ clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	switch {
	case recirculated(in):
		return m.returned(sw, p, v)
	case v.Action != fabric.Forward:
	case m.small(p):
		v.Queue = m.headers
	default:
		v.Queue = m.data(p)
	}
	return v
}

// returned forwards a header that comes from the recirculation port.
func (m *MirrorOnDrop) returned(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if !m.toSender {
		return v.To(outlet(sw, p), int(m.headers))
	}
	port := p.Meta
	v, ok := m.turn(sw, p, v, int(m.headers))
	if ok {
		m.trims[port].Returned++
	}
	return v
}

// Overflow implements fabric.Mechanism.
func (m *MirrorOnDrop) Overflow(_ clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	switch {
	case int(v.Port) >= sw.Ports():
		return m.lose(v, int(p.Meta)) // the recirculation port is full
	case v.Queue == m.headers || !m.cuttable(p):
		return m.lose(v, int(v.Port))
	}
	m.cut(p)
	m.trims[v.Port].Overflow++
	return deflect(sw, p, v)
}
