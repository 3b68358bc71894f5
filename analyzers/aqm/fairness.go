package aqm

import (
	"math"

	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
)

// What a correct switch does by chance is bounded by deviations standard deviations and some packets: by Freedman's
// inequality for martingales it does not exceed them once in 10¹² stretches of time.
const (
	deviations = 8
	somePacket = 20
)

// surplus compares the bytes that a queue took of elephants with what was to be expected: the sum of 1 − d. The queue
// was above, or below, its desired depth all the time.
type surplus struct {
	above    bool
	arrived  float64
	actual   float64
	expected float64
	variance float64
	largest  float64 // packet
	told     bool
}

// take takes a packet that was to be dropped with probability d.
func (s *surplus) take(size, d float64, taken bool) {
	s.arrived += size
	s.expected += (1 - d) * size
	s.variance += d * (1 - d) * size * size
	s.largest = max(s.largest, size)
	if taken {
		s.actual += size
	}
}

// excess returns how many bytes chance does not explain: positive ones too many, negative ones too few.
func (s *surplus) excess() float64 {
	difference := s.actual - s.expected
	allowed := deviations*math.Sqrt(s.variance) + somePacket*s.largest
	switch {
	case difference > allowed:
		return difference - allowed
	case difference < -allowed:
		return difference + allowed
	}
	return 0
}

// slot is how long a flow must exceed the fair rate with each packet to be backlogged.
const slot = 2 * clock.Millisecond

// leastShare is how many bytes fairness is judged from.
const leastShare = 1_000_000

// backlog follows the flows of a queue that all exceed the fair rate, as long as they remain the same.
type backlog struct {
	ends  clock.Time // of the slot
	now   map[flowKey]*portion
	flows map[flowKey]*portion
	list  []flowKey // of flows, in the order of their first packets
	fresh []flowKey // of now
	told  bool
}

// portion is what a flow got.
type portion struct {
	surplus
	conforms bool // at times
}

// sees takes a packet of an elephant that was to be dropped with probability d; the queue is closed into slots.
func (b *backlog) sees(now clock.Time, key flowKey, size, d float64, taken bool) (unfair bool,
	actual, expected float64) {
	if now >= b.ends {
		unfair, actual, expected = b.close()
		b.ends = clock.Time(0).Add((now.Sub(0)/slot + 1) * slot)
	}
	p := b.now[key]
	if p == nil {
		if b.now == nil {
			b.now = make(map[flowKey]*portion)
		}
		p = new(portion)
		b.now[key] = p
		b.fresh = append(b.fresh, key)
	}
	p.conforms = p.conforms || d == 0
	p.take(size, d, taken)
	return unfair, actual, expected
}

// close ends a slot and returns whether what the backlogged flows got is unfair, with Jain's index of it and of what
// was to be expected.
func (b *backlog) close() (unfair bool, actual, expected float64) {
	defer func() {
		clear(b.now)
		b.fresh = b.fresh[:0]
	}()
	same := true
	count := 0
	for _, key := range b.fresh {
		if !b.now[key].conforms {
			count++
			same = same && b.flows[key] != nil
		}
	}
	if !same || count != len(b.flows) {
		b.flows, b.list = make(map[flowKey]*portion), b.list[:0]
	}
	for _, key := range b.fresh {
		p := b.now[key]
		if p.conforms {
			continue
		}
		sum := b.flows[key]
		if sum == nil {
			sum = new(portion)
			b.flows[key] = sum
			b.list = append(b.list, key)
		}
		sum.arrived += p.arrived
		sum.actual += p.actual
		sum.expected += p.expected
		sum.variance += p.variance
		sum.largest = max(sum.largest, p.largest)
	}
	return b.unfair()
}

// unfair judges what the flows got so far: beside each other, and beside what the oracle of max-min fairness would have
// given them of what arrived. Both say the same if all demand their share.
func (b *backlog) unfair() (unfair bool, actual, expected float64) {
	if b.told || len(b.list) < 2 {
		return false, 0, 0
	}
	var arrived, got, want []float64
	least, unexplained := math.Inf(1), false
	for _, key := range b.list {
		p := b.flows[key]
		arrived, got, want = append(arrived, p.arrived), append(got, p.actual), append(want, p.expected)
		least = min(least, p.actual)
		unexplained = unexplained || p.excess() != 0
	}
	if least < leastShare || !unexplained {
		return false, 0, 0
	}
	for _, shares := range [][2][]float64{{got, want}, {besideOracle(arrived, got), besideOracle(arrived, want)}} {
		if actual, expected = waterfill.Jain(shares[0]), waterfill.Jain(shares[1]); expected >= 0.99 && actual <= 0.97 {
			b.told = true
			return true, actual, expected
		}
	}
	return false, 0, 0
}

// besideOracle returns which part flows got of their max-min fair shares of all that they got together.
func besideOracle(arrived, got []float64) []float64 {
	sum := 0.0
	for _, x := range got {
		sum += x
	}
	fair, err := waterfill.Flat(sum, arrived)
	if err != nil { // sums of sizes of packets
		panic(err)
	}
	for i, x := range got {
		fair[i] = x / fair[i]
	}
	return fair
}

// judgeShares judges what the queue of a packet of an elephant, to be dropped with probability d, took of all of them.
func (d *device) judgeShares(a *arrival, q *queue, probability float64, selected bool) {
	if q.policy.ECN && a.capable { // nothing is dropped, and the queue follows the senders
		return
	}
	taken := !selected // a packet without room was not selected
	if unfair, actual, expected := q.backlog.sees(a.at, a.key, float64(a.size), probability, taken); unfair {
		d.tell(a, unfairShares(d.place(a), actual, expected))
	}
	s := &q.surplus
	if above := float64(q.held) > q.fair.desired; above != s.above {
		*s = surplus{above: above}
	}
	s.take(float64(a.size), probability, taken)
	excess, least := s.excess(), q.fair.desired/10
	if !s.told && (s.above && excess > least || !s.above && excess < -least) {
		s.told = true
		d.tell(a, unsteady(d.place(a), q.held, int64(q.fair.desired), int64(math.Abs(excess)), s.above))
	}
}

// judgeHeadroom judges a mouse that found no room.
func (d *device) judgeHeadroom(a *arrival, q *queue) {
	if s := &q.surplus; s.above && s.excess() >= float64(a.size) {
		d.tell(a, noHeadroom(d.place(a), int64(s.excess())))
	}
}

// judgeConstant judges the claimed rate of a flow that has sent the same, but for a packet, in each of its latest
// windows: the rate must be near that, as far as it has forgotten what was before.
func (d *device) judgeConstant(a *arrival, f *trapped, claim int64) {
	if f.steady < leastWindows {
		return
	}
	t := d.traps[a.in]
	period := t.set.AgePeriod
	mean := bitsPerSecond(f.sent/int64(f.steady), period)
	forgotten := math.Pow(1-t.set.Weight, float64(f.steady)) * f.peak
	if allowed := bitsPerSecond(f.largest, period) + 0.03*mean + forgotten; math.Abs(float64(claim)-mean) > allowed {
		d.tell(a, constantRate(d.place(a), claim, mean, f.steady))
	}
}

// leastWindows is how many windows a flow must be constant.
const leastWindows = 5
