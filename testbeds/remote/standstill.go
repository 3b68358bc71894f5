package remote

import (
	"context"
	"sync/atomic"
	"time"
)

// standstill measures how long this process stood still: a deadline that passed meanwhile is nobody else's fault.
type standstill struct{ ns atomic.Int64 }

const (
	standstillEvery = 100 * time.Millisecond
	// standstillLimit is how long this process may stand still before it can be the cause of a missed answer: less than
	// the shortest deadline, that of the switch's sign of life.
	standstillLimit = 2 * time.Second
)

// watch measures until ctx ends.
func (s *standstill) watch(ctx context.Context) {
	tick := time.NewTicker(standstillEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		now := time.Now()
		s.note(now.Sub(last) - standstillEvery)
		if last = now; ctx.Err() != nil {
			return
		}
	}
}

func (s *standstill) note(d time.Duration) {
	if d.Nanoseconds() > s.ns.Load() { // one goroutine notes
		s.ns.Store(d.Nanoseconds())
	}
}

// longest is the longest standstill so far.
func (s *standstill) longest() time.Duration { return time.Duration(s.ns.Load()) }
