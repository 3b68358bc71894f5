package prefetch

import (
	"testing"
	"unsafe"
)

func TestAskingForAnyAddressDoesNoHarm(t *testing.T) {
	var lines Lines
	lines.Fetch() // empty
	var here [3 * Line]byte
	for i := range here {
		lines = lines.And(nil).AndTwo(unsafe.Pointer(&here[i]))
	}
	if lines = append(lines, ^uintptr(0)); len(lines) != 3*len(here)+1 {
		t.Errorf("%d lines, want %d", len(lines), 3*len(here)+1)
	}
	lines.Fetch()
	if here != [3 * Line]byte{} {
		t.Error("memory has changed")
	}
}

func TestTheSecondCacheHasAPlausibleSize(t *testing.T) {
	if Cache < 64<<10 || Cache > 256<<20 {
		t.Errorf("%d bytes", Cache)
	}
	t.Logf("%d bytes", Cache)
}

// BenchmarkFetch fetches lines that are in the cache.
func BenchmarkFetch(b *testing.B) {
	const n = 100
	var lines Lines
	var here [n * Line]byte
	for b.Loop() {
		lines = lines[:0]
		for i := range n {
			lines = lines.And(unsafe.Pointer(&here[i*Line]))
		}
		lines.Fetch()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/line")
}
