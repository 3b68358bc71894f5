package agent

import (
	"runtime"
	"sync/atomic"
	"time"
)

// sentinel measures for how long the machine keeps a thread of this process waiting for a CPU.
type sentinel struct {
	active  atomic.Bool  // only then does it count
	longest atomic.Int64 // ns
	stop    chan struct{}
	ended   chan struct{}
}

// sentinelEvery is how often the thread wants the CPU.
const sentinelEvery = 500 * time.Microsecond

func newSentinel() *sentinel {
	s := &sentinel{stop: make(chan struct{}), ended: make(chan struct{})}
	go s.watch()
	return s
}

func (s *sentinel) watch() {
	defer close(s.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		asleep := time.Now()
		nap(sentinelEvery)
		late := time.Since(asleep) - sentinelEvery
		if s.active.Load() && late.Nanoseconds() > s.longest.Load() {
			s.longest.Store(late.Nanoseconds())
		}
		select {
		case <-s.stop:
			return
		default:
		}
	}
}

func (s *sentinel) close() {
	close(s.stop)
	<-s.ended
}
