package afd

import (
	"context"
	"fmt"
)

// a5 compares speeds and numbers of flows.
func a5(ctx context.Context, l *lab) error {
	const id, queue = "A-5", "port-0.queue-0"
	runs, err := l.measure(ctx, "a-5.yml", seedsTCP, nil)
	if err != nil {
		return err
	}
	for n, want := range []struct {
		gbps, flows int
		jain, depth float64
	}{{10, 1, 0, 0}, {10, 2, 0.997, 150}, {10, 4, 0.997, 150}, {10, 8, 0.997, 150}, {40, 8, 0.998, 600},
		{40, 32, 0.998, 600}, {100, 16, 0.999, 1500}, {100, 64, 0.997, 1500}} {
		points := column(runs, n)
		what := fmt.Sprintf("%d Gb/s, %d flows: ", want.gbps, want.flows)
		if want.flows == 1 {
			l.none(calibrated, id, what+"drops", each(points, func(p *point) float64 {
				return p.counter("dropped-early") + p.counter("dropped-tail")
			}))
			continue
		}
		l.atLeast(id, what+"Jain's index", "", want.jain-0.01, 0, fairness(points, want.flows, fromShort, toShort))
		l.spread(calibrated, id, what+"mean queue", "KB", want.depth, want.depth, 0.1,
			each(points, func(p *point) float64 { return p.depth(queue, fromShort, toShort) }))
	}
	l.judged(id, "afd", runs)
	return nil
}
