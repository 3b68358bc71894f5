package analyzers_test

import (
	"math/rand/v2"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/runtimetest"
)

// TestQuantilesAreThoseOfOneHdrHistogram: however the counts are kept, quantiles are those of an HdrHistogram with
// three digits, into which every value went.
func TestQuantilesAreThoseOfOneHdrHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, count := range []int{1001, 1<<16 - 1, 1 << 16, 1<<16 + 1} {
		d := analyzers.NewDistribution("test.values", analyzers.UnitNS, 0)
		all := hdrhistogram.New(1, 1<<47, 3)
		for range count {
			v := rng.Int64N(1 << (1 + rng.Uint64N(46)))
			d.Record(v)
			if err := all.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		least, most := d.Range()
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
			if got, want := d.Quantile(q), min(max(all.ValueAtQuantile(100*q), least), most); got != want {
				t.Errorf("%d values, quantile %v: %d, want %d", count, q, got, want)
			}
		}
	}
}

// TestDistributionsTakeMemoryByTheirValues holds those of 160 workload items with 6000 flows each.
func TestDistributionsTakeMemoryByTheirValues(t *testing.T) {
	const distributions, values = 40, 6000
	rng := rand.New(rand.NewPCG(1, 2))
	before := runtimetest.Heap()
	list := make([]*analyzers.Distribution, distributions)
	for i := range list {
		list[i] = analyzers.NewDistribution("test.values", analyzers.UnitNS, 0)
		for range values {
			list[i].Record(10_000 + int64(rng.ExpFloat64()*100_000))
		}
	}
	if each := (runtimetest.Heap() - before) / distributions; each > 48<<10 {
		t.Errorf("%d bytes each, want at most 48 KiB; the array of a histogram has 304 KiB", each)
	}
	if list[0].Count() != values {
		t.Error("values were lost")
	}
}
