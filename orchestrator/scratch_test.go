package orchestrator_test

import (
	"os"
	"path/filepath"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

const tenPackets = "name: ten\ntraffic:\n  message-size: 10240\n  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]\n"

func newScratch(t testing.TB) *orchestrator.Scratch {
	t.Helper()
	s, err := orchestrator.NewScratch(func(spec testbeds.Spec) (orchestrator.Testbed, error) { return virtual.New(spec) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
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

func TestAScratchRunLeavesNothingBehind(t *testing.T) {
	s, test := newScratch(t), parse(t, tenPackets)
	for range 3 {
		o, err := s.Run(t.Context(), test)
		if err != nil {
			t.Fatal(err)
		}
		if o.Verdict.Exit != orchestrator.ExitPass || o.Analysis == nil {
			t.Errorf("verdict %+v", o.Verdict)
		}
		if left, err := os.ReadDir(filepath.Dir(o.Dir)); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// BenchmarkScratchRun is a run of one message of ten packets with one loss: what candela fuzz does for each candidate.
func BenchmarkScratchRun(b *testing.B) {
	s, test := newScratch(b), parse(b, tenPackets)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(b.Context(), test); err != nil {
			b.Fatal(err)
		}
	}
}
