package workload_test

import (
	"math"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
)

// network is 8 hosts with 10 Gb/s, in racks of 4.
func network(seed uint64) workload.Scope {
	return workload.Scope{Hosts: 8, Seed: seed, Rack: 4, Access: 80e9, Fabric: 40e9}
}

func poisson(t *testing.T, settings ...string) parameter.Values {
	t.Helper()
	k := workload.Find("poisson")
	v, err := k.Parameters.Values(settings...)
	if err != nil {
		t.Fatal(err)
	}
	if _, problems := k.Check(v, 8); len(problems) > 0 {
		t.Fatal(problems)
	}
	return v
}

// The means of the published distributions are those of the specifications of the papers.
func TestMeansOfPublishedSizes(t *testing.T) {
	for _, c := range []struct {
		settings []string
		want     float64 // bytes
		within   float64
	}{
		{[]string{"sizes=web-search"}, 1.67e6, 0.005},
		{[]string{"sizes=web-search", "form=discrete"}, 987_600, 0.0001},
		{[]string{"sizes=data-mining"}, 7.47e6, 0.005},
		{[]string{"sizes=data-mining", "truncate=0.99"}, 2.14e6, 0.005},
		{[]string{"sizes=enterprise"}, 211e3, 0.02},
		{[]string{"sizes=enterprise", "truncate=0.9999"}, 175e3, 0.02},
		{[]string{"sizes=cache-follower"}, 0.91e6, 0.01},
		{[]string{"sizes=fixed", "size-bytes=6000"}, 6000, 0},
	} {
		v := poisson(t, append(c.settings, "load=0.5", "stop-us=1000")...)
		k := workload.Find("poisson")
		// of a load of half the capacity the number of flows shows the mean
		mean := 0.5 * 80e9 / 8 * 1e-3 / k.Expect(v, network(1))
		if math.Abs(mean/c.want-1) > c.within+1e-9 {
			t.Errorf("%v: the mean is %.6g bytes, want %.6g", c.settings, mean, c.want)
		}
	}
}

// Drawn sizes have the mean and the small flows of their distribution.
func TestDrawnSizesFollowTheDistribution(t *testing.T) {
	for _, c := range []struct {
		name      string
		small     float64 // share below 100 kB, by the specification
		tolerance float64
	}{{"data-mining", 0.824, 0.01}, {"enterprise", 0.957, 0.005}, {"cache-follower", 0.60, 0.02}} {
		v := poisson(t, "sizes="+c.name, "flows-per-s=20000000", "stop-us=1000")
		flows := workload.Find("poisson").Flows(v, network(3))
		small := 0
		for _, f := range flows {
			if f.Bytes < 100_000 {
				small++
			}
		}
		// four standard deviations of 20,000 draws are 0.014
		if got := float64(small) / float64(len(flows)); math.Abs(got-c.small) > c.tolerance+0.014 {
			t.Errorf("%s: %.3f of %d flows are below 100 kB, want %.3f", c.name, got, len(flows), c.small)
		}
	}
}

// Arrivals are Poisson: their number has mean and variance of its rate, gaps are exponential, and the load is offered.
func TestArrivalsArePoissonAtTheLoad(t *testing.T) {
	v := poisson(t, "sizes=fixed", "size-bytes=10000", "load=0.6", "stop-us=20000")
	k := workload.Find("poisson")
	const want = 0.6 * 80e9 / 8 / 10_000 * 20e-3 // 12,000 flows
	var all, squares, gaps, long float64
	const seeds = 20
	for seed := range uint64(seeds) {
		flows := k.Flows(v, network(seed))
		n := float64(len(flows))
		all, squares = all+n, squares+(n-want)*(n-want)
		before := clock.Duration(0)
		for _, f := range flows {
			if f.Start < before || f.Start >= 20*clock.Millisecond || f.Src == f.Dst || f.Bytes != 10_000 {
				t.Fatalf("%+v after %v", f, before)
			}
			gaps++
			if float64(f.Start-before) > float64(20*clock.Millisecond)/want {
				long++ // than the mean
			}
			before = f.Start
		}
	}
	if mean := all / seeds; math.Abs(mean-want) > 4*math.Sqrt(want/seeds) {
		t.Errorf("%.0f flows on average, want %.0f", mean, want)
	}
	if variance := squares / seeds; variance < want*0.3 || variance > want*2.5 { // chi-squared of 20, beyond 0.1 %
		t.Errorf("the variance of the number of flows is %.0f, want about %.0f", variance, want)
	}
	if share := long / gaps; math.Abs(share-math.Exp(-1)) > 0.01 {
		t.Errorf("%.3f of the gaps are longer than the mean, want 1/e", share)
	}
}

// Pairs are those that their name says.
func TestPairsOfPoissonFlows(t *testing.T) {
	k := workload.Find("poisson")
	for _, pairs := range []string{"uniform", "inter-rack", "permutation", "all-to-one"} {
		v := poisson(t, "pairs="+pairs, "flows-per-s=1000000", "stop-us=4000", "receiver=5")
		to, seen := map[int]map[int]int{}, map[int]int{}
		flows := k.Flows(v, network(2))
		for _, f := range flows {
			if to[f.Src] == nil {
				to[f.Src] = map[int]int{}
			}
			to[f.Src][f.Dst]++
			seen[f.Dst]++
			switch {
			case f.Src == f.Dst, pairs == "all-to-one" && f.Dst != 5, pairs == "inter-rack" && f.Src/4 == f.Dst/4:
				t.Fatalf("%s: host %d to host %d", pairs, f.Src, f.Dst)
			}
		}
		want := map[string]int{"uniform": 7, "inter-rack": 4, "permutation": 1, "all-to-one": 1}[pairs]
		for src := range 8 {
			if src == 5 && pairs == "all-to-one" {
				continue
			}
			if len(to[src]) != want {
				t.Errorf("%s: host %d sends to %v, want %d hosts", pairs, src, to[src], want)
			}
		}
		if pairs != "all-to-one" && len(seen) != 8 {
			t.Errorf("%s: %d hosts receive", pairs, len(seen))
		}
	}
}

// The same seed gives the same arrivals and pairs whatever the sizes; another seed gives others.
func TestStreamsOfAnItemAreApart(t *testing.T) {
	k := workload.Find("poisson")
	small := k.Flows(poisson(t, "sizes=fixed", "flows-per-s=1000000", "stop-us=500"), network(4))
	large := k.Flows(poisson(t, "sizes=data-mining", "flows-per-s=1000000", "stop-us=500"), network(4))
	other := k.Flows(poisson(t, "sizes=fixed", "flows-per-s=1000000", "stop-us=500"), network(5))
	if len(small) != len(large) || len(small) < 400 {
		t.Fatalf("%d and %d flows", len(small), len(large))
	}
	for i := range small {
		if a, b := small[i], large[i]; a.Start != b.Start || a.Src != b.Src || a.Dst != b.Dst {
			t.Fatalf("flow %d: %+v, and %+v", i, a, b)
		}
	}
	if small[0] == other[0] {
		t.Error("the seed draws nothing")
	}
}

// Wrong items are refused with what is allowed.
func TestWrongPoissonItemsAreRefused(t *testing.T) {
	k := workload.Find("poisson")
	for _, settings := range [][]string{
		{"stop-us=10"}, {"stop-us=10", "load=0.1", "flows-per-s=10"}, {"stop-us=10", "load=0.1", "sizes=points"},
		{"stop-us=10", "load=0.1", "truncate=0"}, {"stop-us=10", "load=0.1", "pairs=all-to-one", "receiver=8"},
	} {
		v, err := k.Parameters.Values(settings...)
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := k.Check(v, 8); len(problems) == 0 {
			t.Errorf("%v is accepted", settings)
		}
	}
	flat := workload.Scope{Hosts: 8, Rack: 8, Access: 80e9}
	for _, settings := range [][]string{{"stop-us=10", "load=0.1", "pairs=inter-rack"},
		{"stop-us=10", "load=0.1", "load-of=fabric"}} {
		v, _ := k.Parameters.Values(settings...)
		if len(k.CheckIn(v, flat)) == 0 {
			t.Errorf("%v is accepted at one switch", settings)
		}
	}
}

// One-way flows go from the first leaf switch to others, at a load of its links alone.
func TestOneWayFlowsLeaveTheFirstLeaf(t *testing.T) {
	k := workload.Find("poisson")
	v := poisson(t, "load=0.5", "load-of=fabric", "pairs=one-way", "stop-us=1000000", "sizes=fixed")
	if got := k.Expect(v, network(1)); math.Abs(got/(0.5*20e9/8/10_000)-1) > 1e-9 {
		t.Errorf("%g flows a second", got)
	}
	for _, f := range k.Flows(v, network(1))[:1000] {
		if f.Src >= 4 || f.Dst < 4 {
			t.Fatalf("from host %d to %d", f.Src, f.Dst)
		}
	}
	if problems := k.CheckIn(v, workload.Scope{Hosts: 8, Rack: 8, Fabric: 1}); len(problems) != 1 {
		t.Errorf("one switch: %v", problems)
	}
}
