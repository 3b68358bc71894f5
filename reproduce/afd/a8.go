package afd

import (
	"context"
	"slices"

	"candela.dev/candela/reproduce/comparison"
)

// a8 follows the elephant trap packet by packet.
func a8(ctx context.Context, l *lab) error {
	const id = "A-8"
	runs, err := l.measure(ctx, "a-8.yml", 1, nil)
	if err != nil {
		return err
	}
	p := runs[0][0]
	first := func(flow int) float64 {
		return float64(1 + slices.IndexFunc(p.of(flow), func(d decision) bool { return d.elephant }))
	}
	last := func(flow int) float64 {
		if list := p.of(flow); len(list) > 0 && list[len(list)-1].elephant {
			return 1
		}
		return 0
	}
	promotion, eviction := constant("etrap-byte-count"), constant("etrap-bandwidth-threshold-bytes, etrap-age-period-us")
	l.row(promotion, comparison.NewRow(id, "packets of 1500 bytes: the first of an elephant", "", 700, 700, 0, first(1)))
	l.row(promotion, comparison.NewRow(id, "packets of 499 bytes: the first of an elephant", "", 2102, 2102, 0, first(2)))
	l.row(eviction, comparison.NewRow(id, "499 bytes in each window: elephants that remain", "", 0, 0, 0, last(2)))
	l.row(eviction, comparison.NewRow(id, "500 bytes in each window: elephants that remain", "", 1, 1, 0, last(3)))
	l.row(eviction, comparison.NewRow(id, "elephants that become mice again, of all three", "", 1, 1, 0,
		p.counter("evictions")))
	l.judged(id, "the trap of these flows", runs)
	return nil
}

// judged adds the row of the judge, who recomputes the switch from the taps.
func (l *lab) judged(id, what string, runs [][]*point) {
	n := 0
	for _, points := range runs {
		for _, p := range points {
			n += p.violations
		}
	}
	l.row(comparison.FromMechanism("the analyzer recomputes the switch from the taps").Of(comparison.PaperStatement),
		comparison.NewRow(id, what+": violations that the judge finds", "", 0, 0, 0, float64(n)))
}
