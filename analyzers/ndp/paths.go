package ndp

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Scoreboard is how senders exclude paths. A period is Answers × Paths ACKs, NACKs and returned headers that reach a
// sender. In a period, a path is an outlier if at least half of Answers were heard of it, if at least SharePercent of
// what was heard is NACKs, returned headers and losses (which count as both), and if this share is more than
// FactorPercent of that of all other paths together. It is excluded for the Periods that follow; if all paths are, all
// are used. In every other case a sender takes all paths that are not excluded before it takes one again.
type Scoreboard struct {
	Paths                                         int // 0: there is no scoreboard
	Answers, SharePercent, FactorPercent, Periods int
}

// board is the scoreboard of one sender, recomputed from what passed towards it. It is exact at any point of that
// order, except for losses: those show only as retransmissions. If a loss may count in a period or not, the decision at
// its end is unknown.
type board struct {
	paths   []path
	answers int
	period  uint32
	began   clock.Time // when the latest period did
	unsure  bool       // a loss may count in this period or not
	scanned uint32     // transmissions at the latest search for unused paths
}

// path is what is known of one.
type path struct {
	heard, bad uint32
	must, may  uint32 // before these periods it certainly is excluded, or may be
	before     uint32 // must before the latest decision
	since      clock.Time
	cleared    clock.Time // when the latest exclusion that may have been ended
	from       uint32     // transmissions when it was used, or may have been excluded, for the last time
}

// scored counts what passed towards the sender about a path.
func (a *Analyzer) scored(c *connection, t *trace.Tap, bad bool) {
	b := c.board
	if b == nil || int(t.NDP.Path) >= len(b.paths) {
		return
	}
	p := &b.paths[t.NDP.Path]
	p.heard++
	if bad {
		p.bad++
	}
	if b.answers++; b.answers == a.cfg.Scoreboard.Answers*len(b.paths) {
		a.decide(c, t.Time)
	}
}

// decide ends a period.
func (a *Analyzer) decide(c *connection, now clock.Time) {
	b := c.board
	var all path
	for i := range b.paths {
		all.heard += b.paths[i].heard
		all.bad += b.paths[i].bad
	}
	b.period++
	until := b.period + uint32(a.cfg.Scoreboard.Periods)
	for i := range b.paths {
		p := &b.paths[i]
		p.before = p.must
		outlier := a.cfg.Scoreboard.outlier(p, &all)
		if outlier && !b.unsure {
			if p.must <= b.period {
				p.since = now
			}
			p.must = until
		}
		if outlier || b.unsure {
			p.may = until
		}
		if p.may >= b.period {
			p.from = c.transmissions
			p.cleared = now
		}
		p.heard, p.bad = 0, 0
	}
	b.answers, b.began, b.unsure = 0, now, false
}

func (s *Scoreboard) outlier(p, all *path) bool {
	if 2*int(p.heard) < s.Answers || all.heard == p.heard || 100*uint64(p.bad) < uint64(s.SharePercent)*uint64(p.heard) {
		return false
	}
	share := uint64(p.bad) * uint64(all.heard-p.heard)
	others := uint64(all.bad-p.bad) * uint64(p.heard)
	return 100*share > uint64(s.FactorPercent)*others
}

// loss is whether a retransmission shows that the transmission before was lost, so far as its sender knew.
type loss uint8

const (
	noLoss loss = iota
	maybeLost
	surelyLost
)

// lossOf returns what a retransmission of p shows: only an RTO causes one while nothing has passed that answers p. An
// answer that passed may have come after the RTO.
func (a *Analyzer) lossOf(p *packet) loss {
	switch {
	case a.cfg.RTO == 0:
		return noLoss
	case p.tx == txSent && !p.crossed:
		return surelyLost
	case p.tx == txSent || p.tx == txAcked || p.expired || p.crossed:
		return maybeLost
	}
	return noLoss
}

// countLoss counts a loss on the path of p, whose retransmission was seen now. The sender counted it when it chose the
// packet, which may have been in the period before.
func (a *Analyzer) countLoss(c *connection, p *packet, l loss, now clock.Time) {
	b := c.board
	if l == noLoss || int(p.path) >= len(b.paths) {
		return
	}
	recent := b.period > 0 && b.began.Add(a.cfg.RoundTrip) >= now
	if l == surelyLost && !recent {
		b.paths[p.path].heard++
		b.paths[p.path].bad++
		return
	}
	b.unsure = true
	if !recent {
		return
	}
	for i := range b.paths {
		p := &b.paths[i]
		p.must = min(p.must, p.before)
		p.may = max(p.may, b.period+uint32(a.cfg.Scoreboard.Periods))
		p.from = c.transmissions
	}
}

// took judges the path of a transmission.
func (a *Analyzer) took(c *connection, t *trace.Tap) {
	b := c.board
	if b == nil || int(t.NDP.Path) >= len(b.paths) {
		return
	}
	p := &b.paths[t.NDP.Path]
	p.from = c.transmissions + 1
	if p.must > b.period && p.since.Add(a.cfg.RoundTrip) < t.Time && b.another(t.Time, a.cfg.RoundTrip) {
		a.blame(causePathExcluded(a.tx(c), t.NDP.Seq, t.NDP.Path, p.since), c, int64(t.NDP.Seq), t.Number,
			fmt.Sprintf("no data on path %d, excluded since %v", t.NDP.Path, p.since),
			fmt.Sprintf("data %d takes path %d", t.NDP.Seq, t.NDP.Path))
	}
	a.unused(c, t)
}

// another reports whether a path certainly was not excluded when the packet was chosen that is seen now.
func (b *board) another(now clock.Time, roundTrip clock.Duration) bool {
	for i := range b.paths {
		if b.paths[i].free(b.period, now, roundTrip) {
			return true
		}
	}
	return false
}

func (p *path) free(period uint32, now clock.Time, roundTrip clock.Duration) bool {
	return p.may <= period && (p.may == 0 || p.cleared.Add(roundTrip) < now)
}

// unused reports paths that are not excluded and get no packets. A sender that deals out all of its paths uses each
// within two rounds; a third is the time between two searches.
func (a *Analyzer) unused(c *connection, t *trace.Tap) {
	const rounds = 3
	b, sent := c.board, c.transmissions+1
	if sent-b.scanned < uint32(len(b.paths)) {
		return
	}
	b.scanned = sent
	for i := range b.paths {
		p := &b.paths[i]
		if !p.free(b.period, t.Time, a.cfg.RoundTrip) {
			p.from = sent
		}
		if missed := sent - p.from; missed >= rounds*uint32(len(b.paths)) {
			p.from = sent
			a.blame(causePathUnused(a.tx(c), uint32(i), missed, len(b.paths)), c, int64(t.NDP.Seq), t.Number,
				fmt.Sprintf("a packet on path %d within %d", i, rounds*len(b.paths)),
				fmt.Sprintf("none of %d packets took it", missed))
		}
	}
}
