package rank

import (
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// quota is what AIFO decides by.
type quota struct {
	waiting       cause.Counted
	below, filled int64
}

// window is the latest sampled ranks of a port, oldest first, and what the ingress knows of the queue.
type window struct {
	set     *Admission
	ranks   []uint64
	arrived int
	lengths []length
}

// length is that of a queue after a departure.
type length struct {
	at clock.Time
	n  int64
}

func newWindow(set *Admission) window { return window{set: set} }

// seen returns the length that the last departure at least a loop ago left behind.
func (w *window) seen(now clock.Time) (n int64) {
	for i := len(w.lengths) - 1; i >= 0; i-- {
		if now.Sub(w.lengths[i].at) >= w.set.Loop {
			w.lengths = w.lengths[i:]
			return w.lengths[0].n
		}
	}
	return 0
}

func (w *window) departed(now clock.Time, n int64) {
	if w.set.Stale {
		w.lengths = append(slices.Clip(w.lengths), length{now, n})
	}
}

// arrive counts the ranks below that of a packet while c packets wait, decides, and lets the packet enter the window if
// it is its turn.
func (w *window) arrive(rank uint64, c int64) (below, filled int64, admits bool) {
	turn := w.arrived%w.set.Sample == 0
	w.arrived++
	if turn && w.set.UpdateFirst {
		w.enter(rank)
	}
	for _, r := range w.ranks {
		if r < rank {
			below++
		}
	}
	filled = int64(len(w.ranks))
	if w.set.Stale {
		filled = int64(w.set.Window)
	}
	admits = w.set.admits(c, below, filled)
	if turn && !w.set.UpdateFirst {
		w.enter(rank)
	}
	return below, filled, admits
}

func (w *window) enter(rank uint64) {
	if w.ranks = append(w.ranks, rank); len(w.ranks) > w.set.Window {
		w.ranks = w.ranks[1:]
	}
}

// ppm is the denominator of HeadroomPPM.
const ppm = 1_000_000

// admits decides about a packet while c packets wait and below of the filled places of the window have smaller ranks,
// in exact arithmetic (§3.1).
func (a *Admission) admits(c, below, filled int64) bool {
	if a.Multiplier > 0 {
		left := a.Target - below*a.Multiplier
		return c < left || c == left && !a.Below
	}
	k := a.HeadroomPPM
	if c*ppm <= k*a.Target {
		return true
	}
	if filled == 0 {
		return c < a.Target || c == a.Target && !a.Below
	}
	share, free := below*a.Target*(ppm-k), (a.Target-c)*ppm*filled
	return share < free || share == free && !a.Below
}

// takes returns how much of C a packet takes.
func (a *Admission) takes(size int64) int64 {
	if a.Cell == 0 {
		return 1
	}
	cells := size / int64(a.Cell)
	if cells*int64(a.Cell) < size {
		cells++
	}
	return cells
}

// counted returns an amount of what C is given in.
func (a *Admission) counted(n int64) cause.Counted {
	if a.Cell == 0 {
		return cause.Counted{N: n, Noun: "packet"}
	}
	return cause.Counted{N: n, Noun: "cell"}
}

// gap compares what a port serves with what a PIFO would serve of the same arrivals: Δ of equation 4.1.
type gap struct {
	room            int64
	takes           func(size int64) int64 // of room
	held            int64
	sorted          []*arrival
	both, different int64
	ahead           int64 // served by one, open with the other
}

// gapState is what has become of a packet, here and with the PIFO.
type gapState struct{ here, there, first outcome }

type outcome uint8

const (
	open outcome = iota
	served
	dropped
)

func (g *gap) arrives(a *arrival) {
	if g.room == 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(g.sorted, a, byRank)
	g.sorted = slices.Insert(g.sorted, i, a)
	g.held += g.takes(a.size)
	for g.held > g.room {
		last := g.sorted[len(g.sorted)-1]
		g.sorted = g.sorted[:len(g.sorted)-1]
		g.held -= g.takes(last.size)
		last.gap.there = dropped
		g.settle(last)
	}
}

func byRank(a, b *arrival) int {
	return compareKeys(sortKey{rank: a.rank, order: a.key.order}, sortKey{rank: b.rank, order: b.key.order})
}

// dropped notes that the port drops a packet.
func (g *gap) dropped(a *arrival) {
	a.gap.here = dropped
	g.settle(a)
}

// served notes that the port sends a packet; the PIFO sends one, too.
func (g *gap) served(a *arrival) {
	if g.room == 0 {
		return
	}
	a.gap.here = served
	g.settle(a)
	if len(g.sorted) > 0 {
		first := g.sorted[0]
		g.sorted = slices.Delete(g.sorted, 0, 1)
		g.held -= g.takes(first.size)
		first.gap.there = served
		g.settle(first)
	}
}

// settle counts a packet after it has been served or dropped by one of both.
func (g *gap) settle(a *arrival) {
	s := a.gap
	switch {
	case g.room == 0 || s.here == dropped && s.there == dropped:
	case s.here == open || s.there == open:
		if s.here == served || s.there == served {
			g.ahead++
		}
		a.gap.first = max(s.here, s.there)
		return
	case s.here == served && s.there == served:
		g.both++
	default:
		g.different++
	}
	if a.gap.first == served && g.room > 0 {
		g.ahead--
	}
}

// share returns Δ in millionths; ok is false if nothing was served.
func (g *gap) share() (ppmOf int64, ok bool) {
	all := 2*g.both + g.different + g.ahead
	if all == 0 {
		return 0, false
	}
	return (g.different + g.ahead) * ppm / all, true
}
