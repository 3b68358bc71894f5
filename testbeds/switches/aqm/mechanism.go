package aqm

import (
	"math"
	"math/rand/v2"

	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Mechanism is a switch: tables at its ingress ports, a scheme at its egress queues, and a limit of each port.
type Mechanism struct {
	fabric.TailDrop
	set    aqm.Settings
	mice   int // queue of mice; −1: none
	sw     *fabric.Switch
	faults faults
	traps  []*Etrap // by ingress port; one table for all of them may be there many times
	firsts []*DPP
	ports  []port
	claims claims // about the packet at hand
	seen   uint64 // packets
	key    Key    // of the packet at hand
}

// port is an egress port.
type port struct {
	room   int
	queues []queue
	groups []aqm.Group
}

// queue is a queue of data with what its scheme keeps.
type queue struct {
	policy    aqm.Policy
	fair      *AFD
	early     *RED
	threshold int
	skips     int            // of a seeded bug
	drawn     map[Key]uint32 // of another
}

// claims are what a decision record says.
type claims struct {
	sighting    Sighting
	index       int
	probability float64
	cause       uint8
}

// Start implements fabric.Starter.
func (m *Mechanism) Start(now clock.Time, sw *fabric.Switch) {
	m.sw = sw
	m.traps, m.firsts, m.ports = make([]*Etrap, sw.Ports()), make([]*DPP, sw.Ports()), make([]port, sw.Ports())
	for i := range m.ports {
		m.startTables(i)
		m.ports[i] = m.startPort(now, i)
	}
}

// startTables makes the tables of an ingress port.
func (m *Mechanism) startTables(i int) {
	if m.set.Scheme == aqm.AFD {
		if m.traps[i] = m.traps[0]; i == 0 || m.set.Etrap.PerSwitch == m.faults.otherScope {
			m.traps[i] = NewEtrap(m.set.Etrap)
			m.traps[i].faults = m.faults.etrap
		}
	}
	if m.set.DPP != nil {
		if m.firsts[i] = m.firsts[0]; i == 0 || !m.set.DPP.PerSwitch {
			m.firsts[i] = NewDPP(*m.set.DPP)
			m.firsts[i].faults = m.faults.dpp
		}
	}
}

func (m *Mechanism) startPort(now clock.Time, i int) port {
	at := m.sw.Port(i)
	p := port{room: policyOf(&m.set, i, -1, false).PortBytes, queues: make([]queue, m.set.Queues),
		groups: make([]aqm.Group, at.Queues())}
	for j := range p.queues {
		q := &p.queues[j]
		q.policy = policyOf(&m.set, i, j, m.faults.systemLast)
		if q.policy.Off {
			continue
		}
		switch m.set.Scheme {
		case aqm.AFD:
			q.fair = NewAFD(now, m.distorted(q.policy, at.Rate()), at.Rate())
			q.fair.faults = m.faults.afd
		case aqm.RED:
			q.early = NewRED(m.distorted(q.policy, at.Rate()), at.Rate())
		case aqm.Threshold:
			if q.threshold = q.policy.ThresholdBytes; q.threshold == 0 {
				q.threshold = aqm.ThresholdBytes(at.Rate())
			}
			if m.faults.doubleThreshold {
				q.threshold *= 2
			}
		case aqm.TailDrop:
		}
		if m.faults.blind {
			q.early = NewRED(aqm.Policy{MaxProbability: 0.5, Weight: 0.002}, at.Rate())
		}
	}
	return p
}

// Ingress implements fabric.Mechanism.
func (m *Mechanism) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	m.claims = claims{}
	m.seen++
	key := Key{Src: uint32(p.Src), Dst: uint32(p.Dst), Flow: p.Flow, Protocol: p.Protocol, IPv6: p.IPv6}
	m.key = key
	if trap := m.traps[in.Index()]; trap != nil {
		m.claims.sighting = trap.Observe(now, key, int(p.Size))
	}
	class := min(int(p.Class), m.set.Queues-1)
	v.Queue = uint8(class)
	if first := m.firsts[in.Index()]; first != nil && (m.set.DPP.Class < 0 || m.set.DPP.Class == int(p.Class)) {
		mouse := false
		if mouse, m.claims.index = first.Classify(now, key, int(p.Size)); mouse {
			v.Queue = uint8(m.mice)
		}
	}
	at, out := &m.ports[v.Port], sw.Port(int(v.Port))
	waiting := out.Queue(int(v.Queue)).Bytes()
	lossless := p.Class < 8 && m.set.Lossless&(1<<p.Class) != 0
	marked := false
	if !lossless && int(v.Queue) < len(at.queues) && m.early(now, &at.queues[v.Queue], p, out, waiting) {
		if !at.queues[v.Queue].policy.ECN || p.ECN == packet.NotECT && !m.faults.marksIncapable || m.faults.dropsMarked {
			kind := uint8(decisionEarly)
			if m.faults.recordsTail {
				kind = decisionTail
			}
			m.decide(now, p, v, kind, waiting)
			return m.drop(p, v.Drop(fabric.ReasonEarly))
		}
		marked = true
	}
	if !lossless && !m.faults.overfills && m.tooMuch(out, at, p) {
		m.decide(now, p, v, decisionTail, waiting)
		return m.drop(p, v.Drop(fabric.ReasonTail))
	}
	if !sw.Fits(out, int(v.Queue), p) {
		return v // to Overflow
	}
	kind := uint8(decisionQueued)
	if marked {
		kind, p.ECN = decisionMarked, packet.CE
		if !m.faults.miscounts || m.seen%7 > 0 {
			at.groups[v.Queue].MarkedPackets++
		}
		if m.faults.recountsMarks {
			at.groups[v.Queue].MarkedPackets++
		}
	}
	m.decide(now, p, v, kind, waiting)
	return v
}

// tooMuch reports whether a port has no room for p.
func (m *Mechanism) tooMuch(out *fabric.Port, at *port, p *fabric.Packet) bool {
	room := at.room
	if m.faults.refuses {
		room -= room / 4
	}
	return out.Bytes()+int(p.Size) > room
}

// early reports whether p, for a queue that holds so many bytes, is to be dropped or marked.
func (m *Mechanism) early(now clock.Time, q *queue, p *fabric.Packet, out *fabric.Port, waiting int) bool {
	switch {
	case q.policy.Off:
		return false
	case q.early != nil:
		m.claims.cause, m.claims.probability = causeMean, q.early.Arrive(waiting)
		if !m.draw(q) {
			return false
		}
		q.early.Selected()
		return true
	case q.fair != nil:
		q.fair.Advance(now, m.measured(q, out, waiting))
		m.claims.probability = m.probability(q, out, waiting)
		if m.faults.favours && p.Src%2 == 0 {
			m.claims.probability /= 4
		}
		return m.draw(q)
	case m.set.Scheme == aqm.Threshold:
		m.claims.cause = causeThreshold
		if waiting >= q.threshold && p.ECN != packet.NotECT {
			m.claims.probability = 1
			return true
		}
	}
	return false
}

// probability returns that of AFD for the packet at hand.
func (m *Mechanism) probability(q *queue, out *fabric.Port, waiting int) float64 {
	s := &m.claims.sighting
	if !s.Elephant && !(m.faults.mice && s.Rate > 0) {
		m.claims.cause = causeMouse
		if m.faults.marksMice && waiting > q.fair.desired {
			return 0.1
		}
		return 0
	}
	m.claims.cause = causeRate
	if m.faults.sparesFull && 2*out.Bytes() > q.fair.desired*3 {
		return 0
	}
	d := q.fair.Probability(s.Rate, waiting)
	switch {
	case m.faults.half:
		d /= 2
	case m.faults.square:
		d *= d
	case m.faults.belowFair && d == 0 && s.Rate > 0.9*q.fair.fair && waiting > 0:
		d = 0.05
	}
	return d
}

// draw decides by the probability of the packet at hand: one random number if it is between 0 and 1, none otherwise, so
// that the numbers of two runs can be compared.
func (m *Mechanism) draw(q *queue) bool {
	d := m.claims.probability
	switch {
	case d <= 0:
		return false
	case d >= 1:
		return true
	case m.faults.regular: // every so many packets
		q.skips++
		if float64(q.skips)*d >= 1 {
			q.skips = 0
			return true
		}
		return false
	}
	if m.faults.equalDraws {
		if q.drawn == nil {
			q.drawn = make(map[Key]uint32)
		}
		q.drawn[m.key]++
		return rand.New(rand.NewPCG(uint64(q.drawn[m.key]), 0)).Float64() < d
	}
	return m.sw.Rand().Float64() < d
}

// measured returns the bytes that AFD takes for its queue.
func (m *Mechanism) measured(_ *queue, out *fabric.Port, waiting int) int {
	if m.faults.portTotal {
		return out.Bytes()
	}
	return waiting
}

// Overflow implements fabric.Mechanism.
func (m *Mechanism) Overflow(now clock.Time, _ *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	m.decide(now, p, v, decisionTail, m.sw.Port(int(v.Port)).Queue(int(v.Queue)).Bytes())
	return m.drop(p, v.Drop(v.Reason))
}

// Dequeued implements fabric.Mechanism.
func (m *Mechanism) Dequeued(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	at := &m.ports[v.Port]
	if int(v.Queue) < len(at.queues) {
		if q := &at.queues[v.Queue]; q.fair != nil {
			out := sw.Port(int(v.Port))
			q.fair.Advance(now, m.measured(q, out, out.Queue(int(v.Queue)).Bytes())+int(p.Size))
		}
	}
	g := &at.groups[v.Queue]
	g.TxPackets++
	g.TxBytes += uint64(p.Size)
	return v
}

// drop counts a packet that is dropped early or for want of room.
func (m *Mechanism) drop(p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	g := &m.ports[v.Port].groups[v.Queue]
	if v.Reason == fabric.ReasonEarly {
		g.EarlyPackets++
		g.EarlyBytes += uint64(p.Size)
	} else if m.faults.miscounts {
		return v
	}
	g.DroppedPackets++
	return v
}

// Counters returns what the switch counts.
func (m *Mechanism) Counters() aqm.Counters {
	var c aqm.Counters
	for i := range m.ports {
		groups := append([]aqm.Group(nil), m.ports[i].groups...)
		for j := range groups {
			g := &groups[j]
			g.DepthBytes = m.sw.Port(i).Queue(j).Bytes()
			if m.faults.saturates {
				most := m.set.Wrapped(math.MaxUint64)
				g.TxPackets, g.TxBytes = min(g.TxPackets, most), min(g.TxBytes, most)
			}
			*g = g.Wrapped(&m.set)
		}
		c.Ports = append(c.Ports, groups)
	}
	return c
}

// Evictions returns how many elephants have become mice again.
func (m *Mechanism) Evictions() (n uint64) {
	for i, t := range m.traps {
		if t != nil && (i == 0 || t != m.traps[0]) {
			n += t.Evictions()
		}
	}
	return n
}
