package workload_test

import (
	"math"
	"slices"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
)

func valuesOf(t *testing.T, kind string, settings ...string) parameter.Values {
	t.Helper()
	v, err := workload.Find(kind).Parameters.Values(settings...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A query asks different servers, never its own client, and all its flows start together. Every host asks and serves
// alike, and service times have mean and deviation of the item.
func TestQueriesAskDifferentServers(t *testing.T) {
	k := workload.Find("queries")
	v := valuesOf(t, "queries", "servers=3", "queries-per-s=2000000", "stop-us=5000", "service-us=20",
		"service-deviation-us=3")
	flows := k.Flows(v, network(7))
	if len(flows) < 25_000 || len(flows)%3 != 0 {
		t.Fatalf("%d flows", len(flows))
	}
	asks, serves := make([]float64, 8), make([]float64, 8)
	var sum, squares float64
	for i := 0; i < len(flows); i += 3 {
		seen := map[int]bool{flows[i].Src: true}
		for _, f := range flows[i : i+3] {
			if seen[f.Dst] || f.Src != flows[i].Src || f.Start != flows[i].Start || f.Query != i/3+1 || f.Siblings != 3 {
				t.Fatalf("query %d: %+v", i/3+1, flows[i:i+3])
			}
			seen[f.Dst] = true
			serves[f.Dst]++
			us := float64(f.Service) / float64(clock.Microsecond)
			sum, squares = sum+us, squares+us*us
		}
		asks[flows[i].Src]++
	}
	// 24.3 is the 99.9th percentile of chi-squared with 7 degrees of freedom
	if asked, served := chiSquared(asks), chiSquared(serves); asked > 24.3 || served > 24.3 {
		t.Errorf("clients %v (%.1f), servers %v (%.1f) are not uniform", asks, asked, serves, served)
	}
	n := float64(len(flows))
	if mean, deviation := sum/n, math.Sqrt(squares/n-sum/n*sum/n); math.Abs(mean-20) > 0.1 ||
		math.Abs(deviation-3) > 0.1 {
		t.Errorf("service takes %.2f us, deviation %.2f us, want 20 and 3", mean, deviation)
	}
}

// A query of more servers than there are asks all of them equally often, but for one; a query of fewer asks those that
// it would ask without repeats.
func TestAQueryOfMoreServersThanHostsAsksSomeAgain(t *testing.T) {
	k := workload.Find("queries")
	v := valuesOf(t, "queries", "servers=17", "queries-per-s=20000", "stop-us=5000", "repeats=true")
	flows := k.Flows(v, network(7)) // 8 hosts
	twice := make([]float64, 8)
	for len(flows) >= 17 {
		times := map[int]int{}
		for _, f := range flows[:17] {
			times[f.Dst]++
		}
		for h := range 8 {
			n := times[h]
			switch {
			case h == flows[0].Src && n == 0, n == 2:
			case n == 3:
				twice[h]++
			default:
				t.Fatalf("client %d asks host %d %d times", flows[0].Src, h, n)
			}
		}
		flows = flows[17:]
	}
	// 24.3 is the 99.9th percentile of chi-squared with 7 degrees of freedom
	if x := chiSquared(twice); len(flows) > 0 || twice[0] == 0 || x > 24.3 {
		t.Errorf("%d flows are left; asked again %v (%.1f)", len(flows), twice, x)
	}
	once := []string{"servers=5", "queries-per-s=20000", "stop-us=5000"}
	a, b := k.Flows(valuesOf(t, "queries", once...), network(7)), k.Flows(valuesOf(t, "queries",
		append(once, "repeats=true")...), network(7))
	if !slices.Equal(a, b) || len(a) < 100 {
		t.Errorf("%d and %d flows differ", len(a), len(b))
	}
}

// chiSquared returns the statistic of counts that should be equal.
func chiSquared(counts []float64) (x float64) {
	total := 0.0
	for _, n := range counts {
		total += n
	}
	want := total / float64(len(counts))
	for _, n := range counts {
		x += (n - want) * (n - want) / want
	}
	return x
}

// The rates of queries are those of the published set-ups: of packet deflection, 320 hosts at 10 Gb/s with 40 Gb/s
// links from 8 leaves to 4 spines, 100 servers of 40 kB: 5 % of the fabric are 2000 queries in a second, 45 % 18,000.
func TestLoadsOfQueriesAreThoseOfThePaper(t *testing.T) {
	k := workload.Find("queries")
	in := workload.Scope{Hosts: 320, Rack: 40, Access: 3.2e12, Fabric: 1.28e12}
	for load, want := range map[string]float64{"0.05": 2000, "0.1": 4000, "0.25": 10_000, "0.45": 18_000} {
		v := valuesOf(t, "queries", "servers=100", "size-bytes=40000", "load-of=fabric", "load="+load, "stop-us=1000000")
		if got := k.Expect(v, in) / 100; math.Abs(got-want) > 1e-6*want {
			t.Errorf("load %s: %.1f queries in a second, want %.0f", load, got, want)
		}
	}
}

// Queries at equal distances start at 0, as bursts of an incast do.
func TestEvenQueriesAreEven(t *testing.T) {
	k := workload.Find("queries")
	v := valuesOf(t, "queries", "servers=2", "queries-per-s=50", "arrivals=even", "stop-us=100000")
	v.SetRanges("clients", [][2]int64{{3, 3}})
	flows := k.Flows(v, network(1))
	if len(flows) != 10 {
		t.Fatalf("%d flows, want 5 queries of 2", len(flows))
	}
	for i, f := range flows {
		if f.Src != 3 || f.Start != clock.Duration(i/2)*20*clock.Millisecond {
			t.Errorf("flow %d: %+v", i, f)
		}
	}
}

// Wrong queries are refused with what is allowed.
func TestWrongQueriesAreRefused(t *testing.T) {
	k := workload.Find("queries")
	for _, settings := range [][]string{
		{"servers=2", "stop-us=10"}, {"servers=2", "stop-us=10", "load=0.1", "queries-per-s=1"},
		{"servers=8", "stop-us=10", "load=0.1"}, {"servers=2", "stop-us=10", "load=0.1", "sizes=points"},
	} {
		if _, problems := k.Check(valuesOf(t, "queries", settings...), 8); len(problems) == 0 {
			t.Errorf("%v is accepted", settings)
		}
	}
	v := valuesOf(t, "queries", "servers=2", "stop-us=10", "load=0.1")
	v.SetRanges("clients", [][2]int64{{7, 8}})
	if _, problems := k.Check(v, 8); len(problems) == 0 {
		t.Error("a client that does not exist is accepted")
	}
}
