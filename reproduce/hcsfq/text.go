package hcsfq

import (
	"context"
	"math"

	"candela.dev/candela/reproduce/comparison"
)

// text lists statements of the source that contradict each other or what it shows (specification, 11).
func text(_ context.Context, l *lab) error {
	for _, s := range []struct{ what, why string }{
		{"equation 3.4: e^(T/K)", "the proof uses e^(-T/K), which alone converges; seeded bug literal-sign"},
		{"algorithm 4: one start time and state without subscripts", "each node needs its own; seeded bug one-start-time"},
		{"section 3.6.2: flows of weight 2 get less", "a slip: its reason and figure 3-8 say twice as much"},
		{"section 3.6: RTTs of 0.3 and 0.7 ms give shares of about 2", "windows alone would give 2.3; Q11 takes 1.7 to 2.6"},
		{"section 3.6: flows 25 to 32 send 8 Gb/s each", "they are at one host, whose link of 40 Gb/s lets 5 of each " +
			"through"},
		{"section 3.7: up to 60 % and 15 %", "maxima over loads, not means"},
	} {
		from := comparison.Unjudged("a statement without a value that a run measures: " + s.why)
		l.Row(from.Of(comparison.PaperStatement), comparison.NewRow("TEXT", s.what, "", 0, 0, 0, math.NaN()))
	}
	return nil
}
