package prefetch

import (
	"testing"
	"unsafe"
)

func TestAskingForAnyAddressDoesNoHarm(t *testing.T) {
	var l List
	l.Fetch() // of nothing
	var here [3 * Line]byte
	for i := range 3 * capacity { // more than a list holds
		l.Add(nil)
		l.AddTwo(unsafe.Pointer(&here[i%len(here)]))
	}
	l.Fetch()
	if l.n != 0 {
		t.Errorf("%d lines are left", l.n)
	}
	if here != [3 * Line]byte{} {
		t.Error("memory has changed")
	}
}

// BenchmarkFetch asks for as many lines as a list holds, which are in the cache.
func BenchmarkFetch(b *testing.B) {
	var l List
	var here [capacity * Line]byte
	for b.Loop() {
		for i := range capacity {
			l.Add(unsafe.Pointer(&here[i*Line]))
		}
		l.Fetch()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/capacity, "ns/line")
}
