package ndp

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// host is the receiving side of a host: the PULLs of all its connections.
type host struct {
	id    uint32
	sent  clock.Time // its latest packet
	pulls uint64
	last  clock.Time // its latest PULL
	turn  clock.Time // before which, less the burst, no PULL may leave

	deliveries fifo[*connection] // that came after the latest one it has answered
	learned    uint64            // deliveries that are in it no more

	owed      uint32     // PULLs that it certainly knows to owe
	deadline  clock.Time // of the next one; Never while it owes none
	pace      uint16     // of its latest PULLs, whether each followed at line rate
	answers   answers    // since its latest PULL
	largest   int64      // bytes of the largest packet to it
	storming  bool
	stormFrom clock.Time
	stormTurn uint64     // pulls at its end
	calm      clock.Time // time from which PULLs are judged again

	// Connections that are owed a PULL; the one that has waited longest comes first.
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

// storm reports whether the times of PULLs cannot be judged: answers to many headers occupy the NIC, PULLs queue after
// them and catch up afterwards, for at most as long as the storm.
func (a *Analyzer) storm(h *host, now clock.Time) bool {
	elapsed := now.Sub(h.last)
	busy := h.answers.busy
	if a.cfg.Occupies == nil { // a full packet takes a gap, so answers occupy the NIC in proportion
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

// pullLead is how many PULLs may leave before the answers to their packets. Both take the same path in order, so a
// host's answers show what it had received, however far away the tap is.
const pullLead = 4

// delivered notes the place of a delivery among all of the host.
func (h *host) delivered(c *connection) uint64 {
	h.deliveries.push(c)
	return h.learned + uint64(h.deliveries.len())
}

// learn records that the host has received everything up to a delivery.
func (h *host) learn(order uint64) {
	for h.learned < order {
		h.deliveries.pop().learned++
		h.learned++
	}
}

// pacedFast is a leaky bucket: PULLs leave a gap apart, earlier only to make up for a delay.
func (a *Analyzer) pacedFast(h *host, c *connection, t *trace.Tap) {
	if t.Time < h.turn.Add(-a.cfg.Burst) {
		a.blame(causePullFast(a.rx(c), h, a.cfg.PullGap), c, -1, t.Number,
			fmt.Sprintf("no PULL of host %d before %v", h.id, h.turn.Add(-a.cfg.Burst)),
			fmt.Sprintf("a PULL at %v, the one before at %v", t.Time, h.last))
		h.turn = t.Time
	}
	h.turn = max(h.turn, t.Time).Add(tolerance(a.cfg.PullGap))
}

// pacedSlowly is the reverse: while the host owes PULLs they leave a gap apart, late by at most a burst in all.
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

// overdue reports late PULLs. A host that has just kept the pace lacks credits instead: it lost them.
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

// forgotten reports the connections of h that lack PULLs, and stops waiting for these.
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

// inTurn checks that no connection waits while another is served repeatedly. It counts how often one is served, not how
// many are: a connection may have to wait until each of the others was served once.
func (a *Analyzer) inTurn(h *host, c *connection, t *trace.Tap) {
	oldest := c.served[0]
	copy(c.served[:], c.served[1:])
	c.served[len(c.served)-1] = h.pulls
	head := h.front
	if head == nil || head == c {
		return
	}
	// PULLs that wait for the NIC may have been scheduled before the wait began.
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

// settle records that the first upTo deliveries of c were PULLed for, or are no longer expected to be.
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

// finish removes a connection: all of the flow has passed towards the receiver, which sends no more PULLs.
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
