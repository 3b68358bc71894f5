package orchestrator

import (
	"fmt"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
)

// TestExpectationsOfTimesAreReportedOnSoftwareHosts: on software hosts times are reported only, because they depend on
// the machine. Counts and firm bounds decide.
func TestExpectationsOfTimesAreReportedOnSoftwareHosts(t *testing.T) {
	us, one, two, timeout, quarter := clock.Microsecond, int64(1), int64(2), 64*clock.Millisecond, 16*clock.Millisecond
	measured := func(values ...int64) analyzers.Metric {
		d := analyzers.NewDistribution("m", analyzers.UnitNS, 0)
		for _, v := range values {
			d.Record(v)
		}
		return d.Metric()
	}
	for _, tt := range []struct {
		name              string
		bound             *config.Bound
		metric            analyzers.Metric
		decides, reported int // on software hosts; on hardware hosts all decide
	}{
		{"no bound", nil, measured(5000), 0, 0},
		{"within bounds", &config.Bound{Max: &us, Count: &one}, measured(500), 0, 0},
		{"too slow", &config.Bound{Max: &us}, measured(5000), 0, 1},
		{"too fast", &config.Bound{Min: &us}, measured(500), 0, 1},
		{"too slow, by a bound for the machine", &config.Bound{Max: &us, Firm: true}, measured(5000), 1, 0},
		{"too few", &config.Bound{Count: &two}, measured(500), 1, 0},
		{"too few and too slow", &config.Bound{Max: &us, Count: &two}, measured(5000), 1, 1},
		{"nothing to bound", &config.Bound{Max: &us}, measured(), 1, 0},
		{"a wait cannot make it that fast", &config.Bound{Min: &timeout}, measured(500), 1, 0},
		{"waits cannot make it that slow", &config.Bound{Max: &timeout}, measured(900_000_000), 1, 0},
		{"waits can make it that slow", &config.Bound{Max: &quarter}, measured(60_000_000), 0, 1},
		{"a wait can make a timeout that short", &config.Bound{Min: &timeout}, measured(63_000_000), 0, 1},
		{"a mean within bounds", &config.Bound{Mean: &config.TimeLimit{Max: &us}}, measured(500, 600, 1500), 0, 0},
		{"a mean that is too slow", &config.Bound{Mean: &config.TimeLimit{Max: &us}}, measured(500, 500, 5000), 0, 1},
		{"a mean that is too fast", &config.Bound{Mean: &config.TimeLimit{Min: &us}}, measured(500, 1300), 0, 1},
		{"a median within bounds", &config.Bound{P50: &config.TimeLimit{Max: &us}}, measured(500, 500, 500, 500, 5000), 0, 0},
		{"a 99th percentile that is too slow", &config.Bound{P50: &config.TimeLimit{Max: &us},
			P99: &config.TimeLimit{Max: &us}}, measured(500, 500, 500, 500, 5000), 0, 1},
		{"mean and largest value", &config.Bound{Max: &us, Mean: &config.TimeLimit{Max: &us}}, measured(5000), 0, 2},
		{"waits cannot make a mean that slow", &config.Bound{Mean: &config.TimeLimit{Max: &timeout}}, measured(900_000_000), 1,
			0},
		{"a mean of nothing", &config.Bound{Mean: &config.TimeLimit{Max: &us}}, measured(), 1, 0},
		{"nothing, as wanted", &config.Bound{Max: &us, Count: new(int64)}, measured(), 0, 0},
	} {
		for _, software := range []bool{false, true} {
			u := unmet{software: software, timeout: timeout}
			u.bound("expect.x", tt.bound, tt.metric)
			decides, reported := tt.decides, tt.reported
			if !software {
				decides, reported = decides+reported, 0
			}
			if len(u.decide) != decides || len(u.reported) != reported {
				t.Errorf("%s, software hosts %v: decides %q, reported %q; want %d and %d", tt.name, software, u.decide, u.reported,
					decides, reported)
			}
		}
	}
}

// TestCountsOfCNPsDecideUnlessTheyArePaced: the number of CNPs of a notification point that answers every mark does not
// depend on the machine's speed.
func TestCountsOfCNPsDecideUnlessTheyArePaced(t *testing.T) {
	for _, tt := range []struct {
		microseconds      int
		kind              string
		decides, reported int
	}{{0, config.KindNetns, 1, 0}, {4, config.KindNetns, 0, 1}, {4, config.KindVM, 0, 1}, {4, config.KindVirtual, 1, 0},
		{0, config.KindVirtual, 1, 0}} {
		test, err := config.Parse("t.yml", fmt.Appendf(nil, `name: x
testbed: bed.yml
requester: {roce-parameters: {min-time-between-cnps: %[1]d}}
responder: {roce-parameters: {min-time-between-cnps: %[1]d}}
traffic: {}
expect: {cnp: {per-connection: [2]}}
`, tt.microseconds), config.Options{ReadFile: func(string) ([]byte,
			error) {
			return []byte("name: bed\nkind: " + tt.kind + "\n"), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		u := unmet{software: !test.Testbed.HardwareTimes()}
		u.cnpCounts(test, &Summary{Flows: make([]FlowSummary, 2)})
		if len(u.decide) != tt.decides || len(u.reported) != tt.reported {
			t.Errorf("%d us on %s: decides %q, reported %q", tt.microseconds, tt.kind, u.decide, u.reported)
		}
	}
}
