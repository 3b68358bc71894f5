package stack

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Ping is a series of echo requests to one host.
type Ping struct {
	ID       uint32
	To       fabric.HostID
	Count    int
	Interval clock.Duration
	Size     int32
	Start    clock.Time
	Mark     Mark
	Rank     wire.Ranking // of the requests; answers have rank 0. Unranked: none have ranks
}

// Echo sends and answers echo requests (ICMP) on one host.
type Echo struct {
	host    fabric.HostID
	pings   []pinging
	answers []fabric.Header
	now     clock.Time // of the latest call; requests due by then are polled, without a timer
	// done is called for each round trip.
	done func(now clock.Time, id uint32, rtt clock.Duration)
}

type pinging struct {
	Ping
	sent []clock.Time // by number from 0
}

// Answer is set in the numbers of answers.
const Answer = 1 << 31

// NewEcho returns the echo transport of a host. It calls done for each round trip.
func NewEcho(host fabric.HostID, done func(now clock.Time, id uint32, rtt clock.Duration)) *Echo {
	return &Echo{host: host, done: done, now: -1}
}

// Ping adds a series of requests.
func (e *Echo) Ping(p Ping) { e.pings = append(e.pings, pinging{Ping: p}) }

func (p *pinging) next() clock.Time {
	if len(p.sent) == p.Count {
		return clock.Never
	}
	return p.Start.Add(clock.Duration(len(p.sent)) * p.Interval)
}

// Receive implements fabric.Stack. It ignores trimmed and returned packets.
func (e *Echo) Receive(now clock.Time, p *fabric.Packet) {
	if p.Flags&(fabric.Trimmed|fabric.Returned) != 0 {
		return
	}
	if p.Number&Answer == 0 {
		e.answers = append(e.answers, p.Header)
		return
	}
	for i := range e.pings {
		n := p.Number &^ Answer
		if q := &e.pings[i]; q.ID == p.Flow && n < uint32(len(q.sent)) {
			e.done(now, q.ID, now.Sub(q.sent[n]))
		}
	}
}

// Poll implements fabric.Stack. Answers go first.
func (e *Echo) Poll(now clock.Time, p *fabric.Packet) bool {
	e.now = now
	if len(e.answers) > 0 {
		h := &e.answers[0]
		p.Dst, p.Size, p.Protocol, p.Flow, p.Number = h.Src, h.Size, fabric.Echo, h.Flow, h.Number|Answer
		p.DSCP, p.Class, p.IPv6, p.Entropy = h.DSCP, h.Class, h.IPv6, h.Entropy
		if h.Flags&fabric.Ranked != 0 {
			p.SetRank(0)
		}
		e.answers = append(e.answers[:0], e.answers[1:]...)
		return true
	}
	for i := range e.pings {
		q := &e.pings[i]
		if q.next() > now {
			continue
		}
		p.Dst, p.Size, p.Protocol, p.Flow, p.Number = q.To, q.Size, fabric.Echo, q.ID, uint32(len(q.sent))
		q.Mark.Set(p)
		if q.Rank.Kind != wire.Unranked {
			p.SetRank(q.Rank.Value)
		}
		q.sent = append(q.sent, now)
		return true
	}
	return false
}

// NextTimer implements fabric.Stack.
func (e *Echo) NextTimer() clock.Time {
	at := clock.Never
	for i := range e.pings {
		if next := e.pings[i].next(); next > e.now {
			at = min(at, next)
		}
	}
	return at
}

// HandleTimer implements fabric.Stack. Poll sends the requests that are due.
func (e *Echo) HandleTimer(now clock.Time) { e.now = now }
