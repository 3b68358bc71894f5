package stack

import (
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Jitter delays each packet of a transport by a random time on its way to the NIC, without reordering. It polls the
// transport at link rate, as a NIC would. Polling pauses while a packet has waited at the NIC for the maximum jitter.
type Jitter struct {
	inner fabric.Stack
	most  clock.Duration
	takes func(size int32) clock.Duration
	rand  *rand.Rand

	line []late
	free clock.Time // earliest time of the next poll
	idle bool       // the last poll returned nothing
}

// late is a packet that is delayed, with the time at which it reaches the NIC.
type late struct {
	at clock.Time
	fabric.Header
}

// NewJitter returns inner with a jitter of up to most; takes returns the serialisation time of a frame of a size.
func NewJitter(inner fabric.Stack, most clock.Duration, takes func(size int32) clock.Duration,
	random *rand.Rand) *Jitter {
	return &Jitter{inner: inner, most: most, takes: takes, rand: random}
}

// Receive implements fabric.Stack.
func (j *Jitter) Receive(now clock.Time, p *fabric.Packet) {
	j.inner.Receive(now, p)
	j.idle = false
}

// ask polls the transport, unless the first packet has waited at the NIC for the maximum jitter.
func (j *Jitter) ask(now clock.Time) {
	for !j.idle && j.free <= now && !j.ripe(now.Add(-j.most)) {
		var p fabric.Packet
		if !j.inner.Poll(now, &p) {
			j.idle = true
			return
		}
		at := now.Add(clock.Duration(j.rand.Int64N(int64(j.most) + 1)))
		if n := len(j.line); n > 0 {
			at = max(at, j.line[n-1].at)
		}
		j.line = append(j.line, late{at, p.Header})
		j.free = now.Add(j.takes(p.Size))
	}
}

// ripe reports whether the first packet has reached the NIC.
func (j *Jitter) ripe(now clock.Time) bool { return len(j.line) > 0 && j.line[0].at <= now }

// Poll implements fabric.Stack.
func (j *Jitter) Poll(now clock.Time, p *fabric.Packet) bool {
	j.ask(now)
	if !j.ripe(now) {
		return false
	}
	id, src := p.ID, p.Src
	p.Header = j.line[0].Header
	p.ID, p.Src = id, src
	j.line = append(j.line[:0], j.line[1:]...)
	j.ask(now)
	return true
}

// NextTimer implements fabric.Stack.
func (j *Jitter) NextTimer() clock.Time {
	at := j.inner.NextTimer()
	if len(j.line) > 0 {
		at = min(at, j.line[0].at)
	}
	if !j.idle {
		at = min(at, j.free)
	}
	return at
}

// HandleTimer implements fabric.Stack.
func (j *Jitter) HandleTimer(now clock.Time) {
	if j.inner.NextTimer() <= now {
		j.inner.HandleTimer(now)
		j.idle = false
	}
	j.ask(now)
}
