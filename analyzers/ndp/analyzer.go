package ndp

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/fsm"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// Config is what the analyzer must know besides the packets.
type Config struct {
	// InitialWindow is how many packets a connection may send before a PULL; 0: unknown, sending without a PULL is not
	// judged.
	InitialWindow int
	// PullGap is the time between a host's PULLs: at least, and at most while it owes any; 0: pacing is not judged.
	PullGap clock.Duration
	RTO     clock.Duration // of the hosts; 0: they have none
	// RoundTrip bounds the time from a packet that passed towards a host to the host's reaction: both ways of its link and
	// the queue at its NIC. Default 50 us.
	RoundTrip clock.Duration
	// Answer bounds the time from a data packet to its ACK or NACK; default RoundTrip + 500 us, for thousands of headers
	// at once.
	Answer clock.Duration
	// Transit bounds how long a data packet may be inside the network; default 10 ms.
	Transit clock.Duration
	// Burst is how much early or late a PULL may leave because a frame delays it; default 8 PullGap.
	Burst clock.Duration
	// Occupies returns how long a frame of that many bytes occupies a host's link; nil: a full packet takes PullGap,
	// others in proportion.
	Occupies func(bytes int) clock.Duration
	// Paused says that flow control may pause hosts: then neither missing packets nor the time of an RTO are judged.
	Paused     bool
	Scoreboard Scoreboard
	// Number returns the number of the connection from one host to another; 0: none. Without it connections are numbered
	// in the order of their first packets.
	Number func(from, to, id uint32) int
	// Drained says that nothing was in flight when the observation ended: everything still owed is missing.
	Drained bool
}

func (c *Config) complete() {
	if c.RoundTrip == 0 {
		c.RoundTrip = 50 * clock.Microsecond
	}
	if c.Answer == 0 {
		c.Answer = c.RoundTrip + 500*clock.Microsecond
	}
	if c.Transit == 0 {
		c.Transit = 10 * clock.Millisecond
	}
	if c.Burst == 0 {
		c.Burst = 8 * c.PullGap
	}
}

// Analyzer judges the hosts and the network between the taps. Feed it every observation in order of time, then call
// Finish. Memory is bounded by what is in flight and the number of connections.
type Analyzer struct {
	cfg    Config
	report *analyzers.Reporter
	now    clock.Time

	connections map[connectionKey]*connection
	recent      [256]*connection // of connections, by a hash of the key: found faster
	hosts       map[uint32]*host
	transits    fifo[transit]
	pending     fifo[pendingAnswer]
	ripe        fifo[delivery] // deliveries that their receiver may not know of yet

	sender, receiver        coverage
	header, whole           *analyzers.Distribution // transit, ns
	headerToNack, nackToTwo *analyzers.Distribution
}

type connectionKey struct{ from, to, id uint32 }

// New returns an analyzer that has seen nothing.
func New(cfg Config) *Analyzer {
	cfg.complete()
	return &Analyzer{
		cfg: cfg, report: analyzers.NewReporter(Name, Rules()),
		connections: make(map[connectionKey]*connection), hosts: make(map[uint32]*host),
		sender: fsm.NewCoverage(senderMachine), receiver: fsm.NewCoverage(receiverMachine),
		header:       analyzers.NewDistribution("ndp.transit-header", analyzers.UnitNS, 0),
		whole:        analyzers.NewDistribution("ndp.transit-whole", analyzers.UnitNS, 0),
		headerToNack: analyzers.NewDistribution("ndp.header-to-nack", analyzers.UnitNS, 0),
		nackToTwo:    analyzers.NewDistribution("ndp.nack-to-retransmission", analyzers.UnitNS, 0),
	}
}

// Name returns "ndp".
func (a *Analyzer) Name() string { return Name }

// Observe takes the next packet, which is read during the call only.
func (a *Analyzer) Observe(t *trace.Tap) {
	a.advance(t.Time)
	switch {
	case t.NDP.Kind == ndp.Data && t.Point == trace.TapBefore && !t.Returned():
		a.sent(t)
	case t.NDP.Kind == ndp.Data && t.Point == trace.TapAfter:
		a.arrived(t)
	case t.NDP.Kind == ndp.Data || t.Returned():
		// Between the taps of another switch, or feedback that found no room.
	case t.Point == trace.TapBefore:
		a.answered(t)
	default:
		a.heard(t)
	}
}

// Pass moves time on: another connection's packet was seen, which the analyzer is not shown.
func (a *Analyzer) Pass(now clock.Time) { a.advance(now) }

// advance moves time on: what must have happened by now and has not is missing.
func (a *Analyzer) advance(now clock.Time) {
	a.now = now
	for a.transits.len() > 0 && a.transits.front().at.Add(a.cfg.Transit) < now {
		a.lost(a.transits.pop())
	}
	for a.pending.len() > 0 && a.pending.front().at.Add(a.cfg.Answer) < now {
		a.unanswered(a.pending.pop())
	}
	for a.ripe.len() > 0 && a.ripe.front().at.Add(a.cfg.RoundTrip) <= now {
		d := a.ripe.pop()
		a.ripen(d, d.at.Add(a.cfg.RoundTrip))
	}
}

// Outage says that a switch that was out of service lost a data packet, whole or trimmed: the loss is not the network's
// fault.
func (a *Analyzer) Outage(t *trace.Tap) {
	if t.NDP.Kind != ndp.Data {
		return
	}
	from, to := t.Src, t.Dst
	if t.Returned() {
		from, to = to, from
	}
	c := a.connections[connectionKey{from, to, t.NDP.Connection}]
	if c == nil {
		return
	}
	if f := c.flights.find(t.NDP.Counter); f != nil {
		f.outage = true
	}
}

// Drain is Config.Drained for callers that know it only at the end.
func (a *Analyzer) Drain() { a.cfg.Drained = true }

// Finish returns the results.
func (a *Analyzer) Finish() analyzers.Result {
	if a.cfg.Drained {
		for a.transits.len() > 0 {
			a.lost(a.transits.pop())
		}
		for a.pending.len() > 0 {
			a.unanswered(a.pending.pop())
		}
		for a.ripe.len() > 0 {
			d := a.ripe.pop()
			a.ripen(d, d.at.Add(a.cfg.RoundTrip))
		}
		a.pullsMissing()
	}
	r := analyzers.Result{Findings: a.report.Findings(), Coverage: make(map[string]int64)}
	a.sender.AddTo(r.Coverage)
	a.receiver.AddTo(r.Coverage)
	for _, d := range []*analyzers.Distribution{a.header, a.whole, a.headerToNack, a.nackToTwo} {
		if d.Count() > 0 {
			r.Metrics = append(r.Metrics, d.Metric())
		}
	}
	return r
}

// find returns the connection whose data goes from one host to another.
func (a *Analyzer) find(from, to, id uint32) *connection {
	key := connectionKey{from, to, id}
	recent := &a.recent[(from*31^to*17^id)%uint32(len(a.recent))]
	if c := *recent; c != nil && c.connectionKey == key {
		return c
	}
	c := a.connections[key]
	if c == nil {
		c = &connection{connectionKey: key, number: len(a.connections) + 1, host: a.hostOf(to), sender: a.hostOf(from)}
		if a.cfg.Number != nil {
			c.number = a.cfg.Number(from, to, id)
		}
		a.connections[key] = c
	}
	*recent = c
	return c
}

func (a *Analyzer) hostOf(id uint32) *host {
	h := a.hosts[id]
	if h == nil {
		h = &host{id: id, deadline: clock.Never}
		a.hosts[id] = h
	}
	return h
}

// blame reports a finding about packet seq of c; seq < 0: no particular packet.
func (a *Analyzer) blame(why cause.Cause, c *connection, seq int64, number uint64, expected, actual string) {
	if !a.report.Wants(why.Rule, c.number) {
		return
	}
	f := analyzers.Finding{
		Connection: c.number, TimeNS: a.now.Nanoseconds(), Expected: expected, Actual: actual,
		Message: c.describe() + ": " + actual,
	}
	if number > 0 {
		f.Packets = []uint64{number}
	}
	if seq >= 0 {
		f.PSN, f.PSNAbs = seq+1, uint32(seq)
	}
	a.report.Tell(why, f)
}
