package deflect

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// claim is what the records of a packet say, in the order in which they must come; nil: nothing.
type claim struct {
	route, pick, fate *trace.Decision
	tests             []*trace.Decision
	order             bool // they come in the right order
}

func (d *device) claimOf(a *arrival) claim {
	c := claim{order: true, tests: d.claims[:0]}
	for i := range a.records {
		r := &a.records[i]
		switch r.Kind {
		case deflect.Route:
			c.order = c.order && i == 0
			c.route = r
		case deflect.Tested:
			c.order = c.order && c.pick == nil && c.fate == nil
			c.tests = append(c.tests, r)
		case deflect.Pick:
			c.order = c.order && c.pick == nil && c.fate == nil && len(c.tests) > 0
			c.pick = r
		case deflect.Queued, deflect.Deflected, deflect.NoPort, deflect.Tail:
			c.order = c.order && c.fate == nil && (c.pick != nil || r.Kind == deflect.Queued || r.Kind == deflect.Tail)
			c.fate = r
		default:
			c.order = false
		}
	}
	c.order = c.order && (len(a.records) == 0 || c.fate != nil)
	d.claims = c.tests
	return c
}

// verdict is what a packet's destination port, and its candidates, came to.
type verdict struct {
	a        *arrival
	c        claim
	test     test // of the destination port
	egress   int  // -1: unknown
	eligible []int
	unsure   bool // which ports are there is in doubt
}

// joins reports whether the packet came into a queue.
func (v *verdict) joins() bool {
	return v.a.fate == left || v.a.fate == inside || v.a.fate == withdrawn
}

// arrives judges what was done with a packet that came in, and lets it join its queue.
func (d *device) arrives(a *arrival) {
	if a.port < 0 || a.port >= len(d.ports) {
		return
	}
	d.judge.coverage.decisions++
	v := &d.verdict
	*v = verdict{a: a, c: d.claimOf(a), egress: -1, unsure: d.broken(a.at)}
	if d.recorded && (!v.c.order || len(a.records) == 0) {
		d.tell(a, misordered(d.placeOf(a)))
		if v.c.fate == nil {
			v.c = claim{order: true}
		}
	}
	d.destination(v)
	if v.egress >= 0 {
		d.judgeDecision(v)
	} else {
		d.judgeUnknown(v)
	}
	if v.joins() {
		if q := d.ports[a.port]; q.bytes+a.size >= int64(d.set.Queue) {
			d.tell(a, overfull(d.placeOf(a), q.bytes, d.set.Queue))
		}
		d.join(a, a.port)
	}
}

// destination finds the destination port, and judges how it was chosen.
func (d *device) destination(v *verdict) {
	a := v.a
	to := d.candidates(a)
	switch {
	case v.c.fate != nil:
		v.egress = int(v.c.fate.Values[deflect.FateEgress])
	case len(v.c.tests) > 0:
		v.egress = v.c.tests[0].Port
	case len(to) == 1:
		v.egress = to[0]
	}
	if v.egress >= len(d.ports) || v.egress < 0 {
		v.egress = -1
		return
	}
	a.egress = v.egress
	v.eligible = d.eligible(a.at, a.in, v.egress)
	if to == nil || v.unsure {
		return
	}
	if !slices.Contains(to, v.egress) {
		d.tell(a, offRoute(d.placeOf(a), v.egress))
		return
	}
	if d.recorded && len(a.records) > 0 {
		d.judgeRoute(a, v.c.route, to, v.egress)
	}
}

// eligible returns the ports that a packet may be deflected to, until the next call.
func (d *device) eligible(now clock.Time, in, egress int) []int {
	list := d.eligibles[:0]
	for _, port := range d.neighbours {
		if port == in && (d.set.Eligible == deflect.NotIngress || d.set.Eligible == deflect.Neither) ||
			port == egress && (d.set.Eligible == deflect.NotEgress || d.set.Eligible == deflect.Neither) {
			continue
		}
		if !d.down(port, now) {
			list = append(list, port)
		}
	}
	d.eligibles = list
	return list
}

// judgeRoute judges the choice among equally short paths.
func (d *device) judgeRoute(a *arrival, r *trace.Decision, to []int, egress int) {
	at := place{d.who, egress, a.id}
	if d.set.Forwarding != deflect.PowerOfTwo || len(to) == 1 {
		if r != nil {
			d.tell(a, misordered(at))
		} else if n := d.judge.network; n != nil && len(to) > 1 && n.hashes() {
			d.judgeHash(a, egress)
		}
		return
	}
	if r == nil {
		d.tell(a, noRoute(at))
		return
	}
	first, second := int(r.Values[deflect.RouteFirst]), int(r.Values[deflect.RouteSecond])
	if first == second || !slices.Contains(to, first) || !slices.Contains(to, second) {
		d.tell(a, badPair(at, first, second))
		return
	}
	x, y := d.sees(a, first).bytes, d.sees(a, second).bytes
	d.expect(a, at, "equal paths", r.Values[deflect.RoutePaths], int64(len(to)))
	d.expectSeen(a, at, r.Values[deflect.RouteSeenFirst], x)
	d.expectSeen(a, at, r.Values[deflect.RouteSeenSecond], y)
	for _, port := range to {
		d.draw(a, bet{of: ofRoute, port: port}, 2/float64(len(to)), port == first || port == second)
	}
	d.pair(a, to, first, second)
	switch {
	case egress != first && egress != second, x < y && egress == second, y < x && egress == first:
		d.tell(a, longerQueue(at, first, x, second, y))
	case x == y:
		// Which of two is meant does not depend on the order in which they were drawn.
		d.draw(a, bet{of: ofRouteTie, port: min(first, second)}, 0.5, egress == min(first, second))
	}
}

// judgeHash judges that a flow has one destination port.
func (d *device) judgeHash(a *arrival, egress int) {
	if e := d.judge.network.at(a.at); e != d.epoch {
		d.epoch = e
		clear(d.hashes)
	}
	key := hashKey{a.key, a.entropy}
	had, known := d.hashes[key]
	if known && had != egress {
		d.tell(a, otherPath(place{d.who, egress, a.id}, had))
	}
	if len(d.hashes) < mostHashes {
		d.hashes[key] = egress
	}
}

// mostHashes bounds the flows that are remembered.
const mostHashes = 1 << 16

// judgeUnknown judges a packet whose destination port the taps do not show: only if none, or all, of those that it can
// be decides otherwise.
func (d *device) judgeUnknown(v *verdict) {
	a, to := v.a, d.candidates(v.a)
	d.judge.coverage.unsure++
	if d.set.Relative == deflect.Quantile && d.set.Scheme == deflect.PD {
		d.loseWindows(a)
	}
	if v.unsure || len(to) == 0 {
		return
	}
	certain := true // all of them take it
	for _, port := range to {
		s := d.sees(a, port)
		free := int64(d.set.Queue) - s.bytes
		switch {
		case d.set.Scheme == deflect.ECMP:
		case d.full(a, port), d.set.Scheme == deflect.PD && d.set.Probabilistic && s.bytes > int64(d.set.MinThreshold),
			d.set.Scheme == deflect.PD && free <= int64(d.set.Queue)*d.set.Alpha/1_000_000+1:
			certain = false
		}
	}
	if !certain {
		return
	}
	switch {
	case v.joins() && !slices.Contains(to, a.port):
		d.tell(a, needless(d.placeOf(a), d.sees(a, to[0]).bytes))
	case a.fate == portless:
		d.tell(a, needless(d.placeOf(a), d.sees(a, to[0]).bytes))
	case a.fate == refused && d.ports[a.port].bytes+a.size < int64(d.set.Queue):
		d.tell(a, hadRoom(d.placeOf(a), d.ports[a.port].bytes))
	}
}

// loseWindows gives up the windows of a pipe's ports: which of them were tested is not known.
func (d *device) loseWindows(a *arrival) {
	p := d.pipeOf(a)
	if p.lost {
		return
	}
	p.lost = true
	for i := range p.windows {
		p.windows[i].lost = true
	}
	d.note(a.at, "the exact threshold of PD", "without records the taps do not show which ports were tested")
}

// judgeDecision judges a packet whose destination port is known.
func (d *device) judgeDecision(v *verdict) {
	a, e := v.a, v.egress
	var r *trace.Decision
	if len(v.c.tests) > 0 {
		r = v.c.tests[0]
	}
	if d.set.Scheme != deflect.ECMP {
		v.test = d.tests(a, e, r)
		d.judgeTest(v, e, &v.test, r)
	} else {
		v.test = test{cause: deflect.TestRoom, seen: d.sees(a, e), known: true}
	}
	deflects := v.joins() && a.port != e || a.fate == portless
	if v.c.fate != nil { // a naive deflection may go to the destination port
		deflects = v.c.fate.Kind == deflect.Deflected || v.c.fate.Kind == deflect.NoPort ||
			v.c.fate.Kind == deflect.Tail && v.c.pick != nil
	} else if a.fate == refused || a.fate == failed {
		deflects = a.port != e || d.set.Scheme == deflect.Naive && v.test.cause == deflect.TestFull &&
			slices.Contains(v.eligible, e) // to the destination port itself
	}
	d.judgeFate(v)
	if v.test.draws && v.test.known {
		d.draw(a, bet{of: ofThreshold, port: e}, v.test.probability, deflects)
	}
	switch {
	case v.test.cause == 0:
	case v.test.cause == deflect.TestRoom && deflects:
		d.tellNeedless(v)
	case v.test.cause != deflect.TestRoom && !deflects:
		d.tellKept(v)
	}
	if v.test.cause == deflect.TestRoom && !deflects || v.unsure || !deflects {
		if a.fate == refused {
			d.judgeTail(v, v.test.cause == deflect.TestRoom)
		}
		d.skipCandidates(v, deflects)
		return
	}
	d.judgePick(v)
}

// tellNeedless reports that a packet was not queued although its destination port had room.
func (d *device) tellNeedless(v *verdict) {
	a, at := v.a, place{d.who, v.egress, v.a.id}
	if d.set.Scheme != deflect.PD || d.set.OnFull || d.set.Alpha == 0 && !d.set.Probabilistic {
		d.tell(a, needless(at, v.test.seen.bytes))
	}
	if d.set.Scheme == deflect.PD {
		d.tell(a, wrongVerdict(at, true, v.test.seen.bytes, v.test.numerator, v.test.denominator))
		if v.test.known && v.test.numerator == 0 && !d.set.Probabilistic && !d.set.OnFull {
			d.tell(a, important(at, v.test.seen.bytes))
		}
	}
}

// tellKept reports that a packet was queued although its destination port should have refused it.
func (d *device) tellKept(v *verdict) {
	a, at := v.a, place{d.who, v.egress, v.a.id}
	if v.a.fate == refused && v.test.cause == deflect.TestFull {
		for _, port := range v.eligible {
			if !v.unsure && !d.full(a, port) && (d.set.Scheme == deflect.DIBS || d.set.Scheme == deflect.SD) {
				d.tell(a, dropped(at, port))
				return
			}
		}
	}
	d.tell(a, wrongVerdict(at, false, v.test.seen.bytes, v.test.numerator, v.test.denominator))
}

// judgeTail judges a packet that a queue has refused.
func (d *device) judgeTail(v *verdict, saw bool) {
	a := v.a
	if q := d.ports[a.port]; q.bytes+a.size < int64(d.set.Queue) && !v.unsure {
		d.tell(a, hadRoom(d.placeOf(a), q.bytes))
	}
	if f := v.c.fate; f != nil && f.Kind == deflect.Tail && d.set.Scheme != deflect.ECMP {
		d.expect(a, d.placeOf(a), "stale", f.Values[deflect.FateStale], number(saw))
	}
}

// skipCandidates replays the tests of candidates that are not judged.
func (d *device) skipCandidates(v *verdict, deflects bool) {
	if d.set.Scheme != deflect.PD {
		return
	}
	for i, r := range v.c.tests {
		if i > 0 && r.Port >= 0 && r.Port < len(d.ports) {
			t := d.tests(v.a, r.Port, r)
			d.judgeTest(v, r.Port, &t, r)
		}
	}
	if len(v.a.records) == 0 && deflects && d.set.Relative == deflect.Quantile {
		d.loseWindows(v.a)
	}
}

// judgeTest judges the record of a test.
func (d *device) judgeTest(v *verdict, port int, t *test, r *trace.Decision) {
	if r == nil {
		return
	}
	a, at := v.a, place{d.who, port, v.a.id}
	if r.Port != port {
		d.tell(a, misordered(at))
		return
	}
	d.expect(a, at, "occupancy", r.Occupancy, d.ports[port].bytes)
	d.expectSeen(a, at, r.Values[deflect.TestSeen], t.seen.bytes)
	if d.set.Scheme == deflect.SD && t.count != r.Values[deflect.TestCount] {
		d.tell(a, staleBit(at, r.Values[deflect.TestCount], t.count))
	}
	if d.set.Scheme == deflect.PD && !d.set.OnFull {
		d.judgeRelative(v, port, t, r)
	}
	if t.cause != 0 && r.Cause != t.cause {
		d.tell(a, otherCause(at, r.Cause, t.cause))
	}
}

// judgeRelative judges what a record says of R.
func (d *device) judgeRelative(v *verdict, port int, t *test, r *trace.Decision) {
	a, at := v.a, place{d.who, port, v.a.id}
	w := &d.pipeOf(a).windows[port]
	if t.cause != deflect.TestFull {
		d.expect(a, at, "priority value", r.Values[deflect.TestPriority], t.priority)
	}
	quantile := d.set.Relative == deflect.Quantile
	if t.cause != deflect.TestFull && t.known && !w.lost {
		got, count := r.Values[deflect.TestState], r.Values[deflect.TestCount]
		switch {
		case quantile && (got != t.state || count != t.count):
			d.tell(a, otherWindow(at, count, t.count))
			w.lost = true
			return
		case quantile && r.Values[deflect.TestSampled] != number(t.sampled):
			d.tell(a, otherSample(at, t.sampled))
			w.lost = true
			return
		case d.set.Relative == deflect.DistExact || d.set.Relative == deflect.DistEWMA:
			d.expectSeen(a, at, got, t.state)
		}
		if n, of := r.Values[deflect.TestNumerator], r.Values[deflect.TestDenominator]; n != t.numerator ||
			of != t.denominator {
			d.tell(a, otherR(at, n, of, t.numerator, t.denominator))
		}
	}
	if t.cause == deflect.TestFull && r.Values[deflect.TestDenominator] != 0 {
		d.tell(a, evaluated(at))
		w.lost = w.lost || quantile
	}
	if t.draws != (r.Values[deflect.TestDraw] >= 0) && t.cause != deflect.TestFull && d.set.Probabilistic {
		d.tell(a, claimed(at, "the draw", r.Values[deflect.TestDraw], -number(!t.draws)))
	} else if u := r.Values[deflect.TestDraw]; t.draws && u >= 0 {
		const bits = 16
		d.draw(a, bet{of: ofCoarse, port: port}, 1./(1<<bits), u&(1<<bits-1) == 0)
	}
	d.judgeMonotone(a, w, at, r)
}

// judgeMonotone compares the verdict on a port with those on packets that found the same.
func (d *device) judgeMonotone(a *arrival, w *window, at place, r *trace.Decision) {
	if d.set.Probabilistic || d.set.Relative == deflect.Oracle || r.Cause == deflect.TestFull {
		return
	}
	if w.seen == nil || len(w.seen) > 1024 {
		w.seen = make(map[load]*bounds)
	}
	key := load{r.Values[deflect.TestSeen], a.size, r.Values[deflect.TestState], r.Values[deflect.TestCount]}
	b := w.seen[key]
	if b == nil {
		b = &bounds{}
		w.seen[key] = b
	}
	if r.Cause == deflect.TestOver {
		if b.admitted && b.mostAdmitted > a.priority {
			d.tell(a, unfair(at, a.priority, b.mostAdmitted))
		}
		if !b.refused || a.priority < b.leastRefused {
			b.refused, b.leastRefused = true, a.priority
		}
		return
	}
	if b.refused && a.priority > b.leastRefused {
		d.tell(a, unfair(at, b.leastRefused, a.priority))
	}
	if !b.admitted || a.priority > b.mostAdmitted {
		b.admitted, b.mostAdmitted = true, a.priority
	}
}

// judgeFate judges the record of what became of a packet.
func (d *device) judgeFate(v *verdict) {
	a, f := v.a, v.c.fate
	if f == nil {
		return
	}
	at := place{d.who, f.Port, a.id}
	same := false
	switch f.Kind {
	case deflect.Queued:
		same = (v.joins() || a.fate == failed) && f.Port == a.port && f.Port == v.egress
	case deflect.Deflected:
		same = (v.joins() || a.fate == failed) && f.Port == a.port
	case deflect.NoPort:
		same = a.fate == portless && f.Port == v.egress
	case deflect.Tail:
		same = a.fate == refused && f.Port == a.port
	}
	if !same {
		d.tell(a, otherFate(at, f.Kind, a.fate, a.port))
		return
	}
	d.expect(a, at, "occupancy", f.Occupancy, d.ports[f.Port].bytes)
	if d.set.Scheme == deflect.PD {
		d.expect(a, at, "priority value", f.Values[deflect.FatePriority], int64(a.priority))
	}
}

// expect judges a value of a record.
func (d *device) expect(a *arrival, at place, what string, got, want int64) {
	if got != want {
		d.tell(a, claimed(at, what, got, want))
	}
}

// expectSeen judges what a record says that the ingress sees.
func (d *device) expectSeen(a *arrival, at place, got, want int64) {
	switch {
	case got == want:
	case d.period > 0:
		d.tell(a, stale(at, got, want))
	default:
		d.tell(a, claimed(at, "what the ingress sees", got, want))
	}
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
