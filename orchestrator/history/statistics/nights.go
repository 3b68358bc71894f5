package statistics

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Series is one metric of one test on one testbed, night after night. NaN: it was not measured that night.
type Series []float64 // location of the night's runs, as the logarithm if all values are positive

// False alarms that all metrics of a testbed may cause together, for each night, by how many nights a shift has lasted.
// A choice: a little more than one alarm in twenty nights, most of it for what lasted two nights.
var alarms = []struct {
	nights int
	chance float64
}{{1, 0.004}, {2, 0.045}, {4, 0.002}, {8, 0.002}}

// fewestNights is how many nights a metric must have before a shift is looked for. A choice.
const fewestNights = 5

// commonFrom is from how many metrics on what all of them do in a night is subtracted.
const commonFrom = 20

// A Shift is a change of a series' level.
type Shift struct {
	Series int     // index in the family; Common: all of it
	First  int     // first night of the new level
	Found  int     // night on which it was found
	Change float64 // difference of levels, new minus old
	P      float64 // of a difference as great without a shift, for this series alone
	// Passed is set if the next night was as before: one night was different.
	Passed bool
}

// Common is the series of a shift that most metrics of a testbed made together.
const Common = -1

// Detect finds shifts in the order of nights in which a lab would have seen them: what was found on a night does not
// change with later ones, apart from Passed. The series are all metrics of a testbed and have one length; others counts
// metrics that share the limit on false alarms and are not in the family.
//
// A night is compared with the level before by a t test whose variance is moderated (Smyth 2004): that of a series'
// own nights, drawn towards what is usual for the family. With a limit on false alarms of the whole family, a metric's
// own dozen nights alone would need a shift of ten percent to stand out.
func Detect(family []Series, others int) []Shift {
	if len(family) == 0 {
		return nil
	}
	tracks := make([]*track, len(family))
	for i, s := range family {
		tracks[i] = &track{values: slices.Clone(s)}
	}
	var shifts []Shift
	common := &track{values: slices.Repeat([]float64{math.NaN()}, len(family[0]))}
	for night := range len(family[0]) {
		shifts = append(shifts, commonShift(tracks, common, night)...)
		shifts = append(shifts, step(tracks, night, others)...)
	}
	for i := range shifts {
		s, of := &shifts[i], common
		if s.Series != Common {
			of = tracks[s.Series]
		}
		s.Passed = s.First == s.Found && slices.Contains(of.passed, s.First)
	}
	return shifts
}

// commonShift subtracts from all series what they did together that night. If that is a shift itself, it is reported
// and remains in the level of what follows.
func commonShift(tracks []*track, common *track, night int) []Shift {
	var deviations []float64
	for _, t := range tracks {
		if v := t.values[night]; !math.IsNaN(v) && len(t.base) >= fewestNights {
			deviations = append(deviations, v-t.level())
		}
	}
	if len(deviations) < commonFrom {
		return nil
	}
	together := Median(deviations)
	common.values[night] = together
	found := step([]*track{common}, night, len(tracks))
	for i := range found {
		found[i].Series = Common
	}
	// Only the usual swing from night to night is subtracted: after a shift of most metrics those that did not shift
	// would otherwise seem to have.
	if len(common.base) == 0 {
		return found
	}
	for _, t := range tracks {
		t.values[night] -= together
	}
	return found
}

// A track follows one series.
type track struct {
	values []float64
	base   []int   // nights of the present level
	ss, df float64 // of earlier levels: sum of squares and degrees of freedom
	doubt  int     // a night that alone shows a shift, plus one; 0: none
	passed []int   // nights that alone were different
}

func (t *track) level() float64 { return mean(t.values, t.base) }

func mean(values []float64, nights []int) (m float64) {
	for _, n := range nights {
		m += values[n]
	}
	return m / float64(len(nights))
}

// residual returns the sum of squares about the levels and its degrees of freedom, without the last so many nights.
func (t *track) residual(base []int) (ss, df float64) {
	ss, df = t.ss, t.df
	if len(base) < 2 {
		return ss, df
	}
	m := mean(t.values, base)
	for _, n := range base {
		ss += (t.values[n] - m) * (t.values[n] - m)
	}
	return ss, df + float64(len(base)-1)
}

// step tests one night of a family.
func step(tracks []*track, night, others int) (shifts []Shift) {
	tested := others
	var variances, freedoms []float64
	for _, t := range tracks {
		if math.IsNaN(t.values[night]) || len(t.base) < fewestNights {
			continue
		}
		tested++
		if ss, df := t.residual(t.base); df >= 2 {
			variances, freedoms = append(variances, ss/df), append(freedoms, df)
		}
	}
	usual := fitPrior(variances, freedoms)
	for i, t := range tracks {
		if math.IsNaN(t.values[night]) {
			continue
		}
		if t.doubt != 0 {
			t.resolve(night)
		}
		if shift, ok := t.test(night, tested, usual); ok {
			shift.Series = i
			shifts = append(shifts, shift)
		} else {
			t.base = append(t.base, night)
		}
	}
	return shifts
}

// test looks for a shift that this night shows.
func (t *track) test(night, tested int, usual prior) (found Shift, ok bool) {
	if len(t.base) < fewestNights {
		return found, false
	}
	best := 1.0
	for _, a := range alarms {
		before := len(t.base) - (a.nights - 1)
		if before < fewestNights {
			break
		}
		base := t.base[:before]
		window := append(slices.Clone(t.base[before:]), night)
		change := mean(t.values, window) - mean(t.values, base)
		limit := a.chance / float64(max(tested, 1))
		p := t.chance(change, base, len(window), usual, limit)
		if relative := p / limit; p < limit && relative < best {
			best, ok = relative, true
			found = Shift{First: window[0], Found: night, Change: change, P: p}
		}
	}
	if ok {
		t.begin(found, night)
	}
	return found, ok
}

// chance returns the probability of a difference as great without a shift; 1 if it is certainly over a limit.
func (t *track) chance(change float64, base []int, window int, usual prior, limit float64) float64 {
	ss, df := t.residual(base)
	variance, freedom := usual.moderate(ss, df)
	if freedom <= 0 {
		return 1
	}
	if variance <= 0 {
		if change == 0 {
			return 1
		}
		return 0 // every night was equal to the digit, and this one is not
	}
	z := math.Abs(change) / math.Sqrt(variance*(1/float64(window)+1/float64(len(base))))
	// The tails of Student's distribution are heavier than the normal ones, which cost little: 2 exp(-z²/2) / (z √2π)
	// times z² / (1 + z²) is at most their weight.
	if z < 1 || 2*math.Exp(-z*z/2)/(z*math.Sqrt(2*math.Pi))*z*z/(1+z*z) > limit {
		return 1
	}
	if math.IsInf(freedom, 1) {
		return 2 * distuv.UnitNormal.Survival(z)
	}
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Survival(z)
}

// begin starts a new level at the first night of a shift. A shift that one night shows may pass.
func (t *track) begin(s Shift, night int) {
	at, _ := slices.BinarySearch(t.base, s.First)
	old := t.base[:at]
	if s.First == night {
		t.doubt = night + 1
		return
	}
	t.ss, t.df = t.residual(old)
	t.base = append(slices.Clone(t.base[at:]), night)
}

// resolve decides by the next night whether one different night was a shift.
func (t *track) resolve(night int) {
	different := t.doubt - 1
	t.doubt = 0
	if math.Abs(t.values[night]-t.level()) < math.Abs(t.values[night]-t.values[different]) {
		t.passed = append(t.passed, different) // the level is what it was; that night is in no level
		return
	}
	t.ss, t.df = t.residual(t.base)
	t.base = []int{different}
}

// prior is what variances of a family usually are: scaled inverse chi-squared.
type prior struct{ variance, freedom float64 }

// fewestVariances is from how many series on a family says what is usual. A choice.
const fewestVariances = 10

// fitPrior estimates the prior from the variances of a family by the moments of their logarithms (Smyth 2004).
func fitPrior(variances, freedoms []float64) prior {
	var logs, halves []float64
	for i, v := range variances {
		if v > 0 {
			half := freedoms[i] / 2
			logs = append(logs, math.Log(v)-mathext.Digamma(half)+math.Log(half))
			halves = append(halves, trigamma(half))
		}
	}
	if len(logs) < fewestVariances {
		return prior{}
	}
	m, v := stat.MeanVariance(logs, nil)
	excess := v - stat.Mean(halves, nil)
	if excess <= 0 {
		return prior{math.Exp(m), math.Inf(1)}
	}
	freedom := 2 * inverseTrigamma(excess)
	return prior{math.Exp(m + mathext.Digamma(freedom/2) - math.Log(freedom/2)), freedom}
}

func trigamma(x float64) float64 { return mathext.Zeta(2, x) }

// inverseTrigamma solves trigamma(x) = y by Newton's method (Smyth 2004, appendix).
func inverseTrigamma(y float64) float64 {
	switch {
	case y > 1e7:
		return 1 / math.Sqrt(y)
	case y < 1e-6:
		return 1 / y
	}
	x := 0.5 + 1/y
	for range 50 {
		tri := trigamma(x)
		step := tri * (1 - tri/y) / (-2 * mathext.Zeta(3, x))
		x += step
		if -step/x < 1e-8 {
			break
		}
	}
	return x
}

// moderate draws a variance towards the usual one.
func (p prior) moderate(ss, df float64) (variance, freedom float64) {
	switch {
	case p.freedom == 0:
		if df < 2 {
			return 0, 0
		}
		return ss / df, df
	case math.IsInf(p.freedom, 1):
		return p.variance, p.freedom
	}
	return (p.freedom*p.variance + ss) / (p.freedom + df), p.freedom + df
}

// SmallestShift returns the relative change of a metric that two nights would show with a probability of 95 %, among
// so many metrics, from the values of its nights; not ok: there are too few.
func SmallestShift(s Series, metrics int) (relative float64, ok bool) {
	t := &track{values: s}
	for night, v := range s {
		if !math.IsNaN(v) {
			t.base = append(t.base, night)
		}
	}
	if len(t.base) < fewestNights {
		return 0, false
	}
	ss, df := t.residual(t.base)
	const nights = 2
	chance := alarms[1].chance / float64(max(metrics, 1))
	limit := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(1 - chance/2)
	const power = 1.645 // 95 %
	return (limit + power) * math.Sqrt(ss/df*(1.0/nights+1/float64(len(t.base)))), true
}
