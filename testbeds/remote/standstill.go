package remote

import (
	"context"
	"sync/atomic"
	"time"
)

// standstill measures how long this process stood still, since a deadline that passes meanwhile is not another
// component's fault.
type standstill struct{ ns atomic.Int64 }

const (
	standstillEvery = 100 * time.Millisecond
	// standstillLimit is the standstill from which this process can be the cause of a missed answer. It is less than the
	// shortest deadline, that of the switch's liveness check.
	standstillLimit = 2 * time.Second
)

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
	if d.Nanoseconds() > s.ns.Load() { // only one goroutine calls note
		s.ns.Store(d.Nanoseconds())
	}
}

func (s *standstill) longest() time.Duration { return time.Duration(s.ns.Load()) }
