package hcsfq

import (
	"math"
	"strings"
	"testing"

	"candela.dev/candela/reproduce/comparison"
)

// A run that was not made says so in its rows, which are not judged; those of one that was are.
func TestConnectionsThatWereNotMeasuredAreSkipped(t *testing.T) {
	_, base, err := publication().Open(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for _, c := range []struct {
		skipped string
		value   float64
		missed  int
	}{{"", 1, 0}, {"", 2, 2}, {"no root", math.NaN(), 0}, {"no root", 0, 0}} {
		base.Results = comparison.Results{}
		l, p := &lab{Lab: base}, &livePoint{skipped: c.skipped}
		l.row(p, shapeLive, comparison.NewRow("", "ratio", "times", 1, 1, toleranceTCP, c.value))
		l.row(p, statedLive, comparison.NewBound("", "bound", "times", comparison.AtMost, 1.1, 0, c.value))
		if got := misses(&base.Results); len(got) != c.missed {
			t.Errorf("%+v: missed are %q", c, got)
		}
		for i := range base.Results.Rows {
			if r := &base.Results.Rows[i]; strings.Contains(r.Why, "SKIP: no root") != (c.skipped != "") || r.ID != idLive {
				t.Errorf("%s: %s: %s", r.ID, r.What, r.Why)
			}
		}
	}
}

func TestAKernelWithoutACongestionControlIsNamed(t *testing.T) {
	if why := lacks("none of these"); why != "" && !strings.Contains(why, "the kernel has no none of these: ") {
		t.Error(why)
	}
	if why := lacks(); why != "" {
		t.Error(why)
	}
}
