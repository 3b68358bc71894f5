package lock

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
)

// Wire is the link that a port sends on, and since when it has been busy. Of a rate of 0 nothing is known.
type Wire struct {
	since, until clock.Time // the busy period that began last
	rate         clock.BitRate
	framing      int
}

// NewWire returns the idle link of a port.
func NewWire(p *lock.Port) Wire { return Wire{rate: p.Rate, framing: p.Framing, until: -1 << 62} }

// takes returns how long a packet of a size takes on the link.
func (w *Wire) takes(size int32) clock.Duration {
	if w.rate <= 0 {
		return 0
	}
	return w.rate.Serialise(int(size) + w.framing)
}

// Sends says that a packet of a size begins to leave and returns since when the link has been busy; unknown: there is
// no telling. Slack is how far times may be wrong.
func (w *Wire) Sends(at clock.Time, size int32, slack clock.Duration) clock.Time {
	if w.rate <= 0 {
		return unknown
	}
	if at > w.until.Add(slack) {
		w.since = at
	}
	w.until = max(w.until, at).Add(w.rate.Serialise(int(size) + w.framing))
	return w.since
}

// Relinks says that the port sends by another link from now on.
func (w *Wire) Relinks(now clock.Time, l *analyzers.Relink) {
	if w.rate <= 0 {
		return
	}
	w.rate, w.framing = l.Rate, l.Framing
	if l.Shorter <= 0 {
		return
	}
	if w.until < now { // it waits, although nothing leaves
		w.since = now
	}
	w.until = w.until.Add(l.Shorter)
}

// QuietSince returns until when what the port had to send has been sent: now, unless it is busy.
func (w *Wire) QuietSince(now clock.Time) clock.Time {
	switch {
	case w.rate <= 0:
		return unknown
	case w.until >= now:
		return w.since
	}
	return now
}
