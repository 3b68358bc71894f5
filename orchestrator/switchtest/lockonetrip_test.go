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
	for _, test := range tests {
		o := run(t, test)
		if o.Verdict.Exit != orchestrator.ExitPass {
			t.Fatalf("%s: %v", test.Title(), o.Verdict)
		}
		for _, m := range o.Analysis.Metrics {
			if m.Name == "flows.rtt" {
				trips = append(trips, float64(m.Sum)/float64(m.Count))
				break
			}
		}
		n := counters(t, o)
		if queries, once := n["host-0.locks.queries"], len(trips) == 1; (queries == 0) != once ||
			once != (o.Analysis.Coverage["lock"]["to-database"] == 800) {
			t.Errorf("%s: %d queries, %v", test.Title(), queries, o.Analysis.Coverage["lock"])
		}
	}
	for i, want := range []float64{1, 1.5, 2} {
		if len(trips) != 3 || math.Abs(trips[i]/trips[0]-want) > 0.01 {
			t.Errorf("mean round trips are %v ns, want those of 1, 1.5 and 2 RTT", trips)
		}
	}
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
