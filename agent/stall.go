package agent

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// sentinel measures how long the machine keeps a thread waiting for a CPU, with one thread on each: the kernel's
// threads that carry frames wait as long.
type sentinel struct {
	active  atomic.Bool  // only then does it count
	longest atomic.Int64 // ns
	stop    chan struct{}
	threads sync.WaitGroup
}

// sentinelEvery is how often the thread wants the CPU.
const sentinelEvery = 500 * time.Microsecond

func newSentinel() *sentinel {
	s := &sentinel{stop: make(chan struct{})}
	for cpu := range min(runtime.NumCPU(), maxSentinels) {
		s.threads.Go(func() { s.watch(cpu) })
	}
	return s
}

// maxSentinels bounds the threads on large machines, where CPUs are not what is short.
const maxSentinels = 8

func (s *sentinel) watch(cpu int) {
	runtime.LockOSThread() // never unlocked: the thread, which stays on its CPU, ends with the goroutine
	pinTo(cpu)
	for {
		asleep := time.Now()
		nap(sentinelEvery)
		late := time.Since(asleep) - sentinelEvery
		s.note(late)
		select {
		case <-s.stop:
			return
		default:
		}
	}
}

func (s *sentinel) close() {
	close(s.stop)
	s.threads.Wait()
}

func (s *sentinel) note(late time.Duration) {
	for s.active.Load() {
		longest := s.longest.Load()
		if late.Nanoseconds() <= longest || s.longest.CompareAndSwap(longest, late.Nanoseconds()) {
			return
		}
	}
}
