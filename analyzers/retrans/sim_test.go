package retrans_test

import (
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/trace"
)

const exponent = 14

var simulated = retrans.Params{Known: true, TimeoutExponent: exponent, RetryCount: 7, RNRRetry: 7}

// run analyses a simulation.
func run(sc tracetest.Scenario, cfg retrans.Config) (analyzers.Result, tracetest.Truth, []trace.Record) {
	records, truth := tracetest.Simulate(sc)
	a := retrans.New(tracetest.Meta(tracetest.Connections(sc.Connections, false)), cfg)
	for i := range records {
		a.Packet(&records[i])
	}
	return a.Finish(), truth, records
}

// drawScenario draws endpoints with delays of up to 10 ms on each side, constant or not, and any share of losses.
func drawScenario(t *rapid.T) tracetest.Scenario {
	sc := tracetest.Scenario{
		Seed:        rapid.Uint64().Draw(t, "seed"),
		Connections: rapid.IntRange(1, 3).Draw(t, "connections"),
		Messages:    rapid.IntRange(1, 6).Draw(t, "messages"),
		Packets:     rapid.IntRange(1, 12).Draw(t, "packets"),
		Depth:       rapid.IntRange(1, 3).Draw(t, "depth"),
		Reads:       rapid.Bool().Draw(t, "reads"),
		DelayMin:    rapid.SampledFrom([]int64{0, 500, 100_000, 10_000_000}).Draw(t, "delay"),
		Loss:        rapid.SampledFrom([]float64{0, 0.02, 0.1, 0.3}).Draw(t, "loss"),
		NotReady:    rapid.SampledFrom([]float64{0, 0, 0.1}).Draw(t, "not ready"),
		Timeout:     4096 << exponent,
		CNPInterval: -1,
	}
	sc.DelayMax = sc.DelayMin + rapid.SampledFrom([]int64{0, 300, 50_000}).Draw(t, "jitter")
	if sc.DelayMin < 10_000_000 && rapid.Bool().Draw(t, "wild") {
		sc.DelayMax = 10_000_000
	}
	return sc
}

func TestConformingEndpointsAreNeverConvicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := drawScenario(t)
		result, _, records := run(sc, retrans.Config{Default: simulated})
		if len(result.Findings) > 0 {
			f := result.Findings[0]
			t.Fatalf("finding %+v in\n%s", f, tracetest.Format(records, f.Connection))
		}
	})
}

func TestConformingEndpointsWithShortTimeoutsAreNeverConvicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := drawScenario(t)
		const short = 8 // 1 ms
		sc.Timeout = 4096 << short
		sc.DelayMin = rapid.SampledFrom([]int64{0, 500, 100_000}).Draw(t, "short delay")
		sc.DelayMax = sc.DelayMin + rapid.SampledFrom([]int64{0, 300, 100_000}).Draw(t, "short jitter")
		params := simulated
		params.TimeoutExponent = short
		result, _, records := run(sc, retrans.Config{Default: params})
		for _, f := range result.Findings {
			t.Fatalf("finding %+v in\n%s", f, tracetest.Format(records, f.Connection))
		}
	})
}

func TestLatenciesAreTrueUpToTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := drawScenario(t)
		sc.Connections, sc.Reads, sc.NotReady = 1, false, 0
		sc.DelayMin, sc.DelayMax = 500, 500+rapid.Int64Range(0, 2000).Draw(t, "jitter")
		result, truth, _ := run(sc, retrans.Config{})
		compare(t, result, "retrans.nack-generation", truth.Generation, 2*sc.DelayMax)
		compare(t, result, "retrans.nack-reaction", truth.Reaction, 2*sc.DelayMax)
	})
}

// compare checks that each measured value is the true one plus at most the round trip between switch and host and the
// wait in the host's queue.
func compare(t *rapid.T, result analyzers.Result, name string, truth []int64, roundTrip int64) {
	const queue = 1_000 // a few packets that leave or arrive just before
	for _, m := range result.Metrics {
		if m.Name != name || m.Connection != 0 {
			continue
		}
		if len(m.Values) != len(truth) {
			t.Fatalf("%s: measured %v, true %v", name, m.Values, truth)
		}
		for i, v := range m.Values {
			if v < truth[i] || v > truth[i]+roundTrip+queue {
				t.Fatalf("%s[%d]: measured %d, true %d, round trip %d", name, i, v, truth[i], roundTrip)
			}
		}
		return
	}
	t.Fatalf("no metric %s", name)
}

func TestSeededBugsAreConvicted(t *testing.T) {
	tests := []struct {
		name, rule string
		bug        tracetest.Bug
	}{
		{"a timer that expires after a quarter of its time", retrans.RuleTimeoutEarly, tracetest.EarlyTimeout},
		{"an RNR NAK that is answered at once", retrans.RuleRNREarly, tracetest.ImpatientRNR},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, _, _ := run(tracetest.Scenario{
				Seed: 1, Connections: 2, Messages: 50, Packets: 10, Depth: 1, DelayMin: 500, DelayMax: 600,
				Loss: 0.05, NotReady: 0.05, Timeout: 4096 << exponent, CNPInterval: -1, Bug: test.bug,
			}, retrans.Config{Default: simulated})
			if len(result.Findings) == 0 {
				t.Fatal("no finding")
			}
			for _, f := range result.Findings {
				if f.Rule != test.rule {
					t.Errorf("finding %+v", f)
				}
			}
		})
	}
}
