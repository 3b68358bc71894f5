package comparison_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
)

var update = flag.Bool("update", false, "rewrite testdata/open.txt")

// TestBlindAndParanoidJudgesDisagree checks the comparison: a judge that sees nothing misses faults, one that always
// convicts raises false alarms.
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

// TestTheNotationIsReadBack prints random traces and parses them.
func TestTheNotationIsReadBack(t *testing.T) {
	for i := range 500 {
		tr := comparison.Draw(rand.New(rand.NewPCG(2, uint64(i))))
		parsed, err := oracle.Parse(tr.String())
		if err != nil {
			t.Fatalf("%v\n%v", err, tr)
		}
		if parsed.String() != tr.String() {
			t.Fatalf("read back:\n%v\nfrom:\n%v", parsed, tr)
		}
	}
}

// TestAnalyzersAgreeWithTheOracle judges seeded traces both ways. testdata/open.txt lists the known classes of
// disagreement with their counts. Neither their sum nor any class of false alarms may grow. After a fix, -update
// removes what is gone.
func TestAnalyzersAgreeWithTheOracle(t *testing.T) {
	const file = "testdata/open.txt"
	traces := 6000
	if testing.Short() && !*update {
		traces = 1000 // of the same
	}
	judge := comparison.Analyzers()
	counts, examples := map[string]int{}, map[string]comparison.Disagreement{}
	for i := range traces {
		tr := comparison.Draw(rand.New(rand.NewPCG(14, uint64(i))))
		list, err := comparison.Compare(tr, judge)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.Unjust() && !tr.View.Plain {
				t.Errorf("%s: nobody innocent is blamed where every frame and loss is known; such as\n%vanalyzers %+v", d.Group(),
					tr, d.Findings)
				continue
			}
			counts[d.Group()]++
			if old, ok := examples[d.Group()]; !ok || len(d.Trace.Packets) < len(old.Trace.Packets) {
				examples[d.Group()] = d
			}
		}
	}
	if *update {
		var b strings.Builder
		for _, class := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "%d %s\n", counts[class], class)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	list, sum, allowed := open(t, file), 0, 0
	for _, known := range list {
		allowed += known
	}
	for _, n := range counts {
		sum += n
	}
	for class, n := range counts {
		if kind := examples[class].Kind; kind != comparison.FalseAlarm && kind != comparison.TooSevere && sum <= allowed {
			continue
		}
		if known := list[class]; n > known {
			small := comparison.Minimise(examples[class], judge)
			t.Errorf("%s: %d traces of %d, known are %d; such as\n%voracle says %v at packet %d, analyzers %+v",
				class, n, traces, known, small.Trace, small.Oracle.Verdict, small.Oracle.At+1, small.Findings)
		}
	}
}

func open(t *testing.T, file string) map[string]int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]int{}
	for line := range strings.Lines(string(data)) {
		count, class, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		known[class] = n
	}
	return known
}
