package switchtest_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

func queriesTest(transport, more string) string {
	return fmt.Sprintf(`
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}}
switch-under-test: {model: ndp-ideal}
hosts: {transport: %s}
workload: [queries: {servers: 5, queries-per-s: 20000, stop-us: 1000, size-bytes: 20000, service-us: 20, tenant: 2}]
%s
`, transport, more)
}

// groupOf returns a group of the statistics.
func groupOf(t *testing.T, dir, by string) switchtest.Group {
	t.Helper()
	for _, g := range flowsOf(t, dir).Statistics.Groups {
		if g.By == by {
			return g
		}
	}
	t.Fatalf("there is no group by %s", by)
	return switchtest.Group{}
}

// The completion time of a query is that of its last flow, in every mode and over every transport.
func TestQueriesCompleteWithTheirLastFlow(t *testing.T) {
	for _, c := range [][2]string{{"ndp", "judge: off"}, {"ndp", "judge: full"}, {"tcp", "judge: off"},
		{"tcp", "judge: full"}} {
		o := outcome(t, queriesTest(c[0], c[1]+"\nexpect: {completed-queries: 1, completed-flows: 1, qct-us: {min: 80}}"))
		if o.Verdict.Exit != orchestrator.ExitPass {
			t.Fatalf("%v: %+v", c, o.Verdict)
		}
		longest, queries := map[int]int64{}, map[int]int{}
		for _, f := range flowsOf(t, o.Dir).Flows {
			longest[f.Query] = max(longest[f.Query], f.FCTNS)
			queries[f.Query]++
		}
		var sum float64
		for q, took := range longest {
			sum += float64(took)
			if queries[q] != 5 {
				t.Errorf("%v: query %d has %d flows", c, q, queries[q])
			}
		}
		g := groupOf(t, o.Dir, "tenant")
		if n := len(longest); n < 10 || g.Name != "2" || g.Queries != int64(n) || g.QueriesCompleted != int64(n) ||
			g.QCT == nil || g.QCT.Mean < sum/float64(n)-1 || g.QCT.Mean > sum/float64(n)+1 {
			t.Errorf("%v: %d queries, mean %.0f ns; statistics: %+v %+v", c, n, sum/float64(n), g, g.QCT)
		}
	}
}

// A query one of whose flows is open is not completed, and an expectation of all queries fails.
func TestOpenQueriesAreNotCompleted(t *testing.T) {
	for _, judge := range []string{"judge: off", "judge: full"} {
		o := outcome(t, queriesTest("ndp", judge+"\nduration-us: 500\nexpect: {completed-queries: 1}"))
		g := groupOf(t, o.Dir, "all")
		if o.Verdict.Exit != orchestrator.ExitFail || g.QueriesCompleted == 0 || g.QueriesCompleted >= g.Queries ||
			g.QCT.Count != g.QueriesCompleted {
			t.Errorf("%s: %+v %+v %+v", judge, o.Verdict, g, g.QCT)
		}
		if !strings.Contains(fmt.Sprint(o.Verdict.Reasons), "completed-queries") {
			t.Errorf("%s: reasons %v", judge, o.Verdict.Reasons)
		}
	}
}

// Requests and responses over Bolt say how much of them is left, so that switches that go by it take them.
func TestQueriesOverBoltHaveRanks(t *testing.T) {
	text := queriesTest("bolt", "taps: {decisions: csv}\nexpect: {completed-queries: 1, completed-flows: 1}")
	text = strings.Replace(text, "{model: ndp-ideal}",
		"{model: vertigo, queue-bytes: 12000, bolt-src: true, bolt-threshold-bytes: 6000}", 1)
	text = strings.Replace(text, "tenant: 2", "rank: remaining", 1)
	o := outcome(t, text)
	if o.Verdict.Exit != orchestrator.ExitPass || o.Analysis.Coverage["deflect"]["victims"] == 0 {
		t.Errorf("%+v, %v", o.Verdict, o.Analysis.Coverage)
	}
}

// lossyLoops are queries and a closed loop that lose packets and reorder them.
func lossyLoops(hosts, model, rank string) string {
	return fmt.Sprintf(`
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}}
switch-under-test: %s
hosts: %s
workload:
  - queries: {servers: 7, queries-per-s: 4000, stop-us: 1000, size-bytes: 60000, service-us: 20, tenant: 2%s}
  - requests: {clients: 0..2, server: 5, count: 3, request-bytes: 5000, response-bytes: 30000, service-us: 3%s}
`, model, hosts, rank, rank)
}

// Endpoints say of requests and responses what taps see of them, in both directions.
func TestStatisticsOfLoopsAreThoseOfTaps(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, c := range []struct{ hosts, model, rank string }{
		{"{transport: tcp, min-rto-us: 1000}", "{model: droptail, data-queue-bytes: 12000}", ""},
		{"{transport: tcp, congestion-control: dctcp, handshake: true, min-rto-us: 1000}",
			"{model: pd, queue-bytes: 15000}", ", rank: remaining"},
		{"{transport: ndp}", "{model: ndp-ideal, data-queue-bytes: 12000}", ""},
		{"{transport: bolt, rto-us: 1000}", "{model: dibs, queue-bytes: 12000}", ""},
		{"{transport: pfabric}", "{model: pifo, queue-bytes: 12000}", ""},
	} {
		text := lossyLoops(c.hosts, c.model, c.rank)
		full := outcome(t, text+"judge: full\n")
		off := outcome(t, text+"judge: off\nexpect: {completed-flows: 1}\n")
		var lost, reordered, finished int64
		endpoints := flowsOf(t, off.Dir).Flows
		for i, f := range flowsOf(t, full.Dir).Flows {
			lost, reordered = lost+f.Retransmissions, reordered+f.Reordered
			if f.Finished {
				finished++
			}
			e := endpoints[i]
			// Taps see duplicates after the end of a direction, and what has been trimmed.
			e.Duplicates, e.Returned, e.Dropped, e.Headers = f.Duplicates, f.Returned, f.Dropped, f.Headers
			if !reflect.DeepEqual(e, f) {
				t.Errorf("%s: endpoints\n%+v, taps\n%+v", c.hosts, e, f)
			}
			if f.Sent < f.Whole || f.Payload == 0 {
				t.Errorf("%s: %+v", c.hosts, f)
			}
		}
		a, b := groupOf(t, full.Dir, "tenant"), groupOf(t, off.Dir, "tenant")
		if a.Sent != b.Sent || a.Sent == 0 || a.Reordered != b.Reordered || a.Payload != b.Payload ||
			a.Retransmissions != b.Retransmissions || a.Timeouts != b.Timeouts {
			t.Errorf("%s: taps %+v, endpoints %+v", c.hosts, a, b)
		}
		t.Logf("%s: %d flows finished, %d retransmitted, %d reordered, %d sent", c.hosts, finished, lost, reordered, a.Sent)
		if lost == 0 || reordered == 0 || finished == 0 {
			t.Errorf("%s: %d flows finished, %d packets were retransmitted, %d reordered: this shows little", c.hosts, finished,
				lost, reordered)
		}
	}
}
