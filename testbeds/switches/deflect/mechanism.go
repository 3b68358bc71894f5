package deflect

import (
	"math"
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Reasons of drops.
const (
	NoPort = fabric.ReasonOwn + iota
	Evicted
)

// Mechanism is a switch that deflects. Ports have one queue each.
type Mechanism struct {
	fabric.TailDrop
	set    deflect.Settings
	faults faults

	neighbours []uint16 // ports to switches
	ports      []port
	pipes      []pipe
	period     clock.Duration
	counts     []deflect.PortCounters
	list       []uint16 // eligible ports, of the packet at hand
	order      []uint16 // the same, as they are drawn
	victims    []*fabric.Packet
	tested     []int32 // by port: number of the packet that was tested there last
	number     int32   // of the packet at hand
	deflected  uint64
}

// port is what the egress of a port knows.
type port struct {
	sum, waiting uint64 // of priority values that wait
	register     int    // bytes that the latest departing packet has left behind
	mean         uint64 // M of DistEWMA
}

// pipe is an ingress pipeline.
type pipe struct {
	phase   clock.Duration
	seen    []view
	windows []window
	forward *rand.Rand // of PowerOfTwo
	picks   *rand.Rand // of ports
	draws   *rand.Rand // of Probabilistic
}

// view is what an ingress knows of a port.
type view struct {
	update       int64 // number of the latest update, from 1
	bytes        int
	bit          bool
	sum, waiting uint64
	mean         uint64
}

// Start implements fabric.Starter.
func (m *Mechanism) Start(_ clock.Time, sw *fabric.Switch) {
	n := sw.Ports()
	m.ports, m.counts, m.tested = make([]port, n), make([]deflect.PortCounters, n), make([]int32, n)
	m.neighbours = m.neighbours[:0]
	for i := range n {
		if sw.Port(i).Kind() == fabric.SwitchPort || m.faults.toHosts || m.faults.wholeBitmap {
			m.neighbours = append(m.neighbours, uint16(i))
		}
	}
	m.list, m.order = make([]uint16, 0, n), make([]uint16, 0, n)
	m.period = m.set.Period
	if m.period == 0 {
		m.period = deflect.PeriodOf(n * m.set.Pipes)
	}
	m.pipes = make([]pipe, m.set.Pipes)
	seed := sw.Rand().Uint64()
	for j := range m.pipes {
		stream := func(of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(j)<<2|of)) }
		m.pipes[j] = pipe{phase: m.period * clock.Duration(j) / clock.Duration(m.set.Pipes), seen: make([]view, n),
			windows: make([]window, n), forward: stream(0), picks: stream(1), draws: stream(2)}
	}
}

// truth returns what a port's queue and registers are, if bytes wait.
func (m *Mechanism) truth(i, bytes int) view {
	p := &m.ports[i]
	if bytes == 0 { // a trunk that fails loses what waits for it
		p.sum, p.waiting = 0, 0
	}
	if m.set.Info == deflect.Recirculated {
		bytes = p.register
	}
	return view{bytes: bytes, bit: bytes >= m.set.Congested, sum: p.sum, waiting: p.waiting, mean: p.mean}
}

// changes has every ingress take what it has to know of a port, before the queue of bytes or the registers change.
func (m *Mechanism) changes(now clock.Time, i, bytes int) {
	if m.set.Info == deflect.Exact {
		return
	}
	for j := range m.pipes {
		m.pipes[j].update(now, m, i, bytes)
	}
}

// update copies the state of a port as of the latest update, if it has not been copied. Nothing has changed since.
func (p *pipe) update(now clock.Time, m *Mechanism, i, bytes int) {
	since := now.Sub(clock.Time(0).Add(p.phase))
	if m.faults.late {
		since -= m.period * 3 / 2
	}
	if since < 0 {
		return
	}
	if latest := int64(since/m.period) + 1; latest > p.seen[i].update {
		p.seen[i] = m.truth(i, bytes)
		p.seen[i].update = latest
	}
}

// look returns what an ingress knows of a port.
func (m *Mechanism) look(now clock.Time, sw *fabric.Switch, p *pipe, i int) view {
	bytes := sw.Port(i).Queue(0).Bytes()
	if m.set.Info == deflect.Exact || m.faults.sees {
		return m.truth(i, bytes)
	}
	p.update(now, m, i, bytes)
	return p.seen[i]
}

// bit returns SD's bit of a port.
func (m *Mechanism) bit(v *view, size int) bool {
	if m.set.Info == deflect.Exact {
		return v.bytes+size >= m.set.Queue
	}
	return v.bit
}

// full reports whether a port is full as an ingress sees it.
func (m *Mechanism) full(v *view, size int) bool {
	if m.set.Scheme == deflect.SD {
		return m.bit(v, size)
	}
	return v.bytes+size >= m.set.Queue
}

// priority returns the priority value of a packet.
func (m *Mechanism) priority(p *fabric.Packet) uint32 {
	if m.set.Priority == deflect.Class && m.set.Scheme == deflect.PD {
		for i := range m.set.Classes {
			if c := &m.set.Classes[i]; within(c.Senders, p.Src) && within(c.Receivers, p.Dst) {
				return c.Value
			}
		}
		return 0
	}
	switch {
	case p.Flags&fabric.Ranked == 0:
		return 0
	case m.set.Scheme == deflect.PD && !m.set.Boost || m.faults.noBoost:
		return deflect.MarkOf(p.Rank).Value
	}
	return deflect.Priority(p.Rank)
}

func within(spans [][2]int64, h fabric.HostID) bool {
	for _, s := range spans {
		if s[0] <= int64(h) && int64(h) <= s[1] {
			return true
		}
	}
	return len(spans) == 0
}

// packet is the packet at hand.
type packet struct {
	*fabric.Packet
	now      clock.Time
	sw       *fabric.Switch
	pipe     *pipe
	egress   int
	size     int
	priority uint32
	over     bool // its destination port is not full, as the ingress sees it, and refuses it
}

// Ingress implements fabric.Mechanism.
func (m *Mechanism) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	v.Queue = 0
	k := packet{Packet: p, now: now, sw: sw, egress: int(v.Port), size: int(p.Size), priority: m.priority(p),
		pipe: &m.pipes[deflect.PipeOf(in.Index(), len(m.ports), len(m.pipes))]}
	switch {
	case m.set.Forwarding == deflect.PowerOfTwo:
		k.egress = m.forward(&k)
		v.Port, p.Egress = uint16(k.egress), uint16(k.egress)
	case m.faults.sprays:
		paths := sw.Candidates(p)
		k.egress = int(paths[p.ID%uint64(len(paths))])
		v.Port, p.Egress = uint16(k.egress), uint16(k.egress)
	}
	m.counts[k.egress].Arrived++
	if sw.Port(k.egress).Failed() {
		return v // the fabric says what it was lost to
	}
	switch m.set.Scheme {
	case deflect.ECMP:
		return m.enqueue(&k, k.egress, v, false)
	case deflect.Vertigo:
		return m.selective(&k, v)
	case deflect.Naive, deflect.DIBS, deflect.SD, deflect.PD:
	}
	m.number++
	cause := m.test(&k, k.egress)
	if cause == deflect.TestRoom {
		return m.enqueue(&k, k.egress, v, false)
	}
	k.over = cause == deflect.TestOver
	to := m.pick(&k)
	if to < 0 {
		m.counts[k.egress].NoPort++
		m.countPreemptive(&k)
		m.fate(&k, p, deflect.NoPort, k.egress, false)
		return v.Drop(NoPort)
	}
	return m.enqueue(&k, to, v, true)
}

// Made implements fabric.Maker: a packet of the switch itself goes to the port of its route.
func (m *Mechanism) Made(now clock.Time, sw *fabric.Switch, p *fabric.Packet, of uint64,
	v fabric.Verdict) fabric.Verdict {
	if sw.Port(int(v.Port)).Failed() {
		return v // the fabric says what it was lost to
	}
	v.Queue = 0
	k := packet{Packet: p, now: now, sw: sw, egress: int(v.Port), size: int(p.Size), priority: m.priority(p),
		pipe: &m.pipes[deflect.PipeOf(int(p.Ingress), len(m.ports), len(m.pipes))]}
	m.counts[k.egress].Arrived++
	if sw.Decides() && !m.faults.hidesMade {
		m.record(&k, p, deflect.Made, deflect.CauseNone, k.egress, [trace.DecisionValues]int64{deflect.MadeFor: int64(of),
			deflect.MadeFrom: int64(p.Src), deflect.MadeTo: int64(p.Dst), deflect.MadeIngress: int64(p.Ingress)})
	}
	return m.enqueue(&k, k.egress, v, false)
}

// forward chooses the destination port among equal paths (§2.1).
func (m *Mechanism) forward(k *packet) int {
	paths := k.sw.Candidates(k.Packet)
	n := len(paths)
	if n < 2 {
		return k.egress
	}
	i, j := k.pipe.forward.IntN(n), k.pipe.forward.IntN(n-1)
	if j >= i {
		j++
	}
	first, second := int(paths[i]), int(paths[j])
	a, b := m.look(k.now, k.sw, k.pipe, first).bytes, m.look(k.now, k.sw, k.pipe, second).bytes
	to, cause := first, uint8(deflect.RouteShorter)
	switch {
	case a == b:
		if cause = deflect.RouteTie; k.pipe.forward.Uint64()&1 == 1 {
			to = second
		}
	case (b < a) != m.faults.longer:
		to = second
	}
	if k.sw.Decides() {
		m.record(k, k.Packet, deflect.Route, cause, to, [trace.DecisionValues]int64{deflect.RouteFirst: int64(first),
			deflect.RouteSecond: int64(second), deflect.RouteSeenFirst: int64(a), deflect.RouteSeenSecond: int64(b),
			deflect.RoutePaths: int64(n)})
	}
	return to
}

// record records something about a packet, at a port.
func (m *Mechanism) record(k *packet, p *fabric.Packet, kind, cause uint8, at int, values [trace.DecisionValues]int64) {
	queue := m.queue(p, kind)
	k.sw.Decide(k.now, p, trace.Decision{Port: at, Queue: queue, Kind: kind, Cause: cause,
		Occupancy: int64(k.sw.Port(at).Queue(queue).Bytes()), Values: values})
}

// queue returns the queue that a packet is, or was to be, queued in: there is one, but for a seeded bug.
func (m *Mechanism) queue(p *fabric.Packet, kind uint8) int {
	if m.faults.reorders && kind >= deflect.Queued {
		return int(p.Flow % 2)
	}
	return 0
}

// fate records what becomes of a packet.
func (m *Mechanism) fate(k *packet, p *fabric.Packet, kind uint8, at int, stale bool) {
	if !k.sw.Decides() {
		return
	}
	m.record(k, p, kind, deflect.CauseNone, at, [trace.DecisionValues]int64{deflect.FateEgress: int64(k.egress),
		deflect.FateIngress: int64(p.Ingress), deflect.FateDeflections: int64(p.Deflects), deflect.FateTTL: int64(p.TTL),
		deflect.FatePriority: int64(m.priority(p)), deflect.FateStale: number(stale)})
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// enqueue queues the packet at hand at a port, or drops it if there is no room in truth.
func (m *Mechanism) enqueue(k *packet, to int, v fabric.Verdict, deflected bool) fabric.Verdict {
	out := k.sw.Port(to)
	v = v.To(out, m.queue(k.Packet, deflect.Queued))
	if !k.sw.Fits(out, int(v.Queue), k.Packet) {
		m.counts[to].Tail++
		saw := m.look(k.now, k.sw, k.pipe, to)
		m.fate(k, k.Packet, deflect.Tail, to, !m.full(&saw, k.size))
		return v.Drop(fabric.ReasonTail)
	}
	if deflected {
		m.deflect(k, k.Packet, to)
		m.countPreemptive(k)
		m.fate(k, k.Packet, deflect.Deflected, to, false)
	} else {
		m.fate(k, k.Packet, deflect.Queued, to, false)
	}
	m.join(k, to)
	if deflected && m.faults.duplicates {
		if m.deflected++; m.deflected%50 == 0 {
			c := k.sw.Copy(k.Packet, 0)
			k.sw.Place(k.now, k.Packet, v)
			if k.sw.Fits(out, int(v.Queue), c) {
				k.sw.Place(k.now, c, v)
			} else {
				k.sw.Discard(k.now, c, v.Drop(fabric.ReasonTail))
			}
			return v.Consumed()
		}
	}
	return v
}

// deflect notes that a packet is deflected to a port.
func (m *Mechanism) deflect(k *packet, p *fabric.Packet, to int) {
	c := &m.counts[to]
	c.To++
	m.counts[k.egress].From++
	if p.Deflects > 0 {
		c.SecondOrMore++
	}
	if int(p.Ingress) == to {
		c.BouncedBack++
	}
	p.Flags |= fabric.Deflected
	if p.Deflects < math.MaxUint8 {
		p.Deflects++
	}
	if m.faults.keepsTTL {
		p.TTL++
	}
}

// countPreemptive counts a packet that is deflected, or dropped for want of a port, although its destination port is
// not full as the ingress sees it. One that the other queue refuses, of which the ingress knew too little, is neither.
func (m *Mechanism) countPreemptive(k *packet) {
	if k.over {
		m.counts[k.egress].Preemptive++
	}
}

// join books the packet at hand into what is known of a port that it is queued at.
func (m *Mechanism) join(k *packet, to int) {
	m.changes(k.now, to, k.sw.Port(to).Queue(0).Bytes())
	if m.set.Scheme != deflect.PD || m.set.OnFull {
		return
	}
	switch m.set.Relative {
	case deflect.DistExact:
		p := &m.ports[to]
		p.sum, p.waiting = p.sum+uint64(k.priority), p.waiting+1
		k.Meta = 1
	case deflect.DistEWMA:
		mean := m.look(k.now, k.sw, k.pipe, to).mean
		k.Meta = uint32(min(average(mean, m.value(k), uint64(m.set.Divisor)), math.MaxUint32-1)) + 1
	case deflect.Quantile:
		if m.set.SampleQueued {
			k.pipe.windows[m.windowOf(to)].pass(k.priority, m.set.Window, m.set.Sample)
		}
	case deflect.Oracle:
	}
}

// value returns the priority value in the unit of DistEWMA.
func (m *Mechanism) value(k *packet) uint64 {
	unit := uint64(m.set.Unit)
	return (uint64(k.priority) + unit - 1) / unit
}

// windowOf returns the number of the window of a port.
func (m *Mechanism) windowOf(i int) int {
	if m.faults.switchWindow {
		return 0
	}
	return i
}

// Dequeued implements fabric.Mechanism: the egress pipeline.
func (m *Mechanism) Dequeued(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if m.set.Info == deflect.Exact && p.Meta == 0 {
		return v
	}
	i := int(v.Port)
	left := sw.Port(i).Queue(0).Bytes()
	m.changes(now, i, left+int(p.Size))
	m.leave(p, i)
	m.ports[i].register = left
	if m.set.Relative == deflect.DistEWMA && p.Meta > 0 {
		m.ports[i].mean = uint64(p.Meta - 1)
	}
	return v
}

// leave books a packet that was queued at a port out of what is known of it.
func (m *Mechanism) leave(p *fabric.Packet, i int) {
	if m.set.Relative == deflect.DistExact && p.Meta > 0 {
		at := &m.ports[i]
		at.sum, at.waiting = at.sum-uint64(m.priority(p)), at.waiting-1
	}
}

// Overflow implements fabric.Mechanism: only packets that are placed without Ingress find no room here.
func (m *Mechanism) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	m.counts[v.Port].Tail++
	if sw.Decides() {
		k := packet{Packet: p, now: now, sw: sw, egress: int(v.Port)}
		m.fate(&k, p, deflect.Tail, int(v.Port), false)
	}
	return v.Drop(fabric.ReasonTail)
}

// Counters returns what the switch counts.
func (m *Mechanism) Counters() deflect.Counters {
	return deflect.Counters{Ports: append([]deflect.PortCounters(nil), m.counts...)}
}
