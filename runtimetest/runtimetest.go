// Package runtimetest measures allocations, memory and goroutines in tests, excluding the runtime's own activity and
// the delays of a busy machine.
package runtimetest

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

const (
	tries    = 20
	patience = time.Minute
)

// FewestAllocs calls f once to warm up, then up to 20 times more, and returns the smallest number of heap allocations
// of one call. It stops at the first call with at most enough of them.
//
// The runtime sometimes allocates for itself, for example for a new thread (up to 40 objects were observed). This adds
// to some calls, f's own allocations to all. testing.AllocsPerRun averages over all calls.
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

// Heap returns the bytes in use on the heap after a garbage collection.
func Heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one only moves a sync.Pool's objects to its second generation
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// GoroutinesEnd fails the test if more than before goroutines are running after a minute. On a busy machine a finished
// goroutine may take long to end.
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

// Sampled reports whether to run the i-th case of a long table: every case, or every eighth under the race detector,
// where each takes ten to twenty times as long. All cases use the same goroutines, so that a sample is enough.
func Sampled(i int) bool { return !Race || i%8 == 0 }

// SkipRace skips a slow single-goroutine test under the race detector, which can't find races in it.
func SkipRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine, and long under the race detector")
	}
}

// Reproduced returns the third of the experiments that is measured if CANDELA_TEST_REPRODUCE is sample, drawn by SEED;
// nil: all. Full reproductions take longer than continuous integration has.
func Reproduced(all []string) []string {
	if os.Getenv("CANDELA_TEST_REPRODUCE") != "sample" {
		return nil
	}
	const part = 3
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 32) // none: 0
	var chosen []string
	for i := int(seed % part); i < len(all); i += part {
		chosen = append(chosen, all[i])
	}
	return chosen
}
