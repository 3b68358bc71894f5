package hcsfq

import (
	"cmp"
	"context"
	"os"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/experiments"
)

// testsOf returns the tests of a file.
func testsOf(t *testing.T, file string) []*config.SwitchTest {
	t.Helper()
	_, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(base.Close)
	tests, err := base.Tests(file)
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// The trees of S4 have the tenants by which completion times are counted: every host once.
func TestTheTreesOfS4HaveItsTenants(t *testing.T) {
	for _, file := range []string{"s4-hcsfq.yml", "s4-hpifo.yml"} {
		seen := make(map[int]int)
		for i, node := range testsOf(t, file)[0].Switch.Values.List("tree") {
			for _, host := range node.Ranges("hosts") {
				if seen[host] = i + 1; tenantOf(host) != i+1 {
					t.Errorf("%s: host %d is in node %d", file, host, i+1)
				}
			}
		}
		if len(seen) != 144 {
			t.Errorf("%s: %d hosts", file, len(seen))
		}
	}
}

// What the switch knows of flows in S5 is what the workload says.
func TestTheTreeOfS5HasItsTenants(t *testing.T) {
	test := testsOf(t, "s5-hcsfq.yml")[0]
	node := make(map[int]int)
	for _, item := range test.Switch.Values.List("flows") {
		for _, n := range item.Ranges("numbers") {
			node[n] = item.Int("node")
		}
	}
	sent := make(map[int]int)
	for i, w := range test.Workload { // each is a flow from every host, numbered on
		if shift := w.Values.Int("shift"); shift < 16 || shift > 128 {
			t.Errorf("flows of item %d stay in racks", i)
		}
		for n := 144*i + 1; n <= 144*(i+1); n++ {
			if node[n] != *w.Offer.Tenant {
				t.Fatalf("flow %d of tenant %d is in node %d", n, *w.Offer.Tenant, node[n])
			}
			sent[*w.Offer.Tenant]++
		}
	}
	for tenant := 1; tenant <= tenantsS5; tenant++ {
		if want := 144 * (1 + (tenant-1)/25); sent[tenant] != want {
			t.Errorf("tenant %d has %d flows, want %d", tenant, sent[tenant], want)
		}
	}
}

// Rows and plots are of the loads that are measured, whichever these are; cells are given instead of measured.
func TestOnlyLoadsThatWereAskedForAreCompared(t *testing.T) {
	for _, loads := range [][]float64{nil, {0.2}, {0.7}, {0.2, 0.8}} {
		cfg := testConfig()
		cfg.Loads = loads
		l, base, err := publication().Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		count := 0
		for _, file := range []string{"s4-hcsfq.yml", "s4-hpifo.yml"} {
			l.loads.Set(file, given(l, 1))
		}
		for i, s := range append(specified().schemes("s1"), specified().schemes("s2")...) {
			l.loads.Set(s.file, given(l, float64(1+i%5)))
		}
		for i := range experiments.LoadLabels() {
			if l.Measures(i) {
				count++
			}
		}
		for _, do := range []func(context.Context, *lab) error{specified().s1, specified().s2, specified().s4} {
			if err := do(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		rows := (5 + 2 + 2) + (5 + 4) + (2*6 + 2*5 + 6) // of each load
		want := rows * count
		if l.Measures(6) {
			want += 2 // less than TCP and DCTCP take
		}
		if l.Measures(0) && l.Measures(6) {
			want += 2 // the gap does not grow
		}
		if got := len(base.Results.Rows); got != want || base.Results.Runs != 0 {
			t.Errorf("loads %v: %d rows, want %d, in %d runs", loads, got, want, base.Results.Runs)
		}
		plots := 2 + 2 + 4
		if l.Measures(5) {
			plots += 2
		}
		if len(base.Results.Plots) != plots {
			t.Errorf("loads %v: %d plots, want %d", loads, len(base.Results.Plots), plots)
		}
		// HCSFQ takes longest of all in the first, and is not below TCP
		for _, r := range base.Results.Rows {
			if r.ID == "S1" && strings.Contains(r.What, "TCP beside HCSFQ") && r.Pass {
				t.Errorf("met: %s", r.What)
			}
		}
	}
}

// given returns cells with a mean of so many ms.
func given(l *lab, mean float64) (cells []*cell) {
	for i := range experiments.LoadLabels() {
		if !l.Measures(i) {
			cells = append(cells, nil)
			continue
		}
		cells = append(cells, &cell{Mean: mean, P99: mean, Large: mean, Ended: 1,
			Sizes: []experiments.OfSize{{Bytes: 10_000, Mean: mean, P99: mean}}})
	}
	return cells
}

// A quick reproduction ends the tests of simulations early, whatever their workload.
func TestQuickSimulationsEndEarly(t *testing.T) {
	for _, setup := range []string{"s1", "s2", "s5"} {
		for _, s := range specified().schemes(setup) {
			test := testsOf(t, s.file)[0]
			experiments.Shorten(test, quickS5)
			if cmp.Or(test.Duration, test.Deadline) != quickS5 {
				t.Errorf("%s takes %v and %v", s.file, test.Duration, test.Deadline)
			}
			for i := range test.Workload {
				if w := &test.Workload[i]; w.Kind == "poisson" && w.Values.Duration("stop-us") != quickS5 {
					t.Errorf("%s: flows start for %v", s.file, w.Values.Duration("stop-us"))
				}
			}
		}
	}
}

func table(t *testing.T, rows string) string {
	t.Helper()
	file := t.TempDir() + "/flows.csv"
	if err := os.WriteFile(file, []byte(rows), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// A request is complete with its last flow; one that is not has taken all the time.
func TestARequestTakesAsLongAsItsLastFlow(t *testing.T) {
	test := &config.SwitchTest{Deadline: 500 * clock.Millisecond}
	var r request
	if err := r.read(table(t, "fct_ns,finished,timeouts\n1000000,1,0\n3000000,1,2\n"), test); err != nil {
		t.Fatal(err)
	}
	if want := (request{Whole: 3, Flow: 2, Timeouts: 2, Flows: 2}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	r = request{}
	if err := r.read(table(t, "fct_ns,finished,timeouts\n1000000,1,0\n,0,7\n"), test); err != nil {
		t.Fatal(err)
	}
	if want := (request{Whole: 500, Flow: 1, Late: 1, Timeouts: 7, Flows: 2}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
}

func TestSharesAreOfTenants(t *testing.T) {
	s := shares{Gbps: make([]float64, tenantsS5)}
	if err := s.read(table(t, "tenant,payload,timeouts\n1,1000000,1\n50,500000,2\n50,500000,3\n"), 4); err != nil {
		t.Fatal(err)
	}
	if s.Gbps[0] != 2 || s.Gbps[49] != 2 || s.Timeouts != [2]int64{1, 5} {
		t.Errorf("%v, %v", s.Gbps, s.Timeouts)
	}
	if err := s.read(table(t, "tenant,payload,timeouts\n51,1,0\n"), 4); err == nil {
		t.Error("tenant 51 is accepted")
	}
}
