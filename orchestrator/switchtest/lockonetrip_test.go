package switchtest_test

import (
	"fmt"
	"math"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/runtimetest"
)

// With the variant of one round trip a client has lock and row after 1 RTT, otherwise after 1.5 RTT if the switch
// grants and 2 RTT if a server does (reference model netlock.md, section 5.3).
func TestARowTakesOneRoundTripBesideOneAndAHalfAndTwo(t *testing.T) {
	tests, err := config.LoadSwitchTests("../../configs/lock/one-rtt.yml", configOptions())
	if err != nil {
		t.Fatal(err)
	}
	var trips []float64
	for i, test := range tests {
		o := run(t, test)
		trips = append(trips, meanTrip(t, o, i, 800))
	}
	for i, want := range []float64{1, 1.5, 2} {
		if len(trips) != 3 || math.Abs(trips[i]/trips[0]-want) > 0.01 {
			t.Errorf("mean round trips are %v ns, want those of 1, 1.5 and 2 RTT", trips)
		}
	}
}

// The same with UDP sockets: the round trips are those of the kernels, on a machine that may be busy.
func TestARowTakesOneRoundTripOnRealFrames(t *testing.T) {
	tests := load(t, "../../configs/lock/one-rtt-live.yml")
	if needsRealFrames(t) {
		tests = tests[:1]
	}
	const link, slack = 2e6, 0.24 // of RTTs: a quarter is half of the least difference
	links := []float64{4, 6, 8}
	for i, test := range tests {
		trip := meanTrip(t, runsLive(t, test), i, 100)
		if trip < links[i]*link || trip > (links[i]/4+slack)*4*link {
			t.Errorf("run %d: the mean round trip is %v ns, want that of %v links of %v ns", i, trip, links[i], link)
		}
	}
}

// meanTrip returns the mean round trip, in nanoseconds, of transactions in a run that is to pass. In the first the
// switch asks the database, in others the clients do.
func meanTrip(t *testing.T, o *orchestrator.Outcome, run, transactions int) float64 {
	t.Helper()
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Fatalf("run %d: %v", run, o.Verdict)
	}
	asked, seen := transactions, 0
	if run == 0 {
		asked, seen = 0, transactions
	}
	if n := counters(t, o); n["host-0.locks.queries"] != int64(asked/4) ||
		o.Analysis.Coverage["lock"]["to-database"] != int64(seen) {
		t.Errorf("run %d: %d queries, %v", run, n["host-0.locks.queries"], o.Analysis.Coverage["lock"])
	}
	for _, m := range o.Analysis.Metrics {
		if m.Name == "flows.rtt" {
			return float64(m.Sum) / float64(m.Count)
		}
	}
	t.Fatalf("run %d has no round trips", run)
	return 0
}

const oneTrip = `
topology: {kind: single-switch, hosts: 10, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
switch-under-test: {model: netlock, locks: 6, slots-each: 4, databases: 9, lease-us: 600, poll-us: 100%s}
hosts: {transport: netlock, host-delay-ns: 1000, host-jitter-ns: 1500, lease-us: 600, poll-us: 100}
workload:
  - locks: {clients: 0..7, servers: 8, databases: 9, queries: on, threads: 2, locks: 8, shared: 0.4, think-us: 3,
      timeout-us: 300}
duration-us: 3000
`

// A switch that queues what the database is asked, forgets it, or answers the client too, violates the rule of its bug.
func TestSwitchesThatAskTheDatabaseWronglyAreConvicted(t *testing.T) {
	runtimetest.SkipRace(t)
	if found, n := lockRun(t, fmt.Sprintf(oneTrip, "")); len(found) > 0 || n["to-database"] < 300 ||
		n["to-database"] > n["grants-switch"]-300 || n["pushed-back"] == 0 {
		t.Errorf("without a bug: %v, %v", found, n)
	}
	for _, m := range configOptions().Switches {
		for _, b := range m.Bugs {
			if m.Name != "netlock" || b.Name != "queues-query" && b.Name != "loses-query" && b.Name != "answers-both" {
				continue
			}
			if found, n := lockRun(t, fmt.Sprintf(oneTrip, ", bugs: ["+b.Name+"]")); found[b.Rule] == "" {
				t.Errorf("%s: violated are %v, want %s; %v", b.Name, found, b.Rule, n)
			}
		}
	}
}
