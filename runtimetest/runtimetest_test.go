package runtimetest_test

import (
	"runtime"
	"testing"

	"candela.dev/candela/runtimetest"
)

var sink []*[64]byte

func allocate(n int) {
	sink = sink[:0]
	for range n {
		sink = append(sink, new([64]byte))
	}
}

func TestWhatAFunctionAlwaysAllocatesIsCounted(t *testing.T) {
	allocate(10)
	if n := runtimetest.FewestAllocs(0, func() { allocate(3) }); n < 3 || n > 40 {
		t.Errorf("%d allocations, want 3, or a few more of the runtime", n)
	}
}

// TestAllocationsOfOthersAreNotCounted disturbs two of three calls.
func TestAllocationsOfOthersAreNotCounted(t *testing.T) {
	calls := 0
	f := func() {
		if calls++; calls%3 != 0 {
			allocate(36)
		}
	}
	if n := runtimetest.FewestAllocs(0, f); n != 0 {
		t.Errorf("%d allocations, want 0", n)
	}
	calls = 0
	if runtimetest.FewestAllocs(1000, f); calls != 2 {
		t.Errorf("%d calls, want 2: one to warm up, and one that is good enough", calls)
	}
}

func TestTheHeapHoldsWhatIsKept(t *testing.T) {
	const kept = 64 << 20
	before := runtimetest.Heap()
	b := make([]byte, kept)
	if grown := runtimetest.Heap() - before; grown < kept-1<<20 || grown > kept+1<<20 {
		t.Errorf("the heap grew by %d bytes, want about %d", grown, kept)
	}
	runtime.KeepAlive(b)
}

func TestAGoroutineThatEndsLateIsAwaited(t *testing.T) {
	before := runtime.NumGoroutine()
	end := make(chan struct{})
	go func() { <-end }()
	go close(end)
	runtimetest.GoroutinesEnd(t, before)
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
