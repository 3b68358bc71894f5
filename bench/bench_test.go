package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

func TestMetricReadsGoBenchmarkOutput(t *testing.T) {
	const output = `goos: linux
BenchmarkWrite-1   	    2000	    612.5 ns/op	        64.00 ns/packet	       0 B/op	       0 allocs/op
PASS
`
	for unit, want := range map[string]float64{"ns/op": 612.5, "ns/packet": 64, "allocs/op": 0} {
		if got, err := metric(output, unit); err != nil || got != want {
			t.Errorf("%s: %v, error %v; want %v", unit, got, err, want)
		}
	}
	if _, err := metric(output, "hops/s"); err == nil {
		t.Error("a metric that is not there was found")
	}
	if _, err := metric("PASS\n", "ns/op"); !errors.Is(err, errNoBenchmark) {
		t.Errorf("no benchmark: error %v", err)
	}
}

func TestABenchmarkThatSkipsItselfSaysWhy(t *testing.T) {
	const output = "goos: linux\n--- SKIP: BenchmarkX\n    namespace.go:20: network namespaces need root\nPASS\n"
	if why, skipped := skipReason(output); !skipped || why != "network namespaces need root" {
		t.Errorf("%q, %v", why, skipped)
	}
	if _, skipped := skipReason("PASS\n"); skipped {
		t.Error("nothing was skipped")
	}
}

func TestPatternsNameOneBenchmark(t *testing.T) {
	if got := exactly("BenchmarkX/a=1/b"); got != "^BenchmarkX$/^a=1$/^b$" {
		t.Error(got)
	}
}

func TestFiguresAreFormattedForPeople(t *testing.T) {
	tests := []struct {
		v    float64
		unit string
		want string
	}{
		{5_234_567, "packets/s", "5.23 M packets/s"}, {300_000, "entries/s", "300 k entries/s"},
		{46.24, "ns/packet", "46.2 ns/packet"},
		{229.1, "ns/packet", "229 ns/packet"}, {0, "allocs", "0 allocs"}, {9_999, "writes/s", "9999 writes/s"},
		{6.4e9, "B/s", "6.40 G B/s"},
	}
	for _, test := range tests {
		if got := human(test.v, test.unit); got != test.want {
			t.Errorf("%v: %q, want %q", test.v, got, test.want)
		}
	}
}

// fixed is a source whose samples are known.
type fixed struct {
	samples []float64
	err     error
}

func (s fixed) open(context.Context, *lab) (sampler, error) {
	rest := s.samples
	return func(context.Context) (float64, error) {
		v := rest[0]
		rest = rest[1:]
		return v, nil
	}, s.err
}

func measured(f figure) *result {
	r := &result{figure: f}
	l := &lab{opts: options{count: 3}}
	if err := measureAll(context.Background(), l, []*result{r}, io.Discard); err != nil {
		panic(err)
	}
	return r
}

func TestVerdictsFollowMediansAndRatios(t *testing.T) {
	samples := fixed{samples: []float64{10, 1000, 20}}
	slowPeer, equalPeer := &peer{"peer", fixed{samples: []float64{5, 5, 5}}},
		&peer{"peer", fixed{samples: []float64{20, 20, 20}}}
	absent := &peer{"peer", fixed{err: errNoPeer}}
	tests := []struct {
		name string
		f    figure
		want string
		met  bool
	}{
		{"median keeps the target", figure{source: samples, target: atLeast(20)}, "ok", true},
		{"an outlier doesn't help", figure{source: samples, target: atLeast(21)}, "MISSED", false},
		{"at most", figure{source: samples, target: atMost(20)}, "ok", true},
		{"a target of zero is a target", figure{source: samples, target: atMost(0)}, "MISSED", false},
		{"no target, no judgement", figure{source: samples}, "", true},
		{"the ratio is kept", figure{source: samples, peer: slowPeer, ratio: atLeast(4)}, "ok", true},
		{"the ratio is missed", figure{source: samples, peer: equalPeer, ratio: atLeast(2)}, "MISSED", false},
		{"a peer that is not installed breaks nothing", figure{source: samples, peer: absent, ratio: atLeast(2)}, "not compared", true},
		{"a figure without measurement is not met", figure{source: fixed{err: errNoBenchmark}},
			"not measured: no such benchmark", false},
	}
	for _, test := range tests {
		r := measured(test.f)
		if r.verdict() != test.want || r.met() != test.met {
			t.Errorf("%s: %q, met %v; want %q, %v", test.name, r.verdict(), r.met(), test.want, test.met)
		}
	}
}

func TestTheTableShowsFigureTargetAndPeer(t *testing.T) {
	r := measured(figure{name: "merge", unit: "packets/s", source: fixed{samples: []float64{8e6, 8e6, 8e6}},
		ratio: atLeast(2),
		peer:  &peer{"mergecap", fixed{samples: []float64{4e6, 4e6, 4e6}}}})
	var out strings.Builder
	if err := printTable(&out, []*result{r}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	got := strings.Join(strings.Fields(lines[1]), " ")
	if want := "merge 8.00 M packets/s ≥ 2 × mergecap mergecap: 4.00 M packets/s, ratio 2 ok"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWorkloadsSpreadTheirDrops(t *testing.T) {
	w := workload{connections: 2, messages: 3, drops: 4}
	test := w.test()
	for _, want := range []string{"{qpn: 1, psn: 1, ", "{qpn: 1, psn: 16, ", "{qpn: 2, psn: 1, ", "{qpn: 2, psn: 16, "} {
		if strings.Count(test, want) != 1 {
			t.Errorf("want one event %q in\n%s", want, test)
		}
	}
}

func TestArgumentsStandForFiles(t *testing.T) {
	c := &capture{run: "r", trace: "t", shards: []string{"s1", "s2"}}
	got := expand([]string{"merge", "--out", "OUT", "SHARDS", "TRACE", "RUN"}, c, "o")
	if want := []string{"merge", "--out", "o", "s1", "s2", "t", "r"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-count", "0"}, {"-only", "("}, {"-only", "no such figure"}, {"-nonsense"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestListNeedsNoMeasurement(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-list"}, &out, io.Discard); err != nil ||
		!strings.Contains(out.String(), "≤ 60.0 ns/packet") {
		t.Errorf("error %v, output\n%s", err, &out)
	}
}

// TestConfigurationsOfFiguresAreValid reads them: a figure that cannot be measured shows up in make bench alone.
func TestConfigurationsOfFiguresAreValid(t *testing.T) {
	count := 0
	for _, f := range figures {
		p, ok := f.source.(program)
		if !ok || len(p.command) < 3 || p.command[1] != "run" || !strings.HasPrefix(p.command[2], "bench/") {
			continue
		}
		count++
		tests, err := config.LoadSwitchTests(filepath.Join("..", p.command[2]), switchtest.Options())
		if err != nil || len(tests) != 1 {
			t.Errorf("%s: %d tests, error %v", f.name, len(tests), err)
		}
	}
	if count < 4 {
		t.Errorf("%d configurations, want at least 4", count)
	}
}

// A program that takes minutes runs once for all samples of the figures with its command.
func TestAProgramOfMinutesRunsOnce(t *testing.T) {
	l, err := newLab(options{count: 2, cpu: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	runs := filepath.Join(t.TempDir(), "runs")
	slow := program{command: []string{"sh", "-c", "echo >> " + runs}, once: true, value: wallMilliseconds}
	rows := []*result{{figure: figure{source: slow}}, {figure: figure{source: slow}}}
	if err := measureAll(t.Context(), l, rows, io.Discard); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(runs); err != nil || len(b) != 1 || len(rows[1].samples) != 2 {
		t.Errorf("%d runs, error %v; samples %v", len(b), err, rows[1].samples)
	}
}
