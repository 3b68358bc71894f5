package comparison_test

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
)

// TestBlindAndParanoidJudgesDisagree checks the comparison itself: a judge that sees nothing misses, one that convicts all the time
// raises false alarms.
func TestBlindAndParanoidJudgesDisagree(t *testing.T) {
	blind := func(*oracle.Trace) ([]analyzers.Finding, error) { return nil, nil }
	paranoid := func(*oracle.Trace) ([]analyzers.Finding, error) {
		return []analyzers.Finding{
			{Rule: "gbn.psn-skip", Severity: analyzers.Violation, Packets: []uint64{1}},
			{Rule: "gbn.msn", Severity: analyzers.Violation, Packets: []uint64{1}},
		}, nil
	}
	kinds := map[comparison.Kind]int{}
	for i := range 2000 {
		tr := comparison.Draw(rand.New(rand.NewPCG(1, uint64(i))))
		for _, judge := range []comparison.Judge{blind, paranoid} {
			list, err := comparison.Compare(tr, judge)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range list {
				kinds[d.Kind]++
			}
		}
	}
	for _, k := range []comparison.Kind{comparison.FalseAlarm, comparison.Missed, comparison.TooSevere} {
		if kinds[k] < 100 {
			t.Errorf("%v: %d", k, kinds[k])
		}
	}
}

// TestMinimisedTracesStayInTheirClass deletes what a disagreement does not need.
func TestMinimisedTracesStayInTheirClass(t *testing.T) {
	blind := func(*oracle.Trace) ([]analyzers.Finding, error) { return nil, nil }
	tr, err := oracle.Parse(`
		> send-only 0 ar
		< ack 0 msn=1
		> send-only 1 ar
		> send-only 2 ar
		< ack 2 msn=3
		> send-only 5 ar`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := comparison.Compare(tr, blind)
	if err != nil || len(list) != 1 || list[0].Kind != comparison.Missed || list[0].Endpoint != oracle.Requester {
		t.Fatalf("%v, %+v", err, list)
	}
	small := comparison.Minimise(list[0], blind)
	if small.Class() != list[0].Class() || len(small.Trace.Packets) != 1 {
		t.Errorf("%s:\n%v", small.Class(), small.Trace)
	}
}

// TestTheNotationIsReadBack prints random traces and reads them again.
func TestTheNotationIsReadBack(t *testing.T) {
	for i := range 500 {
		tr := comparison.Draw(rand.New(rand.NewPCG(2, uint64(i))))
		again, err := oracle.Parse(tr.String())
		if err != nil {
			t.Fatalf("%v\n%v", err, tr)
		}
		if again.String() != tr.String() {
			t.Fatalf("read back:\n%v\nfrom:\n%v", again, tr)
		}
	}
}
