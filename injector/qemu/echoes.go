package qemu

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/link/echo"
)

const (
	// echoPeriod separates requests while RoCE packets pass, idlePeriod otherwise.
	echoPeriod = 10 * clock.Millisecond
	idlePeriod = clock.Second
	// linger is how long after a RoCE packet requests stay frequent.
	linger = 2 * clock.Second
	// manyAsked is how many requests may be unanswered before they become rare: they wait in a host's buffers.
	manyAsked = 64
	// maxAsked is how many unanswered requests are kept. Some are never answered because no host was attached.
	maxAsked = 1024
)

// asked is a request without an answer.
type asked struct {
	number uint64
	at     clock.Time
	// from is when the first RoCE packet passed at or after the previous request: an answer bounds how long packets since
	// were held.
	from clock.Time
}

// echoes is what one port knows of its host by echoes. It performs no I/O.
type echoes struct {
	holds Holds
	sent  uint64
	last  clock.Time // of the latest request
	open  []asked    // oldest first
	from  clock.Time // when the first RoCE packet passed since the latest request; 0: none did
}

// next returns when the next request is due.
func (e *echoes) next(lastRoCE clock.Time) clock.Time {
	switch {
	case e.sent == 0:
		return 0
	case len(e.open) >= manyAsked:
	case e.from != 0 || lastRoCE != 0 && e.last.Sub(lastRoCE) < linger:
		return e.last.Add(echoPeriod)
	}
	return e.last.Add(idlePeriod)
}

// request returns the request to send now.
func (e *echoes) request(now clock.Time) []byte {
	e.sent++
	a := asked{number: e.sent, at: now, from: now}
	if e.from != 0 {
		a.from = e.from
	}
	if len(e.open) == maxAsked {
		e.open = e.open[1:]
	}
	e.open, e.last, e.from = append(e.open, a), now, 0
	return echo.Request(e.sent)
}

// unsent forgets the latest request, which never left.
func (e *echoes) unsent() {
	latest := e.open[len(e.open)-1]
	e.open = e.open[:len(e.open)-1]
	if latest.from != latest.at {
		e.from = latest.from
	}
}

// traffic notes a RoCE packet.
func (e *echoes) traffic(now clock.Time) {
	if e.from == 0 {
		e.from = now
	}
}

// answered handles an answer. Earlier unanswered requests found no host.
func (e *echoes) answered(now clock.Time, number uint64) {
	for len(e.open) > 0 && e.open[0].number <= number {
		if e.open[0].number == number {
			e.holds.add(now.Sub(e.open[0].from).Std())
		}
		e.open = e.open[1:]
	}
}

// holdsAt returns the holds, with those that are not over.
func (e *echoes) holdsAt(now clock.Time) Holds {
	h := e.holds
	if len(e.open) > 0 {
		h.Waiting = now.Sub(e.open[0].from).Std()
	}
	return h
}
