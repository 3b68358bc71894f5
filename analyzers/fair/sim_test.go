package fair

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
	"candela.dev/candela/trace"
)

// A simulator of one switch and one bottleneck, written from the reference model for these tests: packets of sources
// come by ports of their hosts, are measured, tested, queued and sent. It knows neither the models nor the judge.

// source sends packets at a rate, with jitter, from start to stop.
type source struct {
	host        uint32
	flow        uint32
	bps         float64
	size        int
	start, stop clock.Duration
	jitter      float64
	rtt         clock.Duration // not 0: it sends a window as a burst of rate bps in each, as TCP does
}

// window is how far a source is that answers to drops: each round without one lets it send a packet more in the next,
// one with a drop half as many.
type window struct {
	began        clock.Time
	packets, got int
	lost         bool
}

// setup is a simulated switch with its traffic.
type setup struct {
	set      fair.Settings
	link     clock.BitRate
	framing  int
	lasts    clock.Duration
	sources  []source
	seed     uint64
	records  bool
	upstream bool // packets come labelled from another switch; the bottleneck does not measure
	onward   bool // the bottleneck leads to another switch
	// faults
	fault map[string]bool
}

const sink = 100 // host behind the bottleneck

// view answers for the simulated switch.
type view struct {
	s   *setup
	sim *sim
}

func (v view) Switches() int         { return 1 }
func (v view) SwitchName(int) string { return "s" }
func (v view) Ports(int) int         { return len(v.s.sources) + 1 }
func (v view) HostAt(_, port int) (uint32, bool) {
	if port == 0 {
		return sink, !v.s.onward
	}
	return v.s.sources[port-1].host, !v.s.upstream
}
func (v view) Address(uint32, bool) netip.Addr    { return netip.Addr{} }
func (v view) Link(int, int) (clock.BitRate, int) { return v.s.link, v.s.framing }
func (v view) Settings(int) (any, error)          { return v.s.set, nil }
func (v view) Counters(int) (any, error)          { return v.sim.counters, nil }
func (v view) FlowOf(t *trace.SwitchTap) int      { return int(t.Flow) + 1 }
func (v view) Bounded() bool                      { return true }
func (v view) InFlight() bool                     { return false }
func (v view) Decisions() []trace.DecisionKind    { return nil }
func (v view) Makes(int) bool                     { return false }
func (v view) Reason(_ int, code uint8) analyzers.DropReason {
	return []analyzers.DropReason{{Name: fair.ReasonExcess}, {Name: "tail"}, {Name: "stopped", Outage: true}}[code]
}

// moment is something that happens.
type moment struct {
	at     clock.Time
	order  int
	source int // -1: the link has sent a packet
}

type agenda []moment

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(moment)) }
func (a *agenda) Pop() any {
	x := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return x
}

// simNode is algorithm 4's state.
type simNode struct {
	a, f           simRate
	c, alpha, tmp  float64
	congested      bool
	start, updated clock.Time
	readable       clock.Time // from when on later is alpha
	later          float64
}

// simRate estimates a rate; either mode.
type simRate struct {
	rate, bits float64
	at         clock.Time
	any        bool
}

type simPacket struct {
	tap   trace.SwitchTap
	label uint64
	node  int
}

// sim is a run.
type sim struct {
	*setup
	judge    analyzers.SwitchJudge
	view     view
	k        fair.Constants
	c        float64
	nodes    []simNode
	flows    map[uint32]*simRate
	random   *rand.Rand
	draw     *rand.Rand
	drawn    uint64
	queue    []simPacket
	busy     bool
	next     uint64
	agenda   agenda
	got      map[uint32]float64 // bits that left, by flow
	windows  []window           // by source
	counters fair.Counters
}

func (s *setup) run(t testing.TB) (analyzers.Result, *sim) {
	t.Helper()
	m := &sim{setup: s, k: s.set.At(s.link), c: float64(s.link), flows: make(map[uint32]*simRate),
		random: rand.New(rand.NewPCG(s.seed, 1)), draw: rand.New(rand.NewPCG(s.seed, 2)), got: make(map[uint32]float64)}
	m.view = view{s: s, sim: m}
	m.counters.Ports = make([]fair.PortCounters, len(s.sources)+1)
	m.windows = make([]window, len(s.sources))
	j, err := NewJudge(m.view)
	if err != nil {
		t.Fatal(err)
	}
	m.judge = j
	for range s.set.Nodes {
		m.nodes = append(m.nodes, simNode{alpha: m.c, c: m.c})
	}
	for i := range m.counters.Ports {
		m.counters.Ports[i].Registers = 3 * len(m.nodes)
	}
	for i, o := range s.sources {
		heap.Push(&m.agenda,
			moment{clock.Time(0).Add(o.start + clock.Duration(m.random.Int64N(int64(clock.Microsecond)))), i, i})
	}
	for len(m.agenda) > 0 {
		e := heap.Pop(&m.agenda).(moment)
		if e.at > clock.Time(0).Add(s.lasts) {
			break
		}
		if e.source < 0 {
			m.busy = false
			m.send(e.at)
			continue
		}
		o := &s.sources[e.source]
		m.arrive(e.at, e.source)
		gap := float64(8*(o.size+s.framing)) / o.bps * (1 + o.jitter*(2*m.random.Float64()-1))
		at := e.at.Add(clock.Duration(gap * float64(clock.Second)))
		if o.rtt > 0 {
			at = max(at, m.windows[e.source].answers(e.at, o, m.random.Float64()))
		}
		if at < clock.Time(0).Add(o.stop) {
			heap.Push(&m.agenda, moment{at, e.source, e.source})
		}
	}
	for len(m.queue) > 0 {
		m.busy = false
		m.send(clock.Time(0).Add(s.lasts))
	}
	r, err := j.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

// answers returns when a source sends next at the earliest, after a packet.
func (w *window) answers(now clock.Time, o *source, random float64) clock.Time {
	if w.packets == 0 {
		w.began, w.packets = now, 4
	}
	if w.got++; w.got < w.packets {
		return now
	}
	w.packets++
	if w.lost {
		w.packets = max(1, w.packets/2)
	}
	next := w.began.Add(clock.Duration(float64(o.rtt) * (0.9 + 0.2*random)))
	w.began, w.got, w.lost = max(next, now), 0, false
	return next
}

// member returns node and weight of a source.
func (m *sim) member(o *source) (int, float64) {
	in := func(list [][2]int64, n int64) bool {
		for _, r := range list {
			if n >= r[0] && n <= r[1] {
				return true
			}
		}
		return len(list) == 0
	}
	for _, e := range m.set.Members {
		if in(e.Hosts, int64(o.host)) && in(e.Flows, int64(o.flow)) {
			return e.Node, float64(e.Weight)
		}
	}
	panic("no member")
}

func (m *sim) est(r *simRate, now clock.Time, bits float64, k clock.Duration) float64 {
	if m.set.Mode == fair.Dataplane {
		switch t := now.Sub(r.at); {
		case !r.any:
			r.bits, r.at, r.any = bits, now, true
		case t <= m.k.Window:
			r.bits += bits
		default:
			r.rate += (r.bits/(float64(t)/1e12) - r.rate) / math.Pow(2, float64(m.set.AverageShift))
			r.bits, r.at = bits, now
		}
		return r.rate
	}
	ks := float64(k) / float64(clock.Second)
	ts := float64(now.Sub(r.at)) / float64(clock.Second)
	x, gone := math.Exp(-ts/ks), -math.Expm1(-ts/ks)
	switch {
	case m.fault["sign"] && r.any && ts > 0:
		x = min(math.Exp(ts/ks), 1e6)
		r.rate = min(max((1-x)*bits/ts+x*r.rate, 0), 1e12)
	case !r.any:
		r.rate = bits / ks
	case ts == 0:
		r.rate += bits / ks
	default:
		r.rate = gone*(bits/ts) + x*r.rate
	}
	r.any, r.at = true, now
	return r.rate
}

// What the specification leaves open, as faults that are none: a node reads alpha of its parent as it was before the
// packet; alpha changes after K_c, not after more, while congested, and while not.
const (
	readsBefore   = "reads-before"
	changesAtOnce = "changes-at-once"
	looksAtOnce   = "looks-at-once"
	readsInTurns  = "reads-in-turns" // one way now, the other then: that is a fault
)

func (m *sim) arrive(now clock.Time, i int) {
	o := &m.sources[i]
	m.next++
	node, weight := m.member(o)
	tap := trace.SwitchTap{Time: now, Stage: trace.Entered, Port: i + 1, ID: m.next, Protocol: trace.ProtocolRaw,
		Src: o.host,
		Dst: sink, Flow: o.flow, Size: int32(o.size)}
	bits := float64(8 * (o.size + m.framing))
	flow := m.flows[o.flow]
	if flow == nil {
		flow = &simRate{}
		m.flows[o.flow] = flow
		if !m.upstream {
			m.counters.Flows++
		}
	}
	k := m.k.K
	if m.fault["slow-label"] {
		k *= 20
	}
	read := now // of its clock
	if m.set.Tick > 0 {
		read -= now % clock.Time(m.set.Tick)
	}
	label := m.est(flow, read, bits, k) / weight
	if m.upstream {
		rounded := math.Floor(label)
		tap.Flags, tap.Rank = trace.Ranked, fair.Label(node, uint64(rounded))
		label = rounded
	}
	m.judge.Observe(&tap)
	if m.counters.Ports[0].Packets++; m.fault["miscounts"] && m.next%100 == 0 {
		m.counters.Ports[0].Packets--
	}
	if m.fault["counts-no-flow"] {
		m.counters.Flows = 0
	}
	if m.fault["no-weights"] && !m.upstream {
		label *= weight
	}
	path := []int{}
	for v := node; v >= 0; v = m.set.Nodes[v].Parent {
		path = append([]int{v}, path...)
	}
	for _, v := range path {
		n := &m.nodes[v]
		if read >= n.readable && n.later != 0 {
			n.alpha, n.later = n.later, 0
		}
		m.est(&n.a, read, bits, m.k.KAlpha)
	}
	alpha := m.nodes[node].alpha
	p, drop := m.test(label, alpha)
	if m.fault["never-drops"] {
		drop = false
	}
	places := m.set.Packets
	if m.fault["one-too-many"] {
		places++
	} else if m.fault["full-too-soon"] {
		places -= 2
	}
	full := len(m.queue) >= places
	d := trace.Decision{Time: now, Packet: tap.ID, Kind: fair.Queued, Cause: fair.CauseTested}
	if drop {
		d.Kind = fair.Excess
	} else if full {
		d.Kind = fair.Tail
	}
	edge := int64(1)
	if m.upstream {
		edge = 0
	}
	d.Values = [trace.DecisionValues]int64{int64(node), edge, int64(math.Round(label)), int64(math.Round(alpha)),
		int64(math.Round(p * 1e9)), int64(m.drawn)}
	m.algorithm(read, path, label, bits, drop, tap.ID)
	relabel := uint64(min(label, m.nodes[node].alpha))
	d.Values[fair.ValueRelabel] = int64(relabel)
	if m.records {
		m.judge.Decide(&d)
	}
	m.windows[i].lost = m.windows[i].lost || drop || full
	out := tap
	out.Port = 0
	switch {
	case drop:
		out.Stage, out.Reason = trace.Dropped, 0
		m.counters.Ports[0].Excess++
		m.judge.Observe(&out)
	case full:
		out.Stage, out.Reason = trace.Dropped, 1
		m.counters.Ports[0].Tail++
		m.judge.Observe(&out)
	default:
		m.queue = append(m.queue, simPacket{out, relabel, node})
		if m.fault["reorders"] && len(m.queue) > 3 && m.next%50 == 0 {
			n := len(m.queue)
			m.queue[n-1], m.queue[n-2] = m.queue[n-2], m.queue[n-1]
		}
		m.send(now)
	}
}

// test is the drop test; it leaves the random number in drawn.
func (m *sim) test(label, alpha float64) (p float64, drop bool) {
	factor := 1.0
	if m.fault["mild-drops"] {
		factor = 0.7
	}
	if m.set.Mode == fair.Dataplane {
		most := uint64(1)<<m.set.DropBits - 1
		m.drawn = m.draw.Uint64() >> (64 - m.set.DropBits)
		l, a := math.Round(label), math.Round(alpha)
		return max(0, 1-alpha/max(label, 1)), float64(m.drawn)*l*factor > float64(most)*a
	}
	m.drawn = m.draw.Uint64() >> 11
	if m.fault["even-draws"] {
		m.drawn = m.next * 0x9e3779b97f4a7c15 >> 11
	}
	p = max(0, 1-alpha/max(label, 1e-9))
	return p, float64(m.drawn)/(1<<53) < p*factor
}

// algorithm is algorithm 4 after the drop test.
func (m *sim) algorithm(now clock.Time, path []int, label, bits float64, drop bool, id uint64) {
	were := make([]float64, len(path)) // alphas
	for i, v := range path {
		were[i] = m.nodes[v].alpha
	}
	for i, v := range path {
		n := &m.nodes[v]
		switch {
		case !drop:
			m.est(&n.f, now, bits, m.k.KAlpha)
		case m.set.Mode == fair.Ideal && m.set.KF > 0 && n.f.any && now.Sub(n.f.at) >= m.set.KF:
			m.est(&n.f, now, 0, m.k.KAlpha)
		}
		if n.c = m.set.Phi * m.c; i > 0 {
			parent := m.nodes[path[i-1]].alpha
			if m.fault[readsBefore] || m.fault[readsInTurns] && m.next%2 == 0 {
				parent = were[i-1]
			}
			n.c = min(float64(m.set.Nodes[v].Weight)*parent, n.a.rate)
		}
		kc := m.k.KC
		if m.fault["hasty"] {
			kc = kc / 10
		}
		congested := n.a.rate > n.c
		due := now.Sub(n.start) > kc ||
			now.Sub(n.start) == kc && (congested && m.fault[changesAtOnce] || !congested && m.fault[looksAtOnce])
		before, tmp := n.alpha, n.tmp
		after := before
		cause := uint8(0)
		switch {
		case congested && !n.congested:
			n.congested, n.start = true, now
		case congested && due:
			cause = fair.CauseCongested
			switch {
			case m.set.Mode == fair.Ideal:
				after *= max(n.c/max(n.f.rate, 1), m.set.MinFactor)
			case n.f.rate > n.c:
				after -= after / float64(m.set.Decrease)
			default:
				after += m.c / float64(m.set.Increase)
			}
			n.start = now
		case congested:
		case n.congested:
			n.congested, n.start, n.tmp = false, now, 0
		case !due:
			child := label
			if i < len(path)-1 {
				w := path[i+1]
				child = m.nodes[w].a.rate / float64(m.set.Nodes[w].Weight)
			}
			n.tmp = max(n.tmp, child)
		default:
			cause = fair.CauseUncongested
			if m.set.Mode == fair.Dataplane && m.set.Additive {
				after += m.c / float64(m.set.Increase)
			} else if n.tmp > 0 {
				after = n.tmp
			}
			if floor := m.set.AlphaFloor * m.offered(path, i); after < floor && !m.fault["ignores-floor"] {
				after = floor
			}
			n.start, n.tmp = now, 0
		}
		if cause == 0 {
			continue
		}
		after = min(max(after, 1), m.c)
		if m.fault["inflates-alpha"] {
			after = min(after*1.1, m.c)
		}
		if m.records {
			d := trace.Decision{Time: now, Kind: fair.State, Cause: cause, Packet: id}
			for k, x := range []float64{float64(v), n.a.rate, n.f.rate, n.c, before, after, tmp} {
				d.Values[k] = int64(math.Round(x))
			}
			if m.fault["lies-of-F"] {
				d.Values[fair.ValueAccepted] += d.Values[fair.ValueAccepted] / 1_000_000
			}
			d.Values[fair.ValueSinceUpdateNS] = now.Sub(n.updated).Nanoseconds()
			m.judge.Decide(&d)
		}
		if !m.fault["counts-no-update"] {
			m.counters.Ports[0].Updates++
		}
		n.updated = now
		if m.set.Mode == fair.Dataplane && m.set.Recirculation > 0 {
			n.later, n.readable = after, now.Add(m.set.Recirculation)
		} else {
			n.alpha = after
		}
	}
}

// offered is what the i-th node of a path may get.
func (m *sim) offered(path []int, i int) float64 {
	if i == 0 {
		return m.set.Phi * m.c
	}
	return float64(m.set.Nodes[path[i]].Weight) * m.nodes[path[i-1]].alpha
}

func (m *sim) send(now clock.Time) {
	if m.busy || len(m.queue) == 0 {
		return
	}
	p := m.queue[0]
	m.queue = m.queue[1:]
	p.tap.Time, p.tap.Stage = now, trace.Left
	p.tap.Rank, p.tap.Flags = 0, 0
	if m.onward || m.fault["keeps-label"] {
		if m.fault["no-relabel"] {
			p.label = 1 << 45
		}
		p.tap.Rank, p.tap.Flags = fair.Label(p.node, p.label), trace.Ranked
	}
	m.got[p.tap.Flow] += float64(8 * (int(p.tap.Size) + m.framing))
	m.judge.Observe(&p.tap)
	m.busy = true
	heap.Push(&m.agenda, moment{now.Add(m.link.Serialise(int(p.tap.Size) + m.framing)), -1, -1})
}
