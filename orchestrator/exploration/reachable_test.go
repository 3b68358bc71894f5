package exploration_test

import (
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/exploration"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// explored is the result of a short exploration of a test.
func explored(t testing.TB, text string, runs int) exploration.Report {
	t.Helper()
	base, err := config.Parse("base.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rack virtual.Rack
	s := orchestrator.NewScratch(func(spec testbeds.Spec) (orchestrator.Testbed, error) { return rack.Build(spec) })
	defer func() {
		s.Close()
		if err := rack.Close(); err != nil {
			t.Error(err)
		}
	}()
	e := exploration.New(base, exploration.Options{Seed: 5, Runs: runs, Runners: []reduction.Runner{s.Run}})
	if err := e.Explore(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e.Report()
}

const sound = "name: sound\ntraffic:\n  message-size: 10240\n"

// TestASoundNICIsNotBlamedAndNothingOutOfReachIsReached holds rules and obstacles against random tests.
func TestASoundNICIsNotBlamedAndNothingOutOfReachIsReached(t *testing.T) {
	runs := 800
	if testing.Short() {
		runs = 200
	}
	r := explored(t, sound, runs)
	if len(r.Rules) > 0 {
		t.Errorf("a NIC without faults violates %v", r.Rules)
	}
	if len(r.Contradicted) > 0 {
		t.Errorf("out of reach, and taken: %v", r.Contradicted)
	}
	if !slices.IsSorted(r.Missing) || r.Covered+len(r.Missing) != r.Reachable || r.Reachable > r.Declared {
		t.Errorf("%d covered, %d missing, %d reachable, %d declared", r.Covered, len(r.Missing), r.Reachable, r.Declared)
	}
	if r.Covered < 40 {
		t.Errorf("only %d transitions covered in %d runs", r.Covered, r.Runs)
	}
}

// TestTheStartsAloneTakeEveryReachableTransition makes sure that a fuzzer has them in its first second.
func TestTheStartsAloneTakeEveryReachableTransition(t *testing.T) {
	r := explored(t, sound, 1)
	if len(r.Missing) > 0 {
		t.Errorf("no start takes %v", r.Missing)
	}
	if len(r.Contradicted) > 0 {
		t.Errorf("out of reach, and taken: %v", r.Contradicted)
	}
	t.Logf("%d runs: %d of %d reachable transitions", r.Runs, r.Covered, r.Reachable)
}

// TestABrokenNICIsCaughtByWhatItMakesOfForgedPackets checks that the possible meanings of forged packets acquit nobody.
func TestABrokenNICIsCaughtByWhatItMakesOfForgedPackets(t *testing.T) {
	s := newScratch(t)
	for _, tt := range []struct{ name, bug, data, control, rule string }{
		{"a PSN far ahead, NAKed wrong", "nack-psn-plus-one", "{qpn: 1, psn: 5, type: rewrite, field: psn, value: 9}", "",
			"gbn.nak-psn"},
		{"a PSN that was received, NAKed", "nack-duplicates", "{qpn: 1, psn: 5, type: rewrite, field: psn, value: 2}", "",
			"gbn.nak-repeat"},
		{"another queue pair, which is a loss that is NAKed wrong", "nack-psn-plus-one",
			"{qpn: 1, psn: 5, type: rewrite, field: dest-qpn, value: 77}", "", "gbn.nak-psn"},
		{"the end of a message in its middle, executed", "accepts-opcode-sequence",
			"{qpn: 1, psn: 5, type: rewrite, field: opcode, value: 8}", "", "gbn.nak-fatal-missing"},
		{"an ACK that became a NAK, obeyed wrong", "retransmit-skips-first", "",
			"{qpn: 1, packet: ack, nth: 1, type: rewrite, field: syndrome, value: 96}", "gbn.timeout-start"},
		{"an ACK that became an RNR NAK, obeyed too early", "rnr-no-wait", "",
			"{qpn: 1, packet: ack, nth: 3, type: rewrite, field: syndrome, value: 44}", "gbn.rnr-early"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			broken := "{nic: {bugs: [" + tt.bug + "]}}"
			text := "name: forged\nrequester: " + broken + "\nresponder: " + broken +
				"\ntraffic:\n  message-size: 10240\n  num-msgs-per-qp: 3\n" +
				"  tx-depth: 3\n  data-pkt-events: [" + tt.data + "]\n  control-pkt-events: [" + tt.control + "]\n"
			if rules := violated(t, s, text); !slices.Contains(rules, tt.rule) {
				t.Errorf("%s: violated %v, want %s", tt.bug, rules, tt.rule)
			}
			if rules := violated(t, s, strings.ReplaceAll(text, tt.bug, "")); len(rules) > 0 {
				t.Errorf("without fault: violated %v", rules)
			}
		})
	}
}

// violated returns the rules that a test violates.
func violated(t *testing.T, s *orchestrator.Scratch, text string) (rules []string) {
	t.Helper()
	test, err := config.Parse("forged.yml", []byte(text), models())
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Run(t.Context(), test)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

// BenchmarkExplore is a fuzzed run: a random change, the run itself, and its judgement.
func BenchmarkExplore(b *testing.B) {
	b.ReportAllocs()
	r := explored(b, sound, b.N)
	b.ReportMetric(float64(r.Runs)/b.Elapsed().Seconds(), "runs/s")
}
