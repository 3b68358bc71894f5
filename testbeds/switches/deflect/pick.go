package deflect

import (
	"math/rand/v2"

	"candela.dev/candela/deflect"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// test decides whether a port takes the packet at hand, and returns the cause.
func (m *Mechanism) test(k *packet, at int) uint8 {
	saw := m.look(k.now, k.sw, k.pipe, at)
	m.tested[at] = m.number
	if m.faults.countsArriving && m.set.Scheme == deflect.PD {
		saw.bytes += k.size
	}
	var values [trace.DecisionValues]int64
	values[deflect.TestDraw] = -1
	values[deflect.TestSeen] = int64(saw.bytes)
	values[deflect.TestPriority] = int64(k.priority)
	cause := uint8(deflect.TestRoom)
	full := m.full(&saw, k.size)
	if m.faults.early && m.set.Scheme != deflect.PD {
		full = full || saw.bytes >= m.set.Queue/2
	}
	if full {
		cause = deflect.TestFull
		if m.faults.evaluatesFull && m.set.Scheme == deflect.PD && !m.set.OnFull {
			m.evaluate(k, at, &saw, &values)
		}
	} else if m.set.Scheme == deflect.PD && !m.set.OnFull && m.over(k, at, &saw, &values) {
		cause = deflect.TestOver
	}
	if k.sw.Decides() {
		if m.set.Scheme == deflect.SD {
			values[deflect.TestCount] = number(m.bit(&saw, k.size))
		}
		if m.faults.misrecords {
			values[deflect.TestSeen] += 64
		}
		m.record(k, k.Packet, deflect.Tested, cause, at, values)
	}
	return cause
}

// over evaluates R at a port that is not full, and reports whether it refuses the packet at hand.
func (m *Mechanism) over(k *packet, at int, saw *view, values *[trace.DecisionValues]int64) bool {
	m.counts[at].Evaluations++
	alpha, occ, room := uint64(m.set.Alpha), saw.bytes, m.set.Queue
	certain := !m.set.Probabilistic && uint64(room-occ)*1_000_000 > uint64(room)*alpha || m.set.Probabilistic &&
		occ <= m.set.MinThreshold
	if certain && !k.sw.Decides() { // whatever R is, there is room
		m.sample(k, at)
		return false
	}
	num, den := m.evaluate(k, at, saw, values)
	switch {
	case m.set.Probabilistic && occ <= m.set.MinThreshold:
		return false
	case m.set.Probabilistic:
		draw := k.pipe.draws.Uint64() >> 11
		values[deflect.TestDraw] = int64(draw)
		return drawnOver(draw, occ, m.set.MinThreshold, room, num, den)
	case m.set.Relative == deflect.DistEWMA:
		return tabled(occ, room, alpha, num)
	}
	return beyond(occ, room, alpha, num, den, m.set.EqualDeflects)
}

// sample has the window of a port count the packet at hand.
func (m *Mechanism) sample(k *packet, at int) bool {
	return m.set.Relative == deflect.Quantile && !m.set.SampleQueued &&
		k.pipe.windows[m.windowOf(at)].pass(k.priority, m.set.Window, m.set.Sample)
}

// evaluate returns R, as a fraction, with respect to a port.
func (m *Mechanism) evaluate(k *packet, at int, saw *view, values *[trace.DecisionValues]int64) (num, den uint64) {
	switch m.set.Relative {
	case deflect.Quantile:
		w := &k.pipe.windows[m.windowOf(at)]
		num, den = uint64(m.below(w, k.priority)), uint64(m.set.Window)
		if m.set.ByFilled != m.faults.otherDenominator {
			den = uint64(max(w.filled, 1))
		}
		if k.sw.Decides() {
			values[deflect.TestState], values[deflect.TestCount] = w.hash(), int64(w.filled)
		}
		values[deflect.TestSampled] = number(m.sample(k, at))
	case deflect.DistExact:
		num, den = exponential(uint64(k.priority), saw.sum, saw.waiting), billion
		values[deflect.TestState], values[deflect.TestCount] = int64(saw.sum), int64(saw.waiting)
	case deflect.DistEWMA:
		x := m.value(k)
		num, den = binned(x, saw.mean), billion
		values[deflect.TestPriority], values[deflect.TestState] = int64(x), int64(saw.mean)
	case deflect.Oracle:
		q := k.sw.Port(at).Queue(0)
		for p := q.Head(); p != nil; p = q.After(p) {
			if m.priority(p) < k.priority {
				num++
			}
		}
		den = uint64(max(q.Packets(), 1))
		values[deflect.TestCount] = int64(q.Packets())
	}
	if m.faults.strict || m.faults.important && k.priority == 0 {
		num = den
	}
	values[deflect.TestNumerator], values[deflect.TestDenominator] = int64(num), int64(den)
	return num, den
}

// below counts the values of a window that are more important.
func (m *Mechanism) below(w *window, x uint32) int {
	switch {
	case m.faults.countsGreater:
		n := 0
		for _, v := range w.values[:w.filled] {
			if v > x {
				n++
			}
		}
		return n
	case m.faults.countsEqual:
		return w.smaller(x + 1)
	}
	return w.smaller(x)
}

// eligible lists the ports that a packet may be deflected to.
func (m *Mechanism) eligible(k *packet, ingress uint16) []uint16 {
	m.list = m.list[:0]
	for _, i := range m.neighbours {
		if k.sw.Port(int(i)).Failed() ||
			i == ingress && (m.set.Eligible == deflect.NotIngress || m.set.Eligible == deflect.Neither) ||
			int(i) == k.egress && (m.set.Eligible == deflect.NotEgress || m.set.Eligible == deflect.Neither) {
			continue
		}
		m.list = append(m.list, i)
	}
	return m.list
}

// picked is how a port was chosen.
type picked struct {
	to, draw, first, second int
	cause                   uint8
}

// pick chooses the port to deflect the packet at hand to; −1: none.
func (m *Mechanism) pick(k *packet) int {
	list := m.eligible(k, k.Ingress)
	p := picked{to: -1, first: -1, second: -1, cause: deflect.PickChosen}
	if len(list) > 0 {
		switch m.set.Scheme {
		case deflect.Naive:
			p.draw = k.pipe.picks.IntN(len(list))
			p.to = int(list[p.draw])
		case deflect.DIBS:
			m.pickAnyWithRoom(k, list, &p)
		case deflect.SD:
			m.scan(k, list, &p)
		case deflect.PD:
			m.pickShorter(k, list, &p)
		case deflect.ECMP, deflect.Vertigo:
		}
	}
	m.picked(k, k.Packet, list, &p)
	return p.to
}

// draw brings a port at random, of those from position i on, to that position.
func draw(r *rand.Rand, order []uint16, i int) int {
	j := i + r.IntN(len(order)-i)
	order[i], order[j] = order[j], order[i]
	return int(order[i])
}

// pickAnyWithRoom is DIBS's choice (§3.2).
func (m *Mechanism) pickAnyWithRoom(k *packet, list []uint16, p *picked) {
	m.order = append(m.order[:0], list...)
	for i := range m.order {
		at := int(m.order[i])
		if !m.faults.firstFree {
			at = draw(k.pipe.picks, m.order, i)
		}
		p.draw++
		saw := m.look(k.now, k.sw, k.pipe, at)
		if !m.full(&saw, k.size) || m.faults.blind {
			p.to = at
			return
		}
		if m.faults.givesUp {
			return
		}
	}
}

// scan is SD's choice (§3.3): the first port with bit 0 from a random one on.
func (m *Mechanism) scan(k *packet, list []uint16, p *picked) {
	n := len(list)
	switch {
	case m.faults.fiveBits:
		p.draw = int(k.pipe.picks.Uint64() >> 59)
	case m.set.Inclusive:
		p.draw = k.pipe.picks.IntN(n + 1)
	default:
		p.draw = k.pipe.picks.IntN(n)
	}
	for i := range n {
		at := int(list[visited(n, p.draw, i)])
		saw := m.look(k.now, k.sw, k.pipe, at)
		forced := m.faults.wholeBitmap && k.sw.Port(at).Kind() == fabric.HostPort
		if !forced && (!m.bit(&saw, k.size) || m.faults.blind) {
			p.to = at
			return
		}
		if m.faults.givesUp {
			return
		}
	}
}

// visited returns the position, of n, that a scan from r on visits after i others. From a position behind the last one
// it goes on at the first.
func visited(n, r, i int) int {
	if r >= n {
		return i
	}
	if i += r; i >= n {
		i -= n
	}
	return i
}

// pickShorter is PD's choice (§3.5): of so many drawn ports that take the packet, the one with the shortest queue.
func (m *Mechanism) pickShorter(k *packet, list []uint16, p *picked) {
	m.order = append(m.order[:0], list...)
	n, ties, best := min(m.set.Choices, len(list)), 0, 0
	for i := range n {
		at := draw(k.pipe.picks, m.order, i)
		p.note(i, at)
		// A port that has been tested with this packet has refused it.
		if m.tested[at] == m.number && !m.faults.retests || m.test(k, at) != deflect.TestRoom {
			if m.faults.givesUp {
				break
			}
			continue
		}
		bytes := m.look(k.now, k.sw, k.pipe, at).bytes
		switch {
		case p.to < 0 || (bytes < best) != m.faults.longest && bytes != best:
			p.to, best, ties, p.cause = at, bytes, 1, deflect.PickChosen
		case bytes == best:
			if p.cause = deflect.PickTie; m.set.TieFirst {
				continue
			}
			if ties++; k.pipe.picks.IntN(ties) == 0 {
				p.to = at
			}
		}
	}
	p.draw = n
}

// note keeps the first two candidates.
func (p *picked) note(i, at int) {
	switch i {
	case 0:
		p.first = at
	case 1:
		p.second = at
	}
}

// picked counts and records a choice for a packet.
func (m *Mechanism) picked(k *packet, p *fabric.Packet, list []uint16, by *picked) {
	avoidable := 0
	if by.to < 0 {
		by.cause = deflect.PickNone
		for _, i := range list {
			if saw := m.look(k.now, k.sw, k.pipe, int(i)); !m.full(&saw, int(p.Size)) {
				avoidable++
			}
		}
		if avoidable > 0 {
			m.counts[k.egress].Avoidable++
		}
	}
	if !k.sw.Decides() {
		return
	}
	values := [trace.DecisionValues]int64{deflect.PickEgress: int64(k.egress), deflect.PickEligible: int64(len(list)),
		deflect.PickDraw: int64(by.draw), deflect.PickFirst: int64(by.first), deflect.PickSecond: int64(by.second),
		deflect.PickSeen: -1, deflect.PickAvoidable: int64(avoidable)}
	for i, at := range list[:min(len(list), 63)] {
		if saw := m.look(k.now, k.sw, k.pipe, int(at)); m.full(&saw, int(p.Size)) {
			values[deflect.PickBits] |= 1 << i
		}
	}
	at := k.egress
	if by.to >= 0 {
		at = by.to
		values[deflect.PickSeen] = int64(m.look(k.now, k.sw, k.pipe, at).bytes)
	}
	m.record(k, p, deflect.Pick, by.cause, at, values)
}
