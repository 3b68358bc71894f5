package orchestrator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

const tenPackets = "name: ten\ntraffic:\n  message-size: 10240\n  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]\n"

func newScratch(t testing.TB) *orchestrator.Scratch {
	t.Helper()
	var rack virtual.Rack
	s := orchestrator.NewScratch(func(spec testbeds.Spec) (orchestrator.Testbed, error) { return rack.Build(spec) })
	t.Cleanup(func() {
		s.Close()
		if err := rack.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func parse(t testing.TB, text string) *config.Test {
	t.Helper()
	test, err := config.Parse("test.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return test
}

// BenchmarkScratchRun runs one message of ten packets with one loss, as candela fuzz does for each candidate.
func BenchmarkScratchRun(b *testing.B) {
	s, test := newScratch(b), parse(b, tenPackets)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(b.Context(), test); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAFailedRunCanBeJudgedAnew compares the second verdict with that of a separate run, and checks that runs in
// between do not change the facts.
func TestAFailedRunCanBeJudgedAnew(t *testing.T) {
	const text = "name: exhausted\ntraffic:\n  message-size: 10240\n  max-retransmit-retry: 1\n" +
		"  data-pkt-events: [{qpn: 1, psn: 5, iter: any, type: drop}, {qpn: 1, psn: 2, type: delay, delay-us: 30}]\n"
	s := newScratch(t)
	test := parse(t, text+"expect:\n  completion: {qpn 1: {status: IBV_WC_SUCCESS}}\n")
	failed, err := s.Run(t.Context(), test)
	if err != nil {
		t.Fatal(err)
	}
	expecting := parse(t, text+"expect:\n  completion: {qpn 1: {status: IBV_WC_RETRY_EXC_ERR}}\n")
	want, err := s.Run(t.Context(), expecting)
	if err != nil {
		t.Fatal(err)
	}
	if failed.Verdict.Exit != orchestrator.ExitFail || want.Verdict.Exit == orchestrator.ExitFail {
		t.Fatalf("%v and %v: want a run that fails unless failure is expected", failed.Verdict, want.Verdict)
	}
	rejudged, ok, err := failed.Expecting(t.Context(), expecting)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if diff := cmp.Diff([]any{want.Verdict, want.Analysis}, []any{rejudged.Verdict, rejudged.Analysis}); diff != "" {
		t.Errorf("(-run +judged anew)\n%s", diff)
	}
	if _, ok, _ := want.Expecting(t.Context(), test); ok {
		t.Error("a run that passed remembers everything")
	}
}
