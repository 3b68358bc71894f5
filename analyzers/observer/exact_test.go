package observer_test

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
)

// limits returns what a view knows.
func limits(v oracle.View) observer.Limits {
	known := func(n int) observer.Limit { return observer.Limit{Known: n >= 0, Max: max(n, 0)} }
	return observer.Limits{
		TimeoutNS: v.TimeoutNS, HostDelayNS: v.HostDelayNS, Retry: known(v.Retry), RNRRetry: known(v.RNRRetry), AtRest: v.Closed,
	}
}

// TestRequestersInMirrorsAndPairsAreJudgedLikeTheOracle holds the observer against the oracle where the trace shows what arrives. Not even
// one difference is allowed.
func TestRequestersInMirrorsAndPairsAreJudgedLikeTheOracle(t *testing.T) {
	traces := 12_000
	if testing.Short() {
		traces = 4000
	}
	guilty, judged := 0, 0
	for i := range traces {
		tr := comparison.Draw(rand.New(rand.NewPCG(17, uint64(i))))
		if tr.View.Plain || tr.TwoWay() && tr.View.Closed {
			continue // what a queue pair owes that is in error as responder is not known
		}
		c := tr.Checked(oracle.Connections())
		o := observer.New(c.Meta(), observer.Config{Default: limits(tr.View)})
		records := tr.Records()
		for k := range records {
			o.Packet(&records[k])
		}
		for _, seen := range o.Finish() {
			if seen.Responder {
				continue
			}
			e := oracle.Requester
			if seen.Flow.Reverse() {
				e = oracle.OtherRequester
			}
			judged++
			decision := oracle.Decide(tr, e)
			if decision.Verdict != oracle.Possible {
				guilty++
			}
			if got := len(seen.Unexplained) > 0; got != (decision.Verdict != oracle.Possible) {
				t.Errorf("%v: %v; the oracle says %v at %d of\n%v", e, seen.Unexplained, decision.Verdict, decision.At+1, tr)
			}
		}
	}
	if guilty < judged/20 || judged < traces/2 {
		t.Errorf("%d of %d requesters were guilty", guilty, judged)
	}
}
