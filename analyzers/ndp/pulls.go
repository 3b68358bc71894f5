package ndp

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// host is the receiving side of one: its PULLs, of all connections together.
type host struct {
	id    uint32
	sent  clock.Time // its latest packet
	pulls uint64
	last  clock.Time // its latest PULL
	turn  clock.Time // before which, less the burst, no PULL may leave

	deliveries fifo[*connection] // that came after the latest one it has answered
	learned    uint64            // deliveries that are in it no more

	owed      uint32     // PULLs that it must know to owe
	deadline  clock.Time // of the next one; Never while it owes none
	pace      uint16     // of its latest PULLs, whether each followed at line rate
	answers   answers    // since its latest PULL
	largest   int64      // bytes of the largest packet to it
	storming  bool
	stormFrom clock.Time
	stormTurn uint64     // pulls at its end
	calm      clock.Time // from when on PULLs are judged again

	// Connections that are owed a PULL, the one that has waited longest first.
	front, back *connection
}

// answers is ACKs and NACKs that a host has sent.
type answers struct {
	bytes int64
	busy  clock.Duration // that they occupied the link, see Config.Occupies
}

func (a *Analyzer) answeredBy(h *host, size int32) {
	h.answers.bytes += int64(size)
	if a.cfg.Occupies != nil {
		h.answers.busy += a.cfg.Occupies(int(size))
	}
}

// pull takes a PULL that a receiver sends.
func (a *Analyzer) pull(c *connection, t *trace.Tap) {
	a.pullCounter(c, t)
	h := c.host
	if a.cfg.PullGap > 0 && !a.storm(h, t.Time) {
		a.pacedSlowly(h, c, t)
		a.pacedFast(h, c, t)
		a.inTurn(h, c, t)
	}
	h.answers = answers{}
	h.pulls++
	h.last = t.Time
	if c.counter < t.NDP.Counter {
		c.counter = t.NDP.Counter
		a.settle(c, c.counter+c.forgiven)
	}
}

// storm reports whether PULLs can't be judged by their times: answers to a storm of headers keep the NIC busy, PULLs
// queue up behind them and catch up afterwards, for no longer than the storm took.
func (a *Analyzer) storm(h *host, now clock.Time) bool {
	elapsed := now.Sub(h.last)
	busy := h.answers.busy
	if a.cfg.Occupies == nil { // a full packet takes a gap, so answers keep the NIC busy for their share of one
		busy = clock.Duration(int64(a.cfg.PullGap) * h.answers.bytes / int64(max(h.largest, 1)))
	}
	switch {
	case 2*busy >= elapsed:
		if !h.storming {
			h.storming, h.stormFrom = true, h.last
		}
		h.calm = now.Add(now.Sub(h.stormFrom))
	case now >= h.calm:
		h.storming = false
		return false
	}
	h.turn = now
	if h.deadline != clock.Never {
		h.deadline = now.Add(a.cfg.Burst + a.cfg.PullGap)
	}
	h.stormTurn = h.pulls
	return true
}

func (a *Analyzer) pullCounter(c *connection, t *trace.Tap) {
	counter := t.NDP.Counter
	if c.late {
		return
	}
	if counter <= c.counter {
		a.blame(causePullCounter(a.rx(c), counter, c.counter), c, -1, t.Number, fmt.Sprintf("PULL %d", c.counter+1),
			fmt.Sprintf("PULL %d", counter))
		return
	}
	if counter > c.delivered {
		a.blame(causePullBeyondArrivals(a.rx(c), counter, c.delivered), c, -1, t.Number,
			fmt.Sprintf("at most PULL %d, for as many packets that have arrived", c.delivered),
			fmt.Sprintf("PULL %d", counter))
		return
	}
	if counter > c.learned+pullLead {
		a.blame(causePullBeyondAnswers(a.rx(c), counter, c.learned), c, -1, t.Number,
			fmt.Sprintf("at most PULL %d: %d packets came no later than the last one that host %d has answered",
				c.learned+pullLead, c.learned, c.host.id), fmt.Sprintf("PULL %d", counter))
	}
}

// pullLead is how many PULLs may leave before the answers to the packets that they stand for. Both go the same way in
// order, so that what a host has answered tells what it had got, however far from it the tap is.
const pullLead = 4

// delivered notes the place of a delivery among all of the host.
func (h *host) delivered(c *connection) uint64 {
	h.deliveries.push(c)
	return h.learned + uint64(h.deliveries.len())
}

// learn notes that the host has got what came up to the place of a delivery.
func (h *host) learn(order uint64) {
	for h.learned < order {
		h.deliveries.pop().learned++
		h.learned++
	}
}

// pacedFast is a leaky bucket: PULLs leave a gap apart, early only as far as one before was held up.
func (a *Analyzer) pacedFast(h *host, c *connection, t *trace.Tap) {
	if t.Time < h.turn.Add(-a.cfg.Burst) {
		a.blame(causePullFast(a.rx(c), h, a.cfg.PullGap), c, -1, t.Number,
			fmt.Sprintf("no PULL of host %d before %v", h.id, h.turn.Add(-a.cfg.Burst)),
			fmt.Sprintf("a PULL at %v, the one before at %v", t.Time, h.last))
		h.turn = t.Time
	}
	h.turn = max(h.turn, t.Time).Add(tolerance(a.cfg.PullGap))
}

// pacedSlowly is its mirror image: while the host owes PULLs, they come a gap apart, late only by a burst altogether.
func (a *Analyzer) pacedSlowly(h *host, c *connection, t *trace.Tap) {
	gap := a.cfg.PullGap + a.cfg.PullGap/50
	h.pace <<= 1
	if t.Time.Sub(h.last) <= gap {
		h.pace |= 1
	}
	if h.deadline == clock.Never {
		return
	}
	if t.Time > h.deadline {
		a.overdue(h, c, t)
		h.deadline = t.Time.Add(a.cfg.Burst)
	}
	h.deadline = min(h.deadline, t.Time.Add(a.cfg.Burst)).Add(gap)
}

// overdue reports PULLs that come late. A host that has just shown that it can keep the pace lacks credits: it forgot
// them.
func (a *Analyzer) overdue(h *host, c *connection, t *trace.Tap) {
	if t.Time.Sub(h.last) <= a.cfg.Burst && !atPace(h.pace) {
		a.blame(causePullSlow(a.rx(c), h, a.cfg.PullGap), c, -1, t.Number,
			fmt.Sprintf("a PULL of host %d every %v: it owes %d", h.id, a.cfg.PullGap, h.owed),
			fmt.Sprintf("a PULL at %v, the one before at %v", t.Time, h.last))
		return
	}
	a.forgotten(h, t.Number)
}

// atPace reports whether at least a quarter of the latest sixteen PULLs followed at line rate.
func atPace(history uint16) bool {
	n := 0
	for ; history != 0; history &= history - 1 {
		n++
	}
	return n >= 4
}

// forgotten reports the connections of h that PULLs are missing for, and writes the PULLs off.
func (a *Analyzer) forgotten(h *host, number uint64) {
	for h.front != nil {
		c := h.front
		a.blame(causePullMissing(a.rx(c), c), c, -1, number,
			fmt.Sprintf("PULLs up to %d, for as many packets that have arrived", c.certain),
			fmt.Sprintf("none after PULL %d", c.counter))
		c.forgiven = c.certain - c.counter
		a.settle(c, c.certain)
	}
}

// inTurn checks that nobody waits while another is served again and again. How often one is, not how many are, tells:
// a connection may have to wait until each of the others has had its turn, however many they are.
func (a *Analyzer) inTurn(h *host, c *connection, t *trace.Tap) {
	oldest := c.served[0]
	copy(c.served[:], c.served[1:])
	c.served[len(c.served)-1] = h.pulls
	head := h.front
	if head == nil || head == c {
		return
	}
	// PULLs that wait for the NIC may have been decided before the wait began.
	began := max(head.turn, h.stormTurn) + uint64(a.cfg.RoundTrip/a.cfg.PullGap)
	if oldest > began {
		a.blame(causePullUnfair(a.rx(head), h.pulls-max(head.turn, h.stormTurn), c), head, -1, t.Number,
			fmt.Sprintf("a PULL for this connection before host %d serves another a fifth time", h.id),
			fmt.Sprintf("none among its last %d; PULL %d goes to %s, as four others since then",
				h.pulls-max(head.turn, h.stormTurn), t.NDP.Counter, c.describe()))
		head.turn = h.pulls
	}
}

// ripen takes a delivery that its receiver must know of by now.
func (a *Analyzer) ripen(d delivery, now clock.Time) {
	c, h := d.c, d.c.host
	c.certain++
	if c.complete || c.late || c.certain <= c.settled {
		return
	}
	h.owed++
	if h.owed == 1 {
		h.deadline = now.Add(a.cfg.Burst + a.cfg.PullGap)
	}
	if !c.waiting {
		c.waiting, c.turn = true, h.pulls
		h.append(c)
	}
}

// settle notes that the first upTo deliveries of c are PULLed for, or written off.
func (a *Analyzer) settle(c *connection, upTo uint32) {
	h := c.host
	if c.waiting {
		h.owed -= min(upTo, c.certain) - min(c.settled, c.certain)
	}
	c.settled = upTo
	if !c.waiting {
		return
	}
	h.remove(c)
	if c.certain > upTo {
		c.turn = h.pulls
		h.append(c)
	} else {
		c.waiting = false
	}
	if h.owed == 0 {
		h.deadline = clock.Never
	}
}

// finish takes a connection out of the account: all of the flow has passed towards the receiver, which pulls no more.
func (a *Analyzer) finish(c *connection) {
	c.complete = true
	if c.waiting {
		a.settle(c, max(c.certain, c.settled))
	}
}

// pullsMissing reports what is still owed when nothing more can happen.
func (a *Analyzer) pullsMissing() {
	ids := make([]uint32, 0, len(a.hosts))
	for id := range a.hosts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		a.forgotten(a.hosts[id], 0)
	}
}

func (h *host) append(c *connection) {
	c.before, c.behind = h.back, nil
	if h.back == nil {
		h.front = c
	} else {
		h.back.behind = c
	}
	h.back = c
}

func (h *host) remove(c *connection) {
	if c.before == nil {
		h.front = c.behind
	} else {
		c.before.behind = c.behind
	}
	if c.behind == nil {
		h.back = c.before
	} else {
		c.behind.before = c.before
	}
	c.before, c.behind = nil, nil
}
