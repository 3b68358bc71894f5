// Package runtimetest measures allocations, memory and goroutines for tests, so that what the Go runtime does for
// itself and what a busy machine delays cannot fail them.
package runtimetest

import (
	"math"
	"runtime"
	"testing"
	"time"
)

const (
	tries    = 20
	patience = time.Minute
)

// FewestAllocs calls f once to warm up, then up to 20 times more, and returns the smallest number of heap allocations
// of one call. It ends at the first call with at most enough of them.
//
// The runtime allocates for itself now and then, for example for a new thread: up to 40 objects at once were seen. That
// adds to some calls; what f allocates is in every call. testing.AllocsPerRun adds up all calls.
func FewestAllocs(enough uint64, f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f()
	fewest := uint64(math.MaxUint64)
	for range tries {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if fewest = min(fewest, after.Mallocs-before.Mallocs); fewest <= enough {
			break
		}
	}
	return fewest
}

// Heap is the number of bytes on the heap that are in use, after a collection of garbage.
func Heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one moves what is in a sync.Pool to its second generation
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// GoroutinesEnd fails the test if there are still more than before goroutines after a minute. One that has nothing left
// to do may need long to end on a busy machine.
func GoroutinesEnd(t testing.TB, before int) {
	t.Helper()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before,
				stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// Sampled reports whether the i-th case of a long table is run: every one, and under the race detector each eighth. All
// cases take the same ways through goroutines, and there each takes ten to twenty times as long.
func Sampled(i int) bool { return !Race || i%8 == 0 }

// SkipRace skips a test of one goroutine that is long under the race detector, which finds nothing in it.
func SkipRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine, and long under the race detector")
	}
}
