package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// collectAt makes garbage collection rare: runs keep little, and the heap stays at tens of megabytes.
const collectAt = 400

// An analysis may use 64 MB: it collects more often, and as usual once the heap is larger than smallHeap.
const (
	collectSmallAt = 200
	smallHeap      = 8 << 20 // bytes
)

// collectRarely makes garbage collection rare while the heap is small, until the returned function is called.
func collectRarely() (restore func()) {
	usual := debug.SetGCPercent(collectSmallAt)
	reset := sync.OnceFunc(func() { debug.SetGCPercent(usual) })
	var ended atomic.Bool
	afterCollection(func() (repeat bool) {
		if ended.Load() {
			return false
		}
		if heldBytes() <= smallHeap {
			return true
		}
		reset()
		return false
	})
	return func() {
		ended.Store(true)
		reset()
	}
}

// afterCollection calls fn after the next garbage collection, and after each one that follows as long as it returns
// true.
func afterCollection(fn func() (repeat bool)) {
	type garbage struct{ _ [64]byte }
	runtime.AddCleanup(new(garbage), func(struct{}) {
		if fn() {
			afterCollection(fn)
		}
	}, struct{}{})
}

// heldBytes returns the size of the live heap after the latest garbage collection.
func heldBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
