package afd

import (
	"context"
	"fmt"

	"candela.dev/candela/reproduce/comparison"
)

// a10 shows the latch-up of evicted elephants, and that holding evictions prevents it.
func a10(ctx context.Context, l *lab) error {
	const id, queue = "A-10", "port-0.queue-0"
	runs, err := l.measure(ctx, "a-10.yml", 1, nil)
	if err != nil {
		return err
	}
	for n, want := range []struct {
		name        string
		flows       int
		depth, jain float64
	}{{"default", 12, 5600, 0.62}, {"default", 24, 6600, 0.53}, {"default", 32, 4500, 0.37},
		{"evict-hold 20 ms", 12, 150, 0.999}, {"evict-hold 20 ms", 24, 150, 0.947}, {"evict-hold 20 ms", 32, 150, 0.912}} {
		points := column(runs, n)
		what := fmt.Sprintf("%s, %d flows: ", want.name, want.flows)
		depth := mean(each(points, func(p *point) float64 { return p.depth(queue, fromShort, toShort) }))
		fair := mean(fairness(points, want.flows, fromShort, toShort))
		l.row(calibrated, comparison.NewRow(id, what+"mean queue", "KB", want.depth, want.depth, 0.1, depth))
		if want.depth > 150 {
			l.row(calibrated, comparison.NewRow(id, what+"Jain's index", "", want.jain, want.jain, 0.02, fair))
			continue
		}
		l.row(calibrated, comparison.NewBound(id, what+"Jain's index", "", comparison.AtLeast, want.jain-0.01, 0, fair))
	}
	l.judged(id, "afd", runs)
	return nil
}
