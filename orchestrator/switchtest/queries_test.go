package switchtest_test

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
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
