package nightly_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/nightly"
)

// bench is a plan with workers that only say what a run came to. Its clock advances a minute with each run.
type bench struct {
	t     *testing.T
	plan  string
	store *history.Store

	mu    sync.Mutex
	now   time.Time
	calls []string // test@testbed#repetition of each run
	seeds map[string][]uint64
	// result is what a run comes to.
	result func(ctx context.Context, test, bed string, repetition, call int) (*nightly.Result, error)
	gone   int // workers that ended
}

func newBench(t *testing.T, plan string) *bench {
	t.Helper()
	b := &bench{t: t, plan: filepath.Join(t.TempDir(), "plan.yml"), now: time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC),
		seeds: make(map[string][]uint64)}
	b.write(plan)
	store, err := history.Open(t.Context(), filepath.Join(filepath.Dir(b.plan), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b.store = store
	return b
}

func (b *bench) write(plan string) {
	b.t.Helper()
	if err := os.WriteFile(b.plan, []byte("name: p\nsuites: [{path: s}]\n"+plan), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

type fake struct {
	b   *bench
	bed string
}

func (f *fake) Close() error {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	f.b.gone++
	return nil
}

func (f *fake) Run(ctx context.Context, r *nightly.Request) (*nightly.Result, error) {
	f.b.mu.Lock()
	test := strings.TrimSuffix(r.File, ".yml")
	name := test + "@" + f.bed
	f.b.calls = append(f.b.calls, fmt.Sprintf("%s#%d", name, r.Repetition))
	f.b.seeds[name] = append(f.b.seeds[name], r.Seed)
	call := len(f.b.seeds[name])
	f.b.now = f.b.now.Add(time.Minute)
	result := f.b.result
	f.b.mu.Unlock()
	return result(ctx, test, f.bed, r.Repetition, call)
}

func verdict(v history.Verdict, reasons ...string) (*nightly.Result, error) {
	return &nightly.Result{Verdict: v, Reasons: reasons}, nil
}

// night runs the plan with tests, each on testbeds.
func (b *bench) night(ctx context.Context, repetitions int, beds []string, tests ...string) (*nightly.Summary, error) {
	p, err := config.LoadNightPlan(b.plan)
	if err != nil {
		b.t.Fatal(err)
	}
	o := nightly.Options{Plan: p, Store: b.store, Version: "v1", Command: "candela", Workers: 1, Now: b.clock,
		Start: func(_ context.Context, bed string, _ *os.File) (nightly.Worker, error) { return &fake{b, bed}, nil }}
	for _, bed := range beds {
		for _, test := range tests {
			o.Cases = append(o.Cases, nightly.Case{File: test + ".yml", Bed: bed, Simulated: bed == "virtual", Seed: 7,
				Test: history.Test{Name: test, Path: test + ".yml", Owner: "anna"}, Repetitions: repetitions})
		}
	}
	b.mu.Lock()
	b.calls, b.seeds = nil, make(map[string][]uint64)
	b.mu.Unlock()
	return nightly.Run(ctx, o)
}

func (b *bench) must(repetitions int, beds []string, tests ...string) *nightly.Summary {
	b.t.Helper()
	s, err := b.night(b.t.Context(), repetitions, beds, tests...)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func of(s *nightly.Summary, test, bed string) *nightly.Test {
	for i := range s.Tests {
		if s.Tests[i].Test == test && s.Tests[i].Testbed == bed {
			return &s.Tests[i]
		}
	}
	return &nightly.Test{}
}

func TestRetriesTellFlakyFromFailing(t *testing.T) {
	b := newBench(t, "retries: 2\n")
	b.result = func(_ context.Context, test, _ string, _, call int) (*nightly.Result, error) {
		if test == "failing" || test == "flaky" && call == 1 {
			return verdict(history.Fail, "violations")
		}
		return verdict(history.Pass)
	}
	s := b.must(1, []string{"lab", "virtual"}, "failing", "flaky", "good")
	for _, bed := range []string{"lab", "virtual"} {
		if x := of(s, "failing", bed); x.State != nightly.Failing || x.Failed != 3 || x.Runs != 3 || x.Owner != "anna" {
			t.Errorf("%+v", x)
		}
		if x := of(s, "flaky", bed); x.State != nightly.Flaky || x.Failed != 1 || x.Runs != 2 {
			t.Errorf("%+v", x)
		}
	}
	if s.Exit != orchestrator.ExitFail || s.Counts[nightly.Passing] != 2 {
		t.Errorf("%+v", s)
	}
	if x := b.seeds["failing@lab"]; x[0] != 7 || x[1] != x[0] || x[2] != x[0] {
		t.Errorf("seeds of retries on real frames: %v, want the same", x)
	}
	if x := b.seeds["failing@virtual"]; x[0] != 7 || x[1] == x[0] || x[2] == x[1] {
		t.Errorf("seeds of retries in a simulation: %v, want others", x)
	}
	list, err := b.store.List(t.Context(), history.Filter{})
	if err != nil || len(list) != 12 || list[0].Night.String() != "2026-11-20" {
		t.Errorf("%v: %d runs in the store, want 12", err, len(list))
	}
}

func TestLastNightsFailuresRunFirstAndTheOrderIsThatOfThePlansSeed(t *testing.T) {
	b := newBench(t, "retries: 0\n")
	bad := "t5"
	b.result = func(_ context.Context, test, _ string, _, _ int) (*nightly.Result, error) {
		if test == bad {
			return verdict(history.Fail)
		}
		return verdict(history.Pass)
	}
	tests := []string{"t1", "t2", "t3", "t4", "t5", "t6"}
	b.must(2, []string{"lab"}, tests...)
	first := slices.Clone(b.calls)
	if b.calls[0] == "t5@lab#1" && b.calls[1] == "t5@lab#2" {
		t.Fatalf("%v: want another seed for this test", b.calls)
	}
	for i := range 6 { // every test runs once before any runs twice
		if !strings.HasSuffix(b.calls[i], "#1") {
			t.Errorf("%v", b.calls)
		}
	}
	b.now = b.now.Add(24 * time.Hour)
	bad = ""
	s := b.must(2, []string{"lab"}, tests...)
	if b.calls[0] != "t5@lab#1" || b.calls[1] != "t5@lab#2" {
		t.Errorf("%v: t5 failed last night and is not the first", b.calls)
	}
	if x := of(s, "t5", "lab"); x.Change != history.Fixed || s.Exit != orchestrator.ExitPass {
		t.Errorf("%+v", x)
	}
	again := newBench(t, "retries: 0\n")
	again.result = b.result
	again.must(2, []string{"lab"}, tests...)
	if !slices.Equal(again.calls, first) {
		t.Errorf("%v, then %v", first, again.calls)
	}
	other := newBench(t, "retries: 0\nseed: 2\n")
	other.result = b.result
	other.must(2, []string{"lab"}, tests...)
	if slices.Equal(other.calls, first) {
		t.Error("the order does not depend on the seed")
	}
}

func TestADeadTestbedCostsOnlyItself(t *testing.T) {
	b := newBench(t, "dead-after: 2\n")
	b.result = func(_ context.Context, _, bed string, _, _ int) (*nightly.Result, error) {
		if bed == "lab-1" {
			return nil, errors.New("agent lab-1 does not answer")
		}
		return verdict(history.Pass)
	}
	s := b.must(3, []string{"lab-1", "lab-2"}, "a", "b", "c", "d")
	if n := len(b.seeds["a@lab-1"]) + len(b.seeds["b@lab-1"]) + len(b.seeds["c@lab-1"]) + len(b.seeds["d@lab-1"]); n != 2 {
		t.Errorf("%d runs on the dead testbed, want 2: %v", n, b.calls)
	}
	if s.Counts[nightly.Passing] != 4 || s.Counts[nightly.Lab] != 2 || s.Counts[nightly.NotRun] != 2 ||
		s.Exit != orchestrator.ExitInfrastructure {
		t.Errorf("%+v", s)
	}
	for _, x := range s.Tests {
		if x.State == nightly.Lab && (!slices.Equal(x.Suspects, []string{"lab"}) ||
			x.Reasons[0] != "agent lab-1 does not answer") {
			t.Errorf("%+v", x)
		}
		if x.State == nightly.NotRun && !strings.Contains(x.Reasons[0], "given up: 2 tests in a row") {
			t.Errorf("%+v", x)
		}
	}
	if s.Testbeds[0].Dead == "" || s.Testbeds[1].Dead != "" || s.Testbeds[1].Runs != 12 {
		t.Errorf("%+v", s.Testbeds)
	}
	list, err := b.store.List(t.Context(), history.Filter{Testbed: "lab-1"})
	if err != nil || len(list) != 2 || list[0].Verdict != history.Broken {
		t.Errorf("%v %+v", err, list)
	}
}

func TestATestThatCrashesOrHangsCostsOnlyItself(t *testing.T) {
	b := newBench(t, "timeout-s: 1\nretries: 0\n")
	b.result = func(ctx context.Context, test, _ string, _, _ int) (*nightly.Result, error) {
		switch test {
		case "hang":
			<-ctx.Done()
			return nil, ctx.Err()
		case "crash":
			return nil, errors.New("panic: oops")
		}
		return verdict(history.Pass)
	}
	s := b.must(4, []string{"virtual"}, "crash", "good", "hang")
	if x := of(s, "crash", "virtual"); x.State != nightly.Lab || x.Broken != 3 || x.Reasons[0] != "panic: oops" {
		t.Errorf("%+v", x)
	}
	if x := of(s, "hang", "virtual"); x.State != nightly.Lab || x.Broken != 3 ||
		!strings.Contains(x.Reasons[0], "timeout-s, 1 s") {
		t.Errorf("%+v", x)
	}
	if s.Counts[nightly.Passing] != 1 || len(b.seeds["good@virtual"]) != 4 || b.gone != 7 {
		t.Errorf("%+v, %d workers ended", s.Counts, b.gone)
	}
}

func TestTheBudgetEndsTheNight(t *testing.T) {
	b := newBench(t, "budget-min: 5\n")
	b.result = func(context.Context, string, string, int, int) (*nightly.Result, error) { return verdict(history.Pass) }
	s := b.must(3, []string{"lab"}, "a", "b", "c", "d")
	if len(b.calls) != 5 || s.Counts[nightly.Passing] != 4 || s.Exit != orchestrator.ExitPass {
		t.Errorf("%v %+v", b.calls, s)
	}
	b.now = b.now.Add(24 * time.Hour)
	b.write("budget-min: 2\n")
	s = b.must(3, []string{"lab"}, "a", "b", "c", "d")
	if s.Counts[nightly.NotRun] != 2 || s.Exit != orchestrator.ExitInvalid ||
		!strings.Contains(s.Tests[0].Reasons[0], "the budget of 2 min was used up") {
		t.Errorf("%+v", s)
	}
}

func TestAQuarantineExcusesUntilItsLastDay(t *testing.T) {
	b := newBench(t, `retries: 0
quarantine:
  - {test: known*, reason: FW-12, owner: anna, expires: 2026-11-20}
  - {test: gone, reason: FW-13, owner: bert, expires: 2027-11-20}
`)
	b.result = func(_ context.Context, test, _ string, _, _ int) (*nightly.Result, error) {
		if test == "known-bad" {
			return verdict(history.Fail)
		}
		return verdict(history.Pass)
	}
	s := b.must(1, []string{"lab"}, "known-bad", "good")
	if x := of(s, "known-bad", "lab"); x.State != nightly.Failing || x.Bad() || s.Exit != orchestrator.ExitPass ||
		!strings.Contains(x.Quarantine, "FW-12, anna") || len(s.Unused) != 1 || !strings.Contains(s.Unused[0], "gone") {
		t.Errorf("%+v %+v", x, s)
	}
	b.now = b.now.Add(24 * time.Hour)
	s = b.must(1, []string{"lab"}, "known-bad", "good")
	if x := of(s, "known-bad", "lab"); !x.Bad() || s.Exit != orchestrator.ExitUsage || len(s.Errors) != 1 ||
		!strings.Contains(s.Errors[0], "plan.yml:5:5: the quarantine of known* expired on 2026-11-20 (FW-12): anna has to") {
		t.Errorf("%+v %+v", x, s)
	}
}

func TestAStoppedNightGoesOnWhereItWas(t *testing.T) {
	b := newBench(t, "retries: 1\n")
	ctx, cancel := context.WithCancel(t.Context())
	b.result = func(_ context.Context, test, _ string, _, _ int) (*nightly.Result, error) {
		if test == "bad" {
			return verdict(history.Fail)
		}
		if b.mu.Lock(); len(b.calls) >= 4 {
			cancel()
		}
		b.mu.Unlock()
		return verdict(history.Pass)
	}
	if _, err := b.night(ctx, 3, []string{"lab"}, "a", "b", "bad"); err == nil ||
		!strings.Contains(err.Error(), "goes on with this night") {
		t.Fatal(err)
	}
	before := len(b.calls)
	b.now = b.now.Add(3 * time.Hour) // after midnight
	// A kill while a line was being written.
	name := filepath.Join(filepath.Dir(b.plan), "nights/p/2026-11-20/journal.jsonl")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"case":"12`); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	s := b.must(3, []string{"lab"}, "a", "b", "bad")
	// 9 runs and a retry; the one that was stopped runs again.
	if s.Night.String() != "2026-11-20" || s.Runs != 10 || before-1+len(b.calls) != 10 {
		t.Errorf("night %v, %d runs, %d before and %d after the stop", s.Night, s.Runs, before, len(b.calls))
	}
	s = b.must(3, []string{"lab"}, "a", "b", "bad") // a new night
	if s.Night.String() != "2026-11-21" || s.Runs != 10 {
		t.Errorf("%+v", s)
	}
}

func TestASecondNightlyOfAPlanIsRefusedWhileTheFirstLives(t *testing.T) {
	b := newBench(t, "")
	started, end := make(chan struct{}), make(chan struct{})
	b.result = func(context.Context, string, string, int, int) (*nightly.Result, error) {
		close(started)
		<-end
		return verdict(history.Pass)
	}
	done := make(chan error)
	go func() {
		_, err := b.night(t.Context(), 1, []string{"lab"}, "a")
		done <- err
	}()
	<-started
	var busy *nightly.BusyError
	if _, err := b.night(t.Context(), 1, []string{"lab"}, "a"); !errors.As(err, &busy) ||
		!strings.Contains(err.Error(), fmt.Sprintf("is being run: by process %d, since 2026-11-20T22:0", os.Getpid())) {
		t.Error(err)
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.result = func(context.Context, string, string, int, int) (*nightly.Result, error) { return verdict(history.Pass) }
	b.must(1, []string{"lab"}, "a")
}

func TestTwoCasesThatTheStoreCannotTellApartAreAnError(t *testing.T) {
	b := newBench(t, "")
	b.result = func(context.Context, string, string, int, int) (*nightly.Result, error) { return verdict(history.Pass) }
	s := b.must(1, []string{"lab", "lab"}, "a")
	if s.Runs != 1 || len(s.Refused) != 1 || !strings.Contains(s.Refused[0].Reason, "a runs on lab already") {
		t.Errorf("%+v", s)
	}
}
