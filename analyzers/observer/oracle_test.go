package observer_test

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
)

// TestEndpointsInSingleCapturesAreJudgedLikeTheOracle compares observer and oracle on random traces, three of four with
// a faulty endpoint. No difference is allowed.
func TestEndpointsInSingleCapturesAreJudgedLikeTheOracle(t *testing.T) {
	agree(t, 18, 6000, func(tr *oracle.Trace, _ oracle.Endpoint) bool { return tr.View.Plain })
}

// TestEndpointsInMirrorsAndPairsAreJudgedLikeTheOracle is the same where the trace shows what arrives.
func TestEndpointsInMirrorsAndPairsAreJudgedLikeTheOracle(t *testing.T) {
	agree(t, 17, 6000, func(tr *oracle.Trace, _ oracle.Endpoint) bool { return !tr.View.Plain })
}

// limits returns what a view knows.
func limits(v oracle.View) observer.Limits {
	known := func(n int) observer.Limit { return observer.Limit{Known: n >= 0, Max: max(n, 0)} }
	return observer.Limits{
		TimeoutNS: v.TimeoutNS, HostDelayNS: v.HostDelayNS,
		Retry: known(v.Retry), RNRRetry: known(v.RNRRetry), AtRest: v.Closed,
	}
}

// agree draws traces and judges the endpoints both ways.
func agree(t *testing.T, seed uint64, traces int, judge func(*oracle.Trace, oracle.Endpoint) bool) {
	t.Helper()
	if testing.Short() {
		traces /= 3
	}
	judged := map[oracle.Verdict]int{}
	for i := range traces {
		tr := comparison.Draw(rand.New(rand.NewPCG(seed, uint64(i))))
		if !judge(tr, oracle.Requester) {
			continue
		}
		for _, seen := range observe(tr) {
			e := endpoint(&seen)
			if !judge(tr, e) {
				continue
			}
			want := oracle.Decide(tr, e).Verdict
			if got := worst(&seen); got != want {
				t.Fatalf("%v: %v; the oracle says %v of\n%v%+v", e, got, want, tr, seen)
			}
			judged[want]++
		}
	}
	if judged[oracle.Violation] < traces/20 || judged[oracle.Possible] < traces/4 {
		t.Errorf("only %v of %d traces were judged", judged, traces)
	}
}

// observe returns what the observer makes of a trace.
func observe(tr *oracle.Trace) []analyzers.Observed {
	c := tr.Checked(oracle.Connections())
	o := observer.New(c.Meta(), observer.Config{Default: limits(tr.View)})
	records := tr.Records()
	for i := range records {
		o.Packet(&records[i])
	}
	return o.Finish()
}

func endpoint(seen *analyzers.Observed) oracle.Endpoint {
	e := oracle.Requester
	if seen.Flow.Reverse() {
		e = oracle.OtherRequester
	}
	if seen.Responder {
		e++
	}
	return e
}

// worst returns the verdict of the worst finding about an endpoint.
func worst(seen *analyzers.Observed) oracle.Verdict {
	v := oracle.Possible
	for i := range seen.Unexplained {
		if seen.Unexplained[i].Severity == analyzers.Violation {
			return oracle.Violation
		}
		v = oracle.Warning
	}
	return v
}
