package trace

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"candela.dev/candela/clock"
)

// A ClockReport relates the clock of the second capture of a pair to that of the first. A frame that the second stamps
// at t was there at about t + OffsetNS + DriftPPB·(t − ReferenceNS)/10⁹ on the first one's clock, which all records and
// findings use. Records of captures that were taken one after the other have the earliest time that the packets allow.
type ClockReport struct {
	OffsetNS    int64 `json:"offset_ns"`
	DriftPPB    int64 `json:"drift_ppb"`
	ReferenceNS int64 `json:"reference_ns"` // on the second capture's clock
	// UncertaintyNS is the most by which frames may have passed the second tap later than recorded. It is 0 with one clock
	// for both captures. -1: not bounded, because no answer in the captures bounds it.
	UncertaintyNS int64 `json:"uncertainty_ns"`
	Matched       int   `json:"matched"`   // frames that both captures certainly hold and that the estimate rests on
	Discarded     int   `json:"discarded"` // of them, those that contradicted the others
	SameClock     bool  `json:"same_clock,omitempty"`
}

// String says it for people.
func (c *ClockReport) String() string {
	switch {
	case c.SameClock:
		return "both captures are taken to be stamped by one clock"
	case c.UncertaintyNS < 0:
		return fmt.Sprintf("clock of the second capture: corrected by %s and %s, from %d common frames; "+
			"no answer bounds how much later frames may have passed", clock.TextNS(c.OffsetNS), c.drift(), c.Matched)
	}
	return fmt.Sprintf("clock of the second capture: corrected by %s and %s, uncertainty %s, from %d common frames",
		clock.TextNS(c.OffsetNS), c.drift(), clock.TextNS(c.UncertaintyNS), c.Matched)
}

func (c *ClockReport) drift() string { return fmt.Sprintf("%+.1f ppm", float64(c.DriftPPB)/1000) }

// A bound is one fact about the correction θ of the second clock at a time of that clock: θ(atNS) ≥ ns, or θ(atNS) ≤
// ns.
type bound struct {
	atNS  int64
	ns    int64
	upper bool
}

// clockBounds collects what the packets show about θ.
//
// A frame that was seen at the first tap at a and after that at the second one at b, each on its own clock, shows that
// b + θ ≥ a: a lower bound a − b. One that was seen at the second tap first is an upper bound. So is an answer that was
// seen at the first tap at a, if what it answers passed the second tap at b: b + θ ≤ a.
type clockBounds struct {
	list []bound
	// tickNS is the resolution of the captures' clocks: a stamp is up to that much earlier than the frame. 0: 1 ns.
	tickNS int64
}

func (c *clockBounds) lower(firstNS, secondNS int64) { c.add(firstNS, secondNS, false) }
func (c *clockBounds) upper(firstNS, secondNS int64) { c.add(firstNS, secondNS, true) }

// transit adds the bound from a frame that passed both taps, the first one first or last.
func (c *clockBounds) transit(firstNS, secondNS int64, firstUpstream bool) {
	c.add(firstNS, secondNS, !firstUpstream)
}

// cause adds that an answer was seen after its request, at different taps.
func (c *clockBounds) cause(requestNS, answerNS int64, requestFirst bool) {
	if requestFirst {
		c.lower(requestNS, answerNS)
	} else {
		c.upper(answerNS, requestNS)
	}
}

func (c *clockBounds) add(firstNS, secondNS int64, upper bool) {
	tick := c.tickNS
	if !upper {
		tick = -tick
	}
	c.list = append(c.list, bound{atNS: secondNS, ns: firstNS - secondNS + tick, upper: upper})
}

// pairBounds keeps the tightest of the bounds from many pairs of frames for each stretch of time.
type pairBounds struct {
	clock  *clockEstimate
	spanNS int64
	tickNS int64 // see clockBounds
	best   map[pairSlot]bound
}

type pairSlot struct {
	stretch int64
	upper   bool
}

// pairStretches is how many stretches a capture is divided into.
const pairStretches = 512

func newPairBounds(clock *clockEstimate, tickNS int64) *pairBounds {
	return &pairBounds{clock: clock, tickNS: tickNS, spanNS: max(1, int64(2*clock.halfSpan)/pairStretches),
		best: make(map[pairSlot]bound)}
}

// add takes in a frame that was sent and passed.
func (e *pairBounds) add(s, p *observation) {
	b := bound{atNS: p.rawNS, ns: s.rawNS - p.rawNS - e.tickNS}
	if s.second {
		b = bound{atNS: s.rawNS, ns: p.rawNS - s.rawNS + e.tickNS, upper: true}
	}
	slot := pairSlot{(b.atNS - e.clock.report.ReferenceNS) / e.spanNS, b.upper}
	if old, ok := e.best[slot]; !ok || b.upper && b.ns < old.ns || !b.upper && b.ns > old.ns {
		e.best[slot] = b
	}
}

// list returns the bounds in a fixed order.
func (e *pairBounds) list() []bound {
	list := slices.Collect(maps.Values(e.best))
	slices.SortFunc(list, func(a, b bound) int { return cmp.Or(cmp.Compare(a.atNS, b.atNS), cmp.Compare(a.ns, b.ns)) })
	return list
}

// maxDrift is the largest plausible difference in rate between two clocks: crystals are within 100 ppm, and two of them
// differ by the sum.
const maxDrift = 250e-6

// errNoOffset says that no offset and drift agree with the packets.
type noOffsetError struct{ byNS int64 }

func (e *noOffsetError) Error() string {
	return fmt.Sprintf(
		"no clock offset explains the order of the frames: with the best one, answers still precede what they answer by %s",
		clock.TextNS(e.byNS))
}

// clockEstimate is a correction with the bounds of its error.
type clockEstimate struct {
	report ClockReport
	baseNS int64   // added to every instant
	offset float64 // at the reference, beyond the base
	drift  float64

	// least is the earliest correction that the bounds allow at each time, used for records. nil: use the line.
	least envelope

	halfSpan float64 // ns of the captures' time on either side of the reference
	roomNS   int64   // what the bounds leave of the offset, for this drift
}

// correct converts a time of the second capture's clock to the first one's.
func (e *clockEstimate) correct(t int64) int64 {
	if e == nil {
		return t
	}
	x := float64(t - e.report.ReferenceNS)
	if e.least != nil {
		return t + e.baseNS + int64(math.Round(e.least.least(x)))
	}
	return t + e.baseNS + int64(math.Round(e.offset+e.drift*x))
}

// better reports whether the places of e agree better with the times than those of o: fewer frames contradict them, or
// they leave more room for what is unknown.
func (e *clockEstimate) better(o *clockEstimate) bool {
	if e.report.Discarded != o.report.Discarded {
		return e.report.Discarded < o.report.Discarded
	}
	return o.report.Discarded == 0 && e.roomNS > o.roomNS
}

// slack is how much too early a corrected time may be: other frames may have been faster than those that the estimate
// is based on.
func (e *clockEstimate) slack() int64 {
	const least, most = 1_000, 50_000
	switch {
	case e == nil || e.report.SameClock:
		return 0
	case e.report.UncertaintyNS < 0:
		return least
	}
	return min(max(least, e.report.UncertaintyNS/4), most)
}

// estimate solves the bounds. With earliest, θ is the least that they allow at each time, so that no frame passes the
// second tap later than it did; else the middle.
func (c *clockBounds) estimate(earliest bool) (*clockEstimate, error) {
	e := &clockEstimate{}
	if len(c.list) == 0 {
		e.report.UncertaintyNS = -1
		return e, nil
	}
	e.baseNS = c.list[0].ns
	first, last := c.list[0].atNS, c.list[0].atNS
	for _, b := range c.list {
		first, last = min(first, b.atNS), max(last, b.atNS)
	}
	e.report.ReferenceNS = first + (last-first)/2
	l := c.lines(e)
	e.report.Matched = len(c.list)
	discarded, err := l.makeFeasible()
	if err != nil {
		return nil, err
	}
	e.report.Discarded = discarded
	e.halfSpan = float64(last-first) / 2
	e.solve(l, earliest)
	return e, nil
}

// solve picks offset and drift, and bounds what they leave open over the captures' time.
func (e *clockEstimate) solve(l *lines, earliest bool) {
	e.drift = l.bestDrift()
	lo, hi := l.offsets(e.drift)
	switch {
	case math.IsInf(lo, -1): // only upper bounds: nothing that the first tap saw first
		e.offset, e.report.UncertaintyNS = hi, -1
	case math.IsInf(hi, 1):
		e.offset, e.report.UncertaintyNS = lo, -1
	default:
		e.offset, e.roomNS = lo, int64(hi-lo)
		if !earliest {
			e.offset = (lo + hi) / 2
		}
		e.report.UncertaintyNS = int64(math.Ceil(e.bound(l, earliest)))
	}
	e.report.OffsetNS = e.baseNS + int64(math.Round(e.offset))
	e.report.DriftPPB = int64(math.Round(e.drift * 1e9))
}

// bound returns the largest distance of the chosen correction from any other that the bounds allow. With earliest the
// chosen one is the least that they allow at each time.
func (e *clockEstimate) bound(l *lines, earliest bool) float64 {
	least, largest := l.envelopes(e.drift)
	if earliest {
		e.least = least
	}
	most := 0.0
	// the largest difference is at an end: least is concave, largest convex
	for _, x := range []float64{-e.halfSpan, e.halfSpan} {
		if earliest {
			most = max(most, largest.largest(x)-least.least(x))
			continue
		}
		y := straight{e.offset, e.drift}.at(x)
		most = max(most, largest.largest(x)-y, y-least.least(x))
	}
	return most
}

// lines are the bounds as points (x, y): a correction o + s·x must be at or above each lower point, at or below each
// upper one.
type lines struct {
	below, above []point // lower and upper bounds
}

type point struct{ x, y float64 }

func (c *clockBounds) lines(e *clockEstimate) *lines {
	l := &lines{}
	for _, b := range c.list {
		p := point{float64(b.atNS - e.report.ReferenceNS), float64(b.ns - e.baseNS)}
		if b.upper {
			l.above = append(l.above, p)
		} else {
			l.below = append(l.below, p)
		}
	}
	return l
}

// offsets returns the interval of offsets that drift s leaves; it is empty if lo > hi.
func (l *lines) offsets(s float64) (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	for _, p := range l.below {
		lo = max(lo, p.y-s*p.x)
	}
	for _, p := range l.above {
		hi = min(hi, p.y-s*p.x)
	}
	return lo, hi
}

// bestDrift returns the drift that leaves most room or, without bounds on one side, that follows the other side most
// closely. Both are concave functions of the drift.
func (l *lines) bestDrift() float64 {
	room := func(s float64) float64 {
		lo, hi := l.offsets(s)
		switch {
		case math.IsInf(lo, -1):
			return hi + s*mean(l.above)
		case math.IsInf(hi, 1):
			return -lo - s*mean(l.below)
		}
		return hi - lo
	}
	a, b := -maxDrift, maxDrift
	for range 60 {
		m1, m2 := a+(b-a)/3, b-(b-a)/3
		if room(m1) < room(m2) {
			a = m1
		} else {
			b = m2
		}
	}
	// Jitter is not evidence of a drift: of those that leave nearly as much room the smallest is taken.
	best := (a + b) / 2
	most := room(best)
	enough := most - max(100, math.Abs(most)/5)
	if room(0) >= enough {
		return 0
	}
	small := 0.0
	for range 40 {
		if middle := (small + best) / 2; room(middle) >= enough {
			best = middle
		} else {
			small = middle
		}
	}
	return best
}

func mean(points []point) float64 {
	sum := 0.0
	for _, p := range points {
		sum += p.x
	}
	return sum / float64(max(1, len(points)))
}

// makeFeasible discards the few bounds that contradict most others: a frame that one tap missed may be matched with its
// own retransmission. It returns how many it discarded.
func (l *lines) makeFeasible() (discarded int, err error) {
	most := max(2, (len(l.below)+len(l.above))/50)
	for {
		s := l.bestDrift()
		lo, hi := l.offsets(s)
		if lo <= hi {
			return discarded, nil
		}
		if discarded == most {
			return discarded, &noOffsetError{byNS: int64(math.Ceil(lo - hi))}
		}
		l.discardTightest(s)
		discarded++
	}
}

// discardTightest drops the bound whose absence widens the interval most.
func (l *lines) discardTightest(s float64) {
	residue := func(p point) float64 { return p.y - s*p.x }
	gain := func(points []point, sign float64) (at int, by float64) {
		best, second := math.Inf(-1), math.Inf(-1)
		at = -1
		for i, p := range points {
			switch v := sign * residue(p); {
			case v > best:
				best, second, at = v, best, i
			case v > second:
				second = v
			}
		}
		return at, best - second
	}
	i, byLower := gain(l.below, 1)
	j, byUpper := gain(l.above, -1)
	if i >= 0 && (byLower >= byUpper || j < 0) {
		l.below = slices.Delete(l.below, i, i+1)
		return
	}
	l.above = slices.Delete(l.above, j, j+1)
}
