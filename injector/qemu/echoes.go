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
	// manyAsked is how many requests may wait for an answer before they become rare: a host's buffers must hold them.
	manyAsked = 64
	// maxAsked is how many are remembered. Their answers may never come: nobody was there to take them.
	maxAsked = 1024
)

// asked is a request without an answer.
type asked struct {
	number uint64
	at     clock.Time
	// from is when the first RoCE packet passed after the request before, or at: an answer bounds what was held since.
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

// answered notes an answer. Requests before it whose answers never came found nobody.
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
