package fabric_test

import (
	"runtime"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// TestALongRunNeedsNoMoreMemory fills a fat tree and runs it four times as long, over short and long links: allocation
// must depend on packets in flight, not on time.
func TestALongRunNeedsNoMoreMemory(t *testing.T) {
	for _, delay := range []clock.Duration{500 * clock.Nanosecond, 100 * clock.Microsecond} {
		t.Run(delay.String(), func(t *testing.T) {
			n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{
				Kind: fabric.FatTree, K: 4, Balance: fabric.SprayRandom,
				Link: fabric.LinkSpec{Rate: 10 * clock.Gbps, Delay: delay}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			flood(n, permutation(n.Hosts()))
			full := 20*delay + 100*clock.Microsecond
			allocated := func(until clock.Time) uint64 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if err := n.Run(until); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				return after.TotalAlloc - before.TotalAlloc
			}
			first := allocated(clock.Time(0).Add(full))
			hops := n.Hops()
			later := allocated(clock.Time(0).Add(5 * full))
			if later > first/2+1<<18 || n.Hops() < 4*hops {
				t.Errorf("%d bytes while it filled up (%d hops), %d more until hop %d", first, hops, later, n.Hops())
			}
		})
	}
}
