package rank

import (
	"math"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// Theorem 3 is about AIFO on stationary traffic: what it serves of each rank, and where its queue settles. It holds in
// the mean, so a port is accused only if stretches of its traffic contradict it more often than those of a correct one
// would. A correct port is within the tolerance in at least half of the stretches, which are so long that they hardly
// depend on each other; then k contradictions of n are at most as likely as k heads of n throws of a coin.
const (
	// falseAlarm bounds that probability for a run, whatever the number of ports and ranks.
	falseAlarm = 1e-6
	// leastStretches are fewer than can ever prove anything.
	leastStretches = 26
	mostStretches  = 64
	mostRanks      = 64 // a port with more has no stationary shares that could be compared
	// queuesPerStretch is the length of a stretch: so many times what fills the queue, or the window.
	queuesPerStretch = 10
	// leastSlope is over how many packets the threshold must fall: over fewer, single packets swing it.
	leastSlope = 90
)

// The choices of the specification, section 6.
const (
	tolerance  = 0.05
	leastOfAll = 100 // C and n
)

// theory gathers what a port of AIFO did, in stretches.
type theory struct {
	set     *Admission
	why     string   // not judged
	ranks   []uint64 // ascending
	size    int64
	first   bool // the first stretch, while queue and window fill, is over
	length  int64
	now     stretch
	all     []stretch
	block   []int64 // arrivals by rank since the latest block of as many as the window has
	squares []float64
	blocks  int64
	since   clock.Time // of the block
	spans   [2]float64 // of blocks: sum, and of squares
}

type stretch struct {
	came, took              []int64 // by rank
	arrivals, left, waiting int64
}

// newTheory returns nil if the theorem says nothing about these settings.
func newTheory(set *Admission) *theory {
	if set.Target < leastOfAll || set.Window < leastOfAll || set.Sample != 1 || set.Stale || set.Cell > 0 ||
		int64(set.Room) < set.Target ||
		set.Target*(ppm-set.HeadroomPPM) < leastSlope*ppm {
		return nil
	}
	return &theory{set: set, length: queuesPerStretch * max(set.Target, int64(set.Window))}
}

// arrives takes a packet that comes while c wait.
func (t *theory) arrives(a *arrival, c int64, rank uint64) {
	if t == nil || t.why != "" {
		return
	}
	if t.size == 0 {
		t.size, t.since = a.size, a.at
	}
	if a.size != t.size {
		t.why = "packets differ in size"
		return
	}
	i, known := slices.BinarySearch(t.ranks, rank)
	if !known {
		if len(t.ranks) == mostRanks {
			t.why = "there are too many ranks"
			return
		}
		t.add(i, rank)
	}
	s := &t.now
	s.came[i]++
	if a.fate == admitted {
		s.took[i]++
	}
	s.waiting += c
	s.arrivals++
	t.block[i]++
	if s.arrivals%int64(t.set.Window) == 0 {
		t.endBlock(a.at)
	}
	if s.arrivals == t.length {
		t.endStretch()
	}
}

// add makes room for a rank that was not seen before.
func (t *theory) add(i int, rank uint64) {
	t.ranks = slices.Insert(t.ranks, i, rank)
	t.block = slices.Insert(t.block, i, 0)
	square := 0.0 // of shares up to a rank: before, they were those of the rank below
	if i > 0 {
		square = t.squares[i-1]
	}
	t.squares = slices.Insert(t.squares, i, square)
	for j := range t.all {
		t.all[j].came, t.all[j].took = slices.Insert(t.all[j].came, i, 0), slices.Insert(t.all[j].took, i, 0)
	}
	t.now.came, t.now.took = slices.Insert(t.now.came, i, 0), slices.Insert(t.now.took, i, 0)
}

func (t *theory) endBlock(now clock.Time) {
	span := float64(now.Sub(t.since))
	if t.since = now; t.first {
		t.blocks++
		t.spans[0] += span
		t.spans[1] += span * span
		sum := 0.0
		for i, n := range t.block {
			sum += float64(n)
			t.squares[i] += sum * sum
		}
	}
	clear(t.block)
}

func (t *theory) endStretch() {
	s := t.now
	t.now = stretch{came: make([]int64, len(t.ranks)), took: make([]int64, len(t.ranks))}
	if !t.first {
		t.first = true
		return
	}
	if t.all = append(t.all, s); len(t.all) < mostStretches {
		return
	}
	for i := range mostStretches / 2 {
		t.all[i] = t.all[2*i]
		t.all[i].join(&t.all[2*i+1])
	}
	t.all = t.all[:mostStretches/2]
	t.length *= 2
}

func (s *stretch) join(other *stretch) {
	for i := range s.came {
		s.came[i] += other.came[i]
		s.took[i] += other.took[i]
	}
	s.arrivals, s.left, s.waiting = s.arrivals+other.arrivals, s.left+other.left, s.waiting+other.waiting
}

func (t *theory) departs() {
	if t != nil {
		t.now.left++
	}
}

// expectation is what theorem 3 says of the traffic of a port.
type expectation struct {
	upTo      []float64 // share of arrivals with at most a rank
	low, high int       // n*, which lies between them
	least     float64   // of the mean queue, in packets
	most      float64
}

// expects returns what the theorem says; why says why it says nothing.
func (t *theory) expects() (e expectation, why string) {
	if t.why != "" {
		return e, t.why
	}
	if len(t.all) < leastStretches {
		return e, "there are too few packets"
	}
	total := stretch{came: make([]int64, len(t.ranks)), took: make([]int64, len(t.ranks))}
	for i := range t.all {
		total.join(&t.all[i])
	}
	served := float64(total.left) / float64(total.arrivals)
	if served > 1/1.1 {
		return e, "the load is below 1.1"
	}
	sum := int64(0)
	e.low, e.high = -1, -1
	for i, n := range total.came {
		sum += n
		e.upTo = append(e.upTo, float64(sum)/float64(total.arrivals))
		if e.low < 0 && e.upTo[i] >= 0.97*served {
			e.low = i
		}
		if e.high < 0 && e.upTo[i] >= 1.03*served {
			e.high = i
		}
	}
	if !t.stationary(&e, served) {
		return e, "its traffic is not stationary"
	}
	free := float64(t.set.Target) * float64(ppm-t.set.HeadroomPPM) / ppm
	// The quantile that a window shows of a rank errs. If little or nearly all of rank n* is carried, it is mostly the
	// error that admits or refuses it, and the queue settles that much beside the interval: three deviations are allowed.
	errs := func(q float64) float64 { return 3 * free * math.Sqrt(q*(1-q)/float64(t.set.Window)) }
	g, h, slack := e.below(e.low), e.upTo[e.high], tolerance*float64(t.set.Target)
	e.least = float64(t.set.Target) - free*h - slack - errs(h)
	e.most = float64(t.set.Target) - free*g + slack + errs(g)
	return e, ""
}

func (e *expectation) below(i int) float64 {
	if i == 0 {
		return 0
	}
	return e.upTo[i-1]
}

// stationary reports whether shares and rates vary, over windows and over stretches, as those of independent packets.
func (t *theory) stationary(e *expectation, served float64) bool {
	blocks, window := float64(t.blocks), float64(t.set.Window)
	mean := t.spans[0] / blocks
	if t.spans[1]/blocks-mean*mean > 1.5*mean*mean/window {
		return false
	}
	length := float64(t.all[0].arrivals)
	vary := func(of func(s *stretch) float64, mean, variance float64) bool {
		sum := 0.0
		for i := range t.all {
			d := of(&t.all[i]) - mean
			sum += d * d
		}
		return sum/float64(len(t.all)-1) > 2*variance
	}
	if vary(func(s *stretch) float64 { return float64(s.left) / float64(s.arrivals) }, served, served*served/length) {
		return false
	}
	for i := max(e.low-1, 0); i <= min(e.high+1, len(t.ranks)-1); i++ {
		q := e.upTo[i]
		if v := t.squares[i]/blocks - q*q*window*window; v > 1.5*window*q*(1-q)+1 {
			return false
		}
		share := func(s *stretch) float64 {
			n := int64(0)
			for _, m := range s.came[:i+1] {
				n += m
			}
			return float64(n) / float64(s.arrivals)
		}
		if vary(share, q, q*(1-q)/length+1/(length*length)) {
			return false
		}
	}
	return true
}

// distinct reports whether a rank differs from another in quantile by more than the window errs: two deviations.
func (t *theory) distinct(a, b float64) bool {
	q := max(a*(1-a), b*(1-b))
	return math.Abs(a-b) >= 2*math.Sqrt(q/float64(t.set.Window))-1e-9
}

// against counts the stretches that contradict a statement, and returns the probability of so many if a correct port
// contradicts it half of the time.
func (t *theory) against(contradicts func(s *stretch) bool) (k int, p float64) {
	for i := range t.all {
		if contradicts(&t.all[i]) {
			k++
		}
	}
	n := len(t.all)
	for i := k; i <= n; i++ {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(i + 1))
		c, _ := math.Lgamma(float64(n - i + 1))
		p += math.Exp(a - b - c - float64(n)*math.Ln2)
	}
	return k, p
}

// theorem judges the ports by theorem 3.
func (j *Judge) theorem() {
	ports := 0
	for _, r := range j.replays {
		for _, l := range r.ports {
			if t := l.theory; t != nil && t.size > 0 {
				ports++
				l.theorem(falseAlarm * 6 / (math.Pi * math.Pi * float64(ports) * float64(ports)))
			}
		}
	}
}

// theorem judges a port; alpha bounds the probability that a correct one is accused.
func (l *line) theorem(alpha float64) {
	t := l.theory
	e, why := t.expects()
	if why != "" {
		l.find(causeNotJudged(l.r.who, l.port, why))
		return
	}
	l.r.judge.coverage["ports judged by theorem 3"]++
	alpha /= float64(len(t.ranks) + 2)
	mean := func(s *stretch) float64 { return float64(s.waiting) / float64(s.arrivals) }
	sum := 0.0
	for i := range t.all {
		sum += mean(&t.all[i]) / float64(len(t.all))
	}
	for _, f := range []func(s *stretch) bool{
		func(s *stretch) bool { return mean(s) < e.least }, func(s *stretch) bool { return mean(s) > e.most },
	} {
		if k, p := t.against(f); p < alpha {
			l.find(causeLevel(l.r.who, l.port, sum, e.least, e.most, k, len(t.all), p))
		}
	}
	for i, rank := range t.ranks {
		share := func(s *stretch) float64 { return float64(s.took[i]) / float64(max(s.came[i], 1)) }
		total := 0.0
		for k := range t.all {
			total += share(&t.all[k]) / float64(len(t.all))
		}
		switch {
		case i < e.low && t.distinct(e.below(i), e.below(e.low)):
			if k, p := t.against(func(s *stretch) bool { return share(s) < 1-tolerance }); p < alpha {
				l.find(causeRate(l.r.who, l.port, rank, total, "at least 95 %", k, len(t.all), p))
			}
		case i >= e.high+2 && t.distinct(e.below(i), e.upTo[e.high]):
			if k, p := t.against(func(s *stretch) bool { return share(s) > tolerance }); p < alpha {
				l.find(causeRate(l.r.who, l.port, rank, total, "at most 5 %", k, len(t.all), p))
			}
		}
	}
}

// find reports what is about a port as a whole.
func (l *line) find(c cause.Cause) {
	if l.r.judge.report.Wants(c.Rule, 0) {
		l.r.judge.report.Tell(c, analyzers.Finding{Message: "switch " + l.r.judge.view.SwitchName(l.r.number)})
	}
}
