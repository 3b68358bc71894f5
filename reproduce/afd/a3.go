package afd

import (
	"context"
	"slices"

	"candela.dev/candela/reproduce/comparison"
)

// a3 measures the completion times of mice beside elephants.
func a3(ctx context.Context, l *lab) error {
	const id, elephants = "A-3", 8
	runs, err := l.measure(ctx, "a-3.yml", seedsTCP, nil)
	if err != nil {
		return err
	}
	for n, want := range []struct {
		name                         string
		mean, median, last, elephant float64
		lost                         bool
	}{
		{"tail drop, 3 MB", 6.39, 6.45, 7.4, 9.34, true}, {"tail drop, 52 MB", 94.7, 87.9, 121.6, 9.38, true},
		{"wred", 8.03, 0.73, 201, 9.34, true}, {"afd", 0.621, 0.624, 0.714, 9.36, false},
		{"dpp", 0.219, 0.214, 0.286, 9.34, true}, {"afd-dpp", 0.219, 0.214, 0.269, 9.31, false},
	} {
		points := column(runs, n)
		for _, m := range []struct {
			what            string
			want, tolerance float64
			of              func(times []float64) float64
		}{
			{"mean", want.mean, 0.15, mean},
			{"median", want.median, 0.15, func(t []float64) float64 { return quantile(t, 0.5) }},
			{"p99", want.last, 0.3, func(t []float64) float64 { return quantile(t, 0.99) }},
		} {
			l.row(calibrated, comparison.NewRow(id, want.name+": FCT of mice, "+m.what+", mean of the seeds", "ms", m.want,
				m.want, m.tolerance, mean(each(points, func(p *point) float64 {
					times, _ := p.mice()
					return m.of(times)
				}))))
		}
		l.row(calibrated, comparison.NewRow(id, want.name+": carried of elephants, mean of the seeds", "Gb/s", want.elephant,
			want.elephant, 0.02, mean(each(points, func(p *point) float64 {
				return total(p.shares(elephants, fromTCP, toTCP))
			}))))
		if !want.lost {
			l.none(calibrated, id, want.name+": lost packets of mice", each(points, lostMice))
			continue
		}
		l.row(calibrated, comparison.NewBound(id, want.name+": lost packets of mice, least of the seeds", "",
			comparison.AtLeast, 1, 0, slices.Min(each(points, lostMice))))
	}
	l.judged(id, "all models", runs)
	l.unfinished(id, runs)
	return nil
}

// lostMice returns how many packets of flows with an end were lost.
func lostMice(p *point) float64 {
	_, lost := p.mice()
	return lost
}
