package orchestrator_test

import (
	"testing"

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
