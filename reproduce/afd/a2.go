package afd

import (
	"context"

	"candela.dev/candela/reproduce/comparison"
)

// a2 compares flows of different round trips.
func a2(ctx context.Context, l *lab) error {
	const id, flows, queue = "A-2", 8, "port-8.queue-0"
	runs, err := l.measure(ctx, "a-2.yml", seedsTCP, nil)
	if err != nil {
		return err
	}
	points := column(runs, 0)
	l.atLeast(id, "afd: Jain's index", "", 0.988, 0, fairness(points, flows, fromTCP, toTCP))
	l.atLeast(id, "afd, kp 0.1: Jain's index", "", 0.982, 0, fairness(column(runs, 1), flows, fromTCP, toTCP))
	l.atLeast(id, "afd: utilisation", "% of line rate", 98.6, 0.001, each(points, func(p *point) float64 {
		return 10 * total(p.shares(flows, fromTCP, toTCP))
	}))
	l.spread(calibrated, id, "afd: mean queue", "KB", 150, 150, 0.1,
		each(points, func(p *point) float64 { return p.depth(queue, fromTCP, toTCP) }))
	l.none(calibrated, id, "afd: tail drops", counted(points, "dropped-tail"))
	l.judged(id, "afd", runs)
	if runs, err = l.measure(ctx, "a-2-baselines.yml", seedsTCP, nil); err != nil {
		return err
	}
	l.spread(calibrated, id, "wred: Jain's index", "", 0.914, 0.929, 0.01,
		fairness(column(runs, 0), flows, fromTCP, toTCP))
	l.row(calibrated, comparison.NewRow(id, "tail drop: Jain's index, mean of the seeds", "", 0.47, 0.47, 0.02,
		mean(fairness(column(runs, 1), flows, fromTCP, toTCP))))
	return nil
}
