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

// A heat map has a cell for each value above 0, in the row of its line, side by side up to the right edge.
func TestAHeatMapHasACellForEachValue(t *testing.T) {
	times := []float64{0, 10, 20, 30}
	c := Over("x", "y", []Series{{"a", times, []float64{0, 5, 10, 0}}, {"b", times, []float64{0, 0, 0, 20}}})
	c.Cells = true
	v := newChartView(&c)
	if len(v.Cells) != 3 || len(v.Lines) > 0 || len(v.Names) != 2 {
		t.Fatalf("%+v", v)
	}
	first, second, last := v.Cells[0], v.Cells[1], v.Cells[2]
	if first.Shade != 0.25 || second.Shade != 0.5 || last.Shade != 1 || first.Y != second.Y ||
		last.Y != first.Y+cellHeight {
		t.Errorf("%+v", v.Cells)
	}
	if first.X+first.Width != second.X || last.X+last.Width != float64(v.Right) {
		t.Errorf("cells end elsewhere than at the next one, or at %d: %+v", v.Right, v.Cells)
	}
	if empty := newChartView(&Chart{Cells: true}); len(empty.Cells) > 0 {
		t.Errorf("an empty one has %+v", empty.Cells)
	}
}
