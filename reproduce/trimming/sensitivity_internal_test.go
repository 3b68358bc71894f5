package trimming

import (
	"slices"
	"testing"
)

// A quick reproduction measures only every fourth response, so a row's bounds may contain none.
func TestARowWithoutAMeasuredResponseTakesTheNearest(t *testing.T) {
	c := curve{micros: []float64{0, 2, 4}, queue: []float64{900, 500, 100}}
	for _, want := range []struct {
		low, high float64
		values    []float64
	}{{0, 2, []float64{900, 500}}, {0.5, 1.4, []float64{900}}, {2.5, 3, []float64{500}}, {6, 9, []float64{100}}} {
		if got := c.within(c.queue, want.low, want.high); !slices.Equal(got, want.values) {
			t.Errorf("%g to %g us: %v, want %v", want.low, want.high, got, want.values)
		}
	}
}
