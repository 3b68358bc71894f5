package afd

import "context"

// a6 compares marks with drops.
func a6(ctx context.Context, l *lab) error {
	const id, flows, queue = "A-6", 8, "port-8.queue-0"
	runs, err := l.measure(ctx, "a-6.yml", 1, nil)
	if err != nil {
		return err
	}
	points := column(runs, 0)
	l.none(calibrated, id, "afd with ECN: early drops", counted(points, "dropped-early"))
	l.atLeast(id, "afd with ECN: Jain's index", "", 0.98, 0, fairness(points, flows, fromTCP, toTCP))
	l.spread(calibrated, id, "afd with ECN: mean queue", "KB", 150, 150, 0.1,
		each(points, func(p *point) float64 { return p.depth(queue, fromTCP, toTCP) }))
	l.judged(id, "afd with ECN", runs)
	return nil
}
