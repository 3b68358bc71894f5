package afd

import (
	"context"
	"slices"

	"candela.dev/candela/reproduce/comparison"
)

// a3 measures the completion times of mice beside elephants.
func a3(ctx context.Context, l *lab) error {
	const id, elephants = "A-3", 8
	runs, err := l.measure(ctx, "a-3.yml", seedsTCP, attachEstablished)
	if err != nil {
		return err
	}
	for n, want := range []struct {
		name                         string
		mean, median, last, elephant float64
		lost                         bool
		queue                        string
		buffer                       float64
	}{
		{"tail drop, 3 MB", 6.39, 6.45, 7.4, 9.34, true, "tail-shallow", 3},
		{"tail drop, 52 MB", 94.7, 87.9, 121.6, 9.38, true, "tail-deep", 52},
		{"wred", 8.03, 0.73, 201, 9.34, true, "wred", 0.70}, {"afd", 0.621, 0.624, 0.714, 9.36, false, "afd", 0.74},
		{"dpp", 0.219, 0.214, 0.286, 9.34, true, "dpp", 3}, {"afd-dpp", 0.219, 0.214, 0.269, 9.31, false, "afd-dpp", 0.87},
	} {
		points := column(runs, n)
		from := originOf(want.queue)
		for _, m := range []struct {
			what            string
			want, tolerance float64
			of              func(times []float64) float64
		}{
			{"mean", want.mean, 0.15, mean},
			{"median", want.median, 0.15, func(t []float64) float64 { return quantile(t, 0.5) }},
			{"p99", want.last, 0.3, func(t []float64) float64 { return quantile(t, 0.99) }},
		} {
			l.row(from, comparison.NewRow(id, want.name+": FCT of mice, "+m.what+", mean of the seeds", "ms", m.want,
				m.want, m.tolerance, mean(each(points, func(p *point) float64 {
					times, _ := p.mice()
					return m.of(times)
				}))))
		}
		l.row(from, comparison.NewRow(id, want.name+": carried of elephants, mean of the seeds", "Gb/s", want.elephant,
			want.elephant, 0.02, mean(each(points, func(p *point) float64 {
				return total(p.shares(elephants, fromTCP, toTCP))
			}))))
		size := comparison.Unjudged("the specification gives no tolerance for the most of a buffer").
			Of(comparison.SpecCalibration)
		if want.buffer >= 3 {
			size = comparison.FromConstant("port-buffer-bytes").Of(comparison.SpecCalibration)
		}
		l.row(size, comparison.NewRow(id, want.name+": most buffer, mean of the seeds", "MB", want.buffer, want.buffer, 0.1,
			mean(each(points, func(p *point) float64 { return p.buffer.most / 1e6 }))))
		if !want.lost {
			l.none(calibrated, id, want.name+": lost packets of mice", each(points, lostMice))
			continue
		}
		l.row(from, comparison.NewBound(id, want.name+": lost packets of mice, least of the seeds", "",
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
