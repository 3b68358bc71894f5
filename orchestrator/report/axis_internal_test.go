package report

import (
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
)

func TestNumbersOfAxesFitBesideThem(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 9999: "9999", 50_000: "50,000", 8_000_000: "8 M",
		2_500_000: "2.5 M", -20_000: "-20,000"} {
		if got := axisNumber(v); got != want {
			t.Errorf("%g is labelled %q, want %q", v, got, want)
		}
	}
}

// A label at the right edge ends at its tick; others are in the middle.
func TestLabelsAtTheRightEdgeAreNotCutOff(t *testing.T) {
	c := Over("x", "y", []Series{{Times: []float64{0, 100_000, 150_000}, Values: []float64{1, 2, 3}}})
	v := newChartView(&c)
	last := v.XTicks[len(v.XTicks)-1]
	if last.At <= v.Wide || v.XTicks[0].At > v.Wide || !strings.HasPrefix(last.Text, "150") {
		t.Errorf("the last label is %+v, those beyond %g end at their tick", last, v.Wide)
	}
}

func TestSharesAreShownInPerCent(t *testing.T) {
	for v, want := range map[int64]string{337: "0.0337 %", 11_177: "1.12 %", 1_000_000: "100 %", 0: "0 %"} {
		if got := quantity(v, analyzers.UnitPPM); got != want {
			t.Errorf("%d ppm: %q, want %q", v, got, want)
		}
	}
}
