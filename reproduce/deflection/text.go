package deflection

import (
	"context"
	"math"

	"candela.dev/candela/reproduce/comparison"
)

// text lists statements of the source that contradict each other, or leave open what they mean (§11, §13). Nothing is
// run.
func text(_ context.Context, l *lab) error {
	for _, s := range []struct{ what, why string }{
		{"section 1: DIBS at 95 %, mean and tail twice ECMP's", "figure 1 has +51 % of the mean and +43 % of the tail: two " +
			"experiments"},
		{"figure 6b: packet loss of PD +5 % beside Vertigo", "relative, or percentage points"},
		{"figure 5c: +23, +24 and +35 %", "ratios, or percentage points"},
		{"section 3: a random number between 0 and the number of neighbours", "as many values as neighbours are taken"},
		{"section 4: packets are sampled as they arrive, and as they are queued", "all that are tested are sampled"},
		{"section 5: load", "not defined: taken as a share of the capacity from leaf to spine switches, which gives every " +
			"number of queries a second of the source"},
		{"section 5: PD beside ECMP", "PD forwards by power of two and restores order at hosts, ECMP neither: PATHS " +
			"tells them apart"},
		{"appendix E: the sum", "its indices r and i slip: the scan of the text is the model"},
	} {
		from := comparison.Unjudged("a statement without a value that a run measures: " + s.why)
		l.Row(from.Of(comparison.PaperStatement), comparison.NewRow("TEXT", s.what, "", 0, 0, 0, math.NaN()))
	}
	return nil
}

// hardware lists what only a switch has.
func hardware(_ context.Context, l *lab) error {
	from := comparison.Unjudged("resources of a Tofino").Of(comparison.Hardware)
	for _, r := range []struct {
		what, unit string
		value      float64
	}{
		{"stages of SD", "", 8}, {"stages of PD by quantiles", "", 11}, {"stages of PD by a distribution", "", 2},
		{"lines of P4 of SD", "", 707}, {"lines of P4 of PD by quantiles", "", 1011},
		{"lines of P4 of PD by a distribution", "", 875}, {"recirculations a second of a control packet", "M", 1.7},
	} {
		l.Row(from, comparison.NewRow("TABLE", r.what, r.unit, r.value, r.value, 0, math.NaN()))
	}
	return nil
}
