package deflect

import (
	"math"
	"math/bits"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// priorityOf returns the priority value of a packet (§3.9).
func priorityOf(s *deflect.Settings, a *arrival) uint64 {
	if s.Priority == deflect.Class {
		for i := range s.Classes {
			if c := &s.Classes[i]; includes(c.Senders, a.key.src) && includes(c.Receivers, a.key.dst) {
				return uint64(c.Value)
			}
		}
		return 0
	}
	m := deflect.MarkOf(a.rank)
	switch {
	case a.flags&trace.Ranked == 0 || m.Control:
		return 0
	case (s.Boost || s.Scheme == deflect.Vertigo) && s.Priority == deflect.Remaining:
		return uint64(m.Value >> m.Ret)
	}
	return uint64(m.Value)
}

func includes(spans [][2]int64, host uint32) bool {
	for _, s := range spans {
		if s[0] <= int64(host) && int64(host) <= s[1] {
			return true
		}
	}
	return len(spans) == 0
}

// state is what a switch has while it is in service.
type state struct {
	began  clock.Time
	ports  []*port
	pipes  []*pipe
	period clock.Duration  // of updates; 0: the ingress sees the queues themselves
	bets   []*wager        // by bet
	hashes map[hashKey]int // the destination port that a flow had
	epoch  *epoch          // of hashes
}

// hashKey is what a hash of a flow may depend on.
type hashKey struct {
	flowKey
	entropy uint16
}

// port is what waits at a port.
type port struct {
	waiting []*arrival
	bytes   int64
	sum     uint64 // of priority values
	// registers of the egress
	written seen
}

// seen is what the ingress sees of a port.
type seen struct {
	bytes int64
	bit   bool
	mean  uint64 // register of DistEWMA
	sum   uint64
	count int64
}

// pipe is what is there once for each pipe.
type pipe struct {
	phase   clock.Duration
	latest  int64  // number of the latest update
	sees    []seen // by port
	windows []window
	lost    bool // all of them are
}

// window is that of a port.
type window struct {
	values []uint64
	oldest int
	turn   int  // of samples
	lost   bool // what it holds is not known any more
	hash   int64
	hashed bool // hash is that of the values
	seen   map[load]*bounds
}

// load is what packets find that are compared; bounds are the priority values of those that were refused or admitted.
type load struct{ bytes, size, state, count int64 }

type bounds struct {
	refused, admitted bool
	leastRefused      uint64
	mostAdmitted      uint64
}

func newState(d *device, now clock.Time) state {
	s := state{began: now, hashes: make(map[hashKey]int)}
	n := d.judge.view.Ports(d.number)
	for range n {
		s.ports = append(s.ports, &port{})
	}
	pipes := max(d.set.Pipes, 1)
	switch d.set.Info {
	case deflect.Exact:
	case deflect.Snapshot:
		s.period = d.set.Period
	case deflect.Recirculated:
		if s.period = d.set.Period; s.period == 0 {
			s.period = deflect.PeriodOf(n * pipes)
		}
	}
	for i := range pipes {
		p := &pipe{phase: clock.Duration(int64(i) * int64(s.period) / int64(pipes)), sees: make([]seen, n),
			windows: make([]window, n)}
		p.latest = s.updates(p, now)
		s.pipes = append(s.pipes, p)
	}
	return s
}

// updates returns the number of the latest update of a pipe; below 0: there was none.
func (s *state) updates(p *pipe, now clock.Time) int64 {
	since := int64(now) - int64(p.phase)
	if s.period <= 0 || since < 0 {
		return -1
	}
	return since / int64(s.period)
}

// update brings what the ingress sees up to date, before anything happens at now.
func (d *device) update(now clock.Time) {
	if d.period <= 0 {
		return
	}
	for _, p := range d.pipes {
		if n := d.updates(p, now); n > p.latest {
			p.latest = n
			for i := range p.sees {
				p.sees[i] = d.snapshot(i)
			}
		}
	}
}

// snapshot returns what an update shows of a port.
func (d *device) snapshot(i int) seen {
	q := d.ports[i]
	now := seen{bytes: q.bytes, bit: q.bytes >= int64(d.set.Congested), mean: q.written.mean, sum: q.sum,
		count: int64(len(q.waiting))}
	if d.set.Info == deflect.Recirculated {
		now.bytes, now.bit = q.written.bytes, q.written.bit
	}
	return now
}

// sees returns what the ingress sees of a port as a packet comes.
func (d *device) sees(a *arrival, i int) seen {
	if d.period <= 0 {
		return d.snapshot(i)
	}
	return d.pipeOf(a).sees[i]
}

func (d *device) pipeOf(a *arrival) *pipe {
	return d.pipes[deflect.PipeOf(a.in, len(d.ports), len(d.pipes))]
}

// full reports whether a port is full for a packet, as the ingress sees it; of SD, whether its bit is set.
func (d *device) full(a *arrival, i int) bool {
	s := d.sees(a, i)
	if d.set.Scheme == deflect.SD && d.set.Info != deflect.Exact {
		return s.bit
	}
	return s.bytes+a.size >= int64(d.set.Queue)
}

// join puts a packet into the queue of a port.
func (d *device) join(a *arrival, i int) {
	q := d.ports[i]
	if d.set.Relative == deflect.DistEWMA && d.set.Scheme == deflect.PD {
		n := uint64(max(d.set.Divisor, 1))
		a.carries = ((n-1)*d.sees(a, i).mean + d.scaled(a)) / n
	}
	q.waiting = append(q.waiting, a)
	q.bytes += a.size
	q.sum += a.priority
	a.joined = true
	if d.set.Scheme == deflect.PD && !d.set.OnFull && d.set.SampleQueued && d.set.Relative == deflect.Quantile {
		w := &d.pipeOf(a).windows[i]
		w.sample(d.set, a.priority)
	}
}

// scaled returns the priority value of a packet in the unit of DistEWMA.
func (d *device) scaled(a *arrival) uint64 {
	unit := uint64(max(d.set.Unit, 1))
	return (a.priority + unit - 1) / unit
}

// leaves takes a packet out of its queue, and judges that it was the first.
func (d *device) leaves(now clock.Time, a *arrival, lost bool) {
	if !a.joined {
		return
	}
	q := d.ports[a.port]
	i := 0
	for i < len(q.waiting) && q.waiting[i] != a {
		i++
	}
	if i == len(q.waiting) {
		return
	}
	if i > 0 && !lost {
		d.tell(a, overtakes(d.placeOf(a), now, q.waiting[0].id), q.waiting[0].id)
	}
	q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
	q.bytes -= a.size
	q.sum -= a.priority
	a.joined = false
	if !lost {
		q.written = seen{bytes: q.bytes, bit: q.bytes >= int64(d.set.Congested), mean: a.carries}
	}
}

// sample counts a packet, and lets it enter the window if it is its turn.
func (w *window) sample(set *deflect.Settings, priority uint64) (entered bool) {
	entered = w.turn == 0
	if w.turn++; w.turn >= max(set.Sample, 1) {
		w.turn = 0
	}
	if !entered {
		return false
	}
	w.hashed = false
	if len(w.values) < set.Window {
		w.values = append(w.values, priority)
		return true
	}
	if len(w.values) > 0 {
		w.values[w.oldest] = priority
		w.oldest = (w.oldest + 1) % len(w.values)
	}
	return true
}

// all yields the values of a window from the oldest on.
func (w *window) all(yield func(uint64) bool) {
	for i := range w.values {
		if !yield(w.values[(w.oldest+i)%len(w.values)]) {
			return
		}
	}
}

// state returns the hash of a window.
func (w *window) state() int64 {
	if !w.hashed {
		w.hash, w.hashed = deflect.WindowHash(w.all), true
	}
	return w.hash
}

// below returns how many values of a window are smaller.
func (w *window) below(priority uint64) (n int64) {
	for _, v := range w.values {
		if v < priority {
			n++
		}
	}
	return n
}

// test is what a test of a port comes to.
type test struct {
	cause        uint8 // TestRoom, TestFull or TestOver; 0: it depends on what is not known
	seen         seen
	priority     int64
	numerator    int64
	denominator  int64 // 0: R is not evaluated
	known        bool  // R is
	probability  float64
	draws        bool
	sampled      bool
	state, count int64
}

const billion = 1_000_000_000

// tests tests a port for a packet, and advances its window. The random number, and R if the window is lost, come from
// the record, if there is one.
func (d *device) tests(a *arrival, i int, r *trace.Decision) test {
	t := test{seen: d.sees(a, i), cause: deflect.TestRoom, known: true}
	if d.full(a, i) {
		t.cause = deflect.TestFull
	}
	if d.set.Scheme == deflect.SD && t.cause == deflect.TestFull {
		t.count = 1
	}
	if d.set.Scheme != deflect.PD {
		return t
	}
	if d.set.OnFull {
		return t
	}
	t.priority = int64(a.priority)
	if d.set.Relative == deflect.DistEWMA {
		t.priority = int64(d.scaled(a))
	}
	w := &d.pipeOf(a).windows[i]
	d.relative(a, i, w, &t, r)
	if t.cause == deflect.TestFull {
		t.numerator, t.denominator = 0, 0
		return t
	}
	if d.set.Relative == deflect.Quantile && !d.set.SampleQueued {
		t.sampled = w.sample(d.set, a.priority)
	}
	if !t.known && a.priority == 0 { // nothing is less than 0
		t.known, t.numerator, t.denominator = true, 0, 1
	}
	d.compare(&t, r)
	return t
}

// relative evaluates R.
func (d *device) relative(a *arrival, i int, w *window, t *test, r *trace.Decision) {
	q := d.ports[i]
	switch d.set.Relative {
	case deflect.Quantile:
		t.known = !w.lost
		t.numerator, t.count = w.below(a.priority), int64(len(w.values))
		if r != nil {
			t.state = w.state()
		}
		if t.denominator = int64(d.set.Window); d.set.ByFilled {
			t.denominator = t.count
		}
		t.denominator = max(t.denominator, 1)
	case deflect.Oracle:
		for _, other := range q.waiting {
			if other.priority < a.priority {
				t.numerator++
			}
		}
		t.count = int64(len(q.waiting))
		t.denominator = max(t.count, 1)
	case deflect.DistExact:
		t.state, t.count, t.denominator = int64(t.seen.sum), t.seen.count, billion
		if t.seen.count > 0 {
			t.numerator = exponential(float64(a.priority), float64(t.seen.sum)/float64(t.seen.count))
		}
	case deflect.DistEWMA:
		t.state, t.denominator = int64(t.seen.mean), billion
		t.numerator = exponential(float64(deflect.DistBin(uint64(t.priority))), float64(deflect.DistBin(t.seen.mean)))
	}
	if r == nil || r.Values[deflect.TestDenominator] <= 0 {
		return
	}
	claimed := r.Values[deflect.TestNumerator]
	exponentials := d.set.Relative == deflect.DistExact || d.set.Relative == deflect.DistEWMA
	switch {
	case exponentials && r.Values[deflect.TestDenominator] == billion && claimed-t.numerator >= -1 &&
		claimed-t.numerator <= 1:
		t.numerator = claimed // what exp gives may be rounded in either direction
	case !t.known && r.Values[deflect.TestDenominator] == t.denominator:
		t.numerator, t.known = claimed, true
	}
}

// exponential returns 1 − exp(−x/m) in billionths.
func exponential(x, m float64) int64 {
	switch {
	case x <= 0:
		return 0
	case m <= 0:
		return billion
	}
	return int64(math.Round(billion * -math.Expm1(-x/m)))
}

// compare compares what waits with the threshold that R gives, or draws.
func (d *device) compare(t *test, r *trace.Decision) {
	room, held := int64(d.set.Queue), t.seen.bytes
	least := int64(d.set.MinThreshold)
	switch {
	case d.set.Probabilistic && held <= least:
	case d.set.Probabilistic:
		t.draws = true
		t.cause = 0
		if !t.known || room <= least {
			return
		}
		t.probability = min(1, float64(t.numerator)/float64(t.denominator)*float64(held-least)/float64(room-least))
		if r == nil || r.Values[deflect.TestDraw] < 0 {
			return
		}
		if t.cause = deflect.TestRoom; less(uint64(r.Values[deflect.TestDraw]), uint64(t.denominator)*uint64(room-least),
			1<<53, uint64(t.numerator)*uint64(held-least)) {
			t.cause = deflect.TestOver
		}
	case !t.known:
		if t.cause = 0; room-held > room*d.set.Alpha/1_000_000+1 { // R is at most 1
			t.cause = deflect.TestRoom
		}
	case d.set.Relative == deflect.DistEWMA:
		high, low := bits.Mul64(uint64(room)*uint64(d.set.Alpha), uint64(t.numerator))
		if quotient, _ := bits.Div64(high, low, 1_000_000*billion); int64(quotient) >= room-held {
			t.cause = deflect.TestOver
		}
	default:
		free, by := uint64(room-held)*1_000_000, uint64(t.denominator)
		need, of := uint64(room)*uint64(d.set.Alpha), uint64(t.numerator)
		if less(free, by, need, of) || d.set.EqualDeflects && !less(need, of, free, by) {
			t.cause = deflect.TestOver
		}
	}
}

// less reports whether a·b < c·d.
func less(a, b, c, d uint64) bool {
	highL, lowL := bits.Mul64(a, b)
	highR, lowR := bits.Mul64(c, d)
	return highL < highR || highL == highR && lowL < lowR
}
