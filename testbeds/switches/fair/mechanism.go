package fair

import (
	"math"
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Excess is the drop test's reason.
const Excess = fabric.ReasonOwn

// Mechanism is a switch with core-stateless fair queueing: one FIFO and the state of a tree at each port, and at the
// edge the rates of flows.
type Mechanism struct {
	fabric.TailDrop
	set    fair.Settings
	faults faults
	ports  []egress
	flows  map[flowKey]*flow
	inner  map[flowKey]struct{} // of a seeded bug
	claim  trace.Decision       // about the packet at hand
	seen   uint64
	shims  []int32 // bytes of a shim, by the node of its label; nil: labels are metadata
}

// egress is a port with what belongs to it.
type egress struct {
	*port
	rand    *rand.PCG
	framing int
	last    bool // towards a host
	counts  fair.PortCounters
}

type flowKey struct {
	src, dst uint32
	flow     uint32
	protocol trace.Protocol
	v6       bool
}

// flow is what the edge keeps.
type flow struct {
	rate   meter
	weight float64
	parent int
}

// Start implements fabric.Starter.
func (m *Mechanism) Start(now clock.Time, sw *fabric.Switch) {
	m.flows, m.ports = make(map[flowKey]*flow), make([]egress, sw.Ports())
	seed := sw.Rand().Uint64()
	for i := range m.ports {
		at := sw.Port(i)
		m.ports[i] = egress{port: newPort(now, &m.set, at.Rate(), &m.faults), rand: rand.NewPCG(seed, uint64(i)),
			framing: at.Framing(), last: at.Kind() == fabric.HostPort}
		if m.faults.noFraming {
			m.ports[i].framing = 0
		}
	}
}

// classify returns where a flow belongs.
func (m *Mechanism) classify(k flowKey) (parent, weight int) {
	if m.faults.oneLeaf {
		return len(m.set.Nodes) - 1, 1
	}
	for i := range m.set.Members {
		if in := &m.set.Members[i]; within(in.Hosts, k.src) && within(in.Flows, k.flow) {
			if m.faults.evenWeights {
				return in.Node, 1
			}
			return in.Node, in.Weight
		}
	}
	return len(m.set.Nodes) - 1, 1
}

func within(spans [][2]int64, n uint32) bool {
	for _, s := range spans {
		if s[0] <= int64(n) && int64(n) <= s[1] {
			return true
		}
	}
	return len(spans) == 0
}

// label measures the flow of a packet at the edge.
func (m *Mechanism) label(now clock.Time, p *fabric.Packet, at *egress, bits float64, weight int64) uint64 {
	key := keyOf(p)
	f := m.flows[key]
	if f == nil {
		f = new(flow)
		parent, weight := m.classify(key)
		f.parent, f.weight = parent, float64(weight)
		m.flows[key] = f
	}
	if m.faults.evenWeights {
		weight = fabric.WeightUnit
	}
	rate := f.rate.add(m.set.Ticked(now), bits, &at.labels) / (f.weight * float64(weight) / fabric.WeightUnit)
	return fair.Label(f.parent, uint64(max(0, min(math.Round(rate), fair.MaxLabel))))
}

// Ingress implements fabric.Mechanism.
func (m *Mechanism) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	v.Queue = 0
	if m.faults.reorders {
		v.Queue = uint8(p.Flow % 2)
	}
	at, out := &m.ports[v.Port], sw.Port(int(v.Port))
	draw := at.rand.Uint64() // also if nothing depends on it: what others do must not change it
	if at.counts.Packets++; m.faults.miscounts && p.ID%100 == 0 {
		at.counts.Packets--
	}
	m.claim = trace.Decision{Port: int(v.Port), Queue: int(v.Queue), Cause: fair.CauseBypassed,
		Occupancy: int64(out.Queue(int(v.Queue)).Bytes())}
	edge, came := in.Kind() == fabric.HostPort, m.shimOf(p)
	if plain := p.Size - came; int(plain) < m.set.Bypass || !edge && !m.labelled(p) {
		at.counts.Bypassed++
		if at.last {
			m.unlabel(p, came)
		}
		m.decide(now, sw, p, sw.Fits(out, int(v.Queue), p), fair.Queued)
		return v
	}
	if edge || m.faults.measuresAgain {
		p.SetRank(m.label(now, p, at, float64(8*(int(p.Size-came)+at.framing)), sw.Weight(p)))
	} else if m.faults.coreState {
		m.remember(p)
	}
	parent, label := fair.OfLabel(p.Rank)
	if parent >= len(at.nodes) {
		parent = len(at.nodes) - 1
	}
	next := m.nextShim(parent, at)
	m.resize(p, came, next)
	bits := float64(8 * (int(p.Size) + at.framing))
	if m.faults.noShimBytes {
		bits -= float64(8 * next)
	}
	room := sw.Fits(out, int(v.Queue), p)
	d := at.arrive(m.set.Ticked(now), parent, label, bits, draw, room)
	m.record(now, sw, p, at)
	if next > 0 {
		d.relabel = inShim(d.relabel)
	}
	m.claim.Cause = fair.CauseTested
	if sw.Decides() {
		m.claim.Values = [trace.DecisionValues]int64{fair.ValueNode: int64(parent), fair.ValueLabel: int64(label),
			fair.ValueAlpha: rounded(d.alpha), fair.ValueProbability: rounded(1e9 * d.probability),
			fair.ValueDraw: int64(d.draw), fair.ValueRelabel: int64(d.relabel)}
		if edge {
			m.claim.Values[fair.ValueEdge] = 1
		}
	}
	if d.dropped {
		at.counts.Excess++
		m.resize(p, next, came)
		m.decide(now, sw, p, true, fair.Excess)
		return v.Drop(Excess)
	}
	m.decide(now, sw, p, room, fair.Queued)
	if m.relabel(p, parent, label, d.relabel, next); at.last && !m.faults.keepsShim {
		m.unlabel(p, next)
	}
	if m.seen++; m.faults.duplicates && m.seen%500 == 0 && room {
		sw.Place(now, sw.Copy(p, 0), v)
	}
	return v
}

// remember is a seeded bug.
func (m *Mechanism) remember(p *fabric.Packet) {
	if m.inner == nil {
		m.inner = make(map[flowKey]struct{})
	}
	m.inner[keyOf(p)] = struct{}{}
}

func keyOf(p *fabric.Packet) flowKey {
	return flowKey{uint32(p.Src), uint32(p.Dst), p.Flow, p.Protocol, p.IPv6}
}

// Overflow implements fabric.Mechanism.
func (m *Mechanism) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	at := &m.ports[v.Port]
	at.counts.Tail++
	if m.set.Overflow && !m.faults.keepsAlpha && m.claim.Cause == fair.CauseTested {
		at.overflow(m.set.Ticked(now))
		m.record(now, sw, p, at)
	}
	m.decide(now, sw, p, true, fair.Tail)
	return v.Drop(fabric.ReasonTail)
}

// decide records the decision about the packet at hand, if it is final.
func (m *Mechanism) decide(now clock.Time, sw *fabric.Switch, p *fabric.Packet, final bool, kind uint8) {
	if final && sw.Decides() {
		m.claim.Kind = kind
		sw.Decide(now, p, m.claim)
	}
}

// record records what has become of the nodes that were due.
func (m *Mechanism) record(now clock.Time, sw *fabric.Switch, p *fabric.Packet, at *egress) {
	at.counts.Updates += uint64(len(at.updates))
	if !sw.Decides() {
		return
	}
	for i := range at.updates {
		u := &at.updates[i]
		d := trace.Decision{Port: m.claim.Port, Queue: m.claim.Queue, Kind: fair.State, Cause: u.cause,
			Occupancy: m.claim.Occupancy}
		d.Values = [trace.DecisionValues]int64{fair.ValueStateNode: int64(u.node),
			fair.ValueArrival: rounded(u.arrival), fair.ValueAccepted: rounded(u.accepted),
			fair.ValueCapacity: rounded(u.capacity), fair.ValueBefore: rounded(u.before), fair.ValueAfter: rounded(u.after),
			fair.ValueLargest: rounded(u.large), fair.ValueSinceUpdateNS: u.since.Nanoseconds()}
		sw.Decide(now, p, d)
	}
}

func rounded(v float64) int64 {
	return int64(math.Round(max(-math.MaxInt64/2, min(v, math.MaxInt64/2))))
}

// Counters returns what the switch counts.
func (m *Mechanism) Counters() fair.Counters {
	c := fair.Counters{Flows: len(m.flows)}
	for i := range m.ports {
		p := m.ports[i].counts
		p.Registers = 3*len(m.ports[i].nodes) + len(m.inner)
		c.Ports = append(c.Ports, p)
	}
	return c
}
