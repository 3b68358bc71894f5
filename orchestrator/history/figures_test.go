package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/runtimetest"
)

// Shape of the large store: 137 tests, each 20 times a night, on four testbeds; median 5 metrics; 1 % of the runs fail
// with up to 20 findings.
const (
	figureTests       = 137
	figureRepetitions = 20
	figureBeds        = 4
)

// figureRuns returns the runs of one night.
func figureRuns(seed uint64, night, from, to int) []*history.Run {
	runs := make([]*history.Run, 0, to-from)
	for i := from; i < to; i++ {
		rng := rand.New(rand.NewPCG(seed, uint64(night)<<32|uint64(i)))
		test, repetition := i/figureRepetitions, i%figureRepetitions
		start := firstNight.AddDate(0, 0, night).Add(time.Duration(i) * 8 * time.Second)
		r := &history.Run{
			ID: fmt.Sprintf("%016x%016x", rng.Uint64(), uint64(night)<<32|uint64(i)),
			Test: history.Test{ID: fmt.Sprintf("TC-%03d", test), Name: fmt.Sprintf("test-%03d", test), Path: "suite.yml",
				Owner: fmt.Sprintf("team-%d", test%7)},
			Testbed: fmt.Sprintf("lab-%d", test%figureBeds), Night: history.NightOf(firstNight) + history.Night(night),
			Started: start, Finished: start.Add(5 * time.Second), Analysed: start.Add(5 * time.Second), Seed: rng.Uint64(),
			Repetition: repetition + 1, Config: fmt.Sprintf("%064x", rng.Uint64()), Tool: "v1.2.3",
			Environment: map[string]string{"requester.firmware": fmt.Sprintf("28.%d", night/60), "requester.kernel": "6.1",
				"responder.firmware": "28.1", "requester.nic": fmt.Sprint("cx", test%figureBeds), "switch.os": "sonic-4"},
			Coverage:  map[string]history.Coverage{"gbn": {Seen: []string{"a", "b", fmt.Sprint("c", test%5)}}},
			Artefacts: []history.Artefact{{Kind: "directory", Location: fmt.Sprintf("/lab/runs/%d/%d", night, i)}},
		}
		for m := range 3 + rng.IntN(5) {
			r.Metrics = append(r.Metrics, figureMetrics()[m][rng.IntN(figureDraws)])
		}
		if rng.IntN(100) == 0 {
			r.Verdict, r.Reasons = history.Fail, []string{"violations"}
			for j := range 1 + rng.IntN(20) {
				f := violation(fmt.Sprintf("gbn.rule-%d", rng.IntN(6)))
				f.PSN = int64(j)
				r.Findings = append(r.Findings, f)
			}
		}
		runs = append(runs, r)
	}
	return runs
}

// figureDraws is how many different distributions a metric has: to encode a million would take longer than to write
// them.
const figureDraws = 200

// figureMetrics are the distributions of seven metrics.
var figureMetrics = sync.OnceValue(func() (all [7][figureDraws]history.Metric) {
	rng := rand.New(rand.NewPCG(24, 24))
	values := make([]int64, 12)
	for m := range all {
		for i := range all[m] {
			for j := range values {
				values[j] = int64(float64(1000*(m+1)) * (1 + 0.05*rng.NormFloat64()))
			}
			all[m][i] = history.MetricOf(fmt.Sprintf("retrans.metric-%d", m), "ns", values)
		}
	}
	return all
})

const figureNight = figureTests * figureRepetitions

// figures are how long each question takes, asked several times.
func figures(t *testing.T, s *history.Store) (answers map[string]string, took map[string][]time.Duration) {
	t.Helper()
	ctx := context.Background()
	list, err := s.List(ctx, history.Filter{Limit: 1})
	if err != nil || len(list) == 0 {
		t.Fatal(err)
	}
	last := list[0].Night
	blamed, err := s.Flaky(ctx, history.Window{})
	if err != nil {
		t.Fatal(err)
	}
	test := "TC-001"
	if len(blamed.Tests) > 0 {
		test = blamed.Tests[0].Test
	}
	questions := map[string]func() (any, error){
		"list":           func() (any, error) { return s.List(ctx, history.Filter{Limit: 20}) },
		"list of a test": func() (any, error) { return s.List(ctx, history.Filter{Tests: []string{"TC-005"}, Limit: 20}) },
		"list of failures": func() (any, error) {
			v := history.Fail
			return s.List(ctx, history.Filter{Verdict: &v, Limit: 20})
		},
		"show":       func() (any, error) { return s.Show(ctx, list[0].ID) },
		"trend":      func() (any, error) { return s.Trend(ctx, "retrans.metric-1", []string{"TC-005"}, "", history.Window{}) },
		"shifts":     func() (any, error) { return s.Shifts(ctx, history.Window{}) },
		"flaky":      func() (any, error) { return s.Flaky(ctx, history.Window{}) },
		"owners":     func() (any, error) { return s.Owners(ctx, history.Window{}) },
		"testbeds":   func() (any, error) { return s.Beds(ctx, history.Window{}) },
		"blame":      func() (any, error) { return s.Blame(ctx, test, "", history.Window{Nights: 90}) },
		"compare":    func() (any, error) { return s.Compare(ctx, "night-"+(last-1).String(), "last-night") },
		"last-green": func() (any, error) { return s.Compare(ctx, "last-green", "last-night") },
		"firmware":   func() (any, error) { return s.Compare(ctx, "fw:28.0", "last-night") },
	}
	asked := 3
	if text := os.Getenv("CANDELA_TEST_HISTORY_ASKED"); text != "" {
		asked, _ = strconv.Atoi(text)
	}
	answers, took = make(map[string]string), make(map[string][]time.Duration)
	for name, ask := range questions {
		for range asked {
			start := time.Now()
			answer, err := ask()
			took[name] = append(took[name], time.Since(start))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			text, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			answers[name] = string(text)
		}
		slices.Sort(took[name])
	}
	return answers, took
}

// TestALargeStoreAnswersAlikeOnBothEngines fills stores with CANDELA_TEST_HISTORY runs; make history-figures has a
// million. CI has a hundredth, where only equal answers are judged.
func TestALargeStoreAnswersAlikeOnBothEngines(t *testing.T) {
	runtimetest.SkipRace(t)
	night := 10 * figureRepetitions
	total := 8 * night
	if text := os.Getenv("CANDELA_TEST_HISTORY"); text != "" {
		var err error
		if total, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		night = figureNight
	}
	judged := total >= 1_000_000
	answers := make(map[string]string)
	on := engines
	if at := os.Getenv("CANDELA_TEST_HISTORY_AT"); at != "" { // a store that stays, and is filled only once
		on = func(t *testing.T, test func(*testing.T, string)) { test(t, at) }
	}
	on(t, func(t *testing.T, address string) {
		s := open(t, address)
		start, done := time.Now(), 0
		if list, err := s.List(t.Context(), history.Filter{Limit: 1}); err != nil || len(list) > 0 {
			total = 0
		}
		for at := 0; done < total; at++ {
			for from := 0; from < night && done < total; from += 500 {
				done += ingest(t, s, figureRuns(1, at, from, min(from+500, night))...).New
			}
		}
		rate := float64(done) / time.Since(start).Seconds()
		t.Logf("%d runs, %.0f runs/s (made and written)", done, rate)
		if info, err := os.Stat(address); err == nil {
			t.Logf("%.2f GB, %d bytes a run", float64(info.Size())/1e9, info.Size()/int64(max(done, 1)))
			if judged && info.Size() > 4e9 {
				t.Errorf("the store has %d bytes, want at most 4 GB", info.Size())
			}
		}
		got, took := figures(t, s)
		if file := os.Getenv("CANDELA_TEST_HISTORY_ANSWERS"); file != "" { // of an engine that was asked alone
			text, err := json.MarshalIndent(got, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range sorted(took) {
			n := len(took[name])
			high, worst := took[name][(99*n+99)/100-1], took[name][n-1]
			t.Logf("%-18s median %8.1f ms, p99 of %d %8.1f ms, worst %8.1f ms", name, took[name][n/2].Seconds()*1e3, n,
				high.Seconds()*1e3, worst.Seconds()*1e3)
			if judged && high > 200*time.Millisecond {
				t.Errorf("%s took %v, want at most 200 ms", name, high)
			}
			if before, ok := answers[name]; ok && before != got[name] {
				t.Errorf("%s: the engines differ\n%.600s\n%.600s", name, before, got[name])
			}
			answers[name] = got[name]
		}
	})
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// BenchmarkIngest writes median runs in batches, and single runs with 1,000 findings and 100 metrics.
func BenchmarkIngest(b *testing.B) {
	b.Run("median", func(b *testing.B) {
		s := open(b, filepath.Join(b.TempDir(), "history.db"))
		night := 0
		for b.Loop() {
			b.StopTimer()
			runs := figureRuns(1, night, 0, 200)
			night++
			b.StartTimer()
			ingest(b, s, runs...)
		}
		b.ReportMetric(float64(b.N)*200/b.Elapsed().Seconds(), "runs/s")
	})
	b.Run("large", func(b *testing.B) {
		s := open(b, filepath.Join(b.TempDir(), "history.db"))
		n := 0
		for b.Loop() {
			b.StopTimer()
			r := figureRuns(2, n, 0, 1)[0]
			n++
			r.Verdict, r.Metrics = history.Fail, nil
			for i := range 1000 {
				r.Findings = append(r.Findings, violation(fmt.Sprintf("gbn.rule-%d", i%50)))
			}
			for i := range 100 {
				r.Metrics = append(r.Metrics, history.MetricOf(fmt.Sprintf("m.%d", i), "ns", []int64{1, 2, 3, int64(i + 1)}))
			}
			b.StartTimer()
			ingest(b, s, r)
		}
	})
}
