package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// A program that holds much memory collects its garbage as usual, and so does one whose analysis has ended.
func TestGarbageIsCollectedRarelyOnlyWhileLittleIsHeld(t *testing.T) {
	const usual = 90
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	percent := func() int {
		now := debug.SetGCPercent(usual)
		debug.SetGCPercent(now)
		return now
	}
	restore := collectRarely()
	if got := percent(); got != collectSmallAt {
		t.Errorf("%d percent, want %d", got, collectSmallAt)
	}
	held := make([]byte, 2*smallHeap)
	for wait := time.Now(); percent() != usual; runtime.GC() {
		if time.Since(wait) > time.Minute {
			t.Fatalf("%d bytes are held, %d percent", heldBytes(), percent())
		}
	}
	runtime.KeepAlive(held)
	restore = func(r func()) func() { r(); return collectRarely() }(restore)
	restore()
	if got := percent(); got != usual {
		t.Errorf("%d percent at the end, want %d", got, usual)
	}
}

// What collects rarely leaves the setting alone once it has ended, however much is held later.
func TestAnEndedAnalysisSetsNoPercentage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(90))
	collectRarely()()
	const later = 77
	debug.SetGCPercent(later)
	held := make([]byte, 2*smallHeap)
	for range 5 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // cleanups have a goroutine of their own
		if got := debug.SetGCPercent(later); got != later {
			t.Fatalf("%d percent, want %d", got, later)
		}
	}
	runtime.KeepAlive(held)
}
