package afd

import (
	"context"

	"candela.dev/candela/reproduce/comparison"
)

// a7 adds incasts to the mice of A-3.
func a7(ctx context.Context, l *lab) error {
	const id = "A-7"
	runs, err := l.measure(ctx, "a-7.yml", 1, attachEstablished)
	if err != nil {
		return err
	}
	for n, want := range []struct {
		name, queue string
		drops, mean float64
	}{{"tail drop, 3 MB", "tail-shallow", 2900, 6.99}, {"wred", "wred", 31000, 4.39}, {"afd", "afd", 0, 2.36},
		{"dpp", "dpp", 24500, 2.15}, {"afd-dpp", "afd-dpp", 0, 2.12}} {
		points := column(runs, n)
		from := originOf(want.queue)
		if want.drops == 0 {
			l.none(calibrated, id, want.name+": lost packets of mice", each(points, lostMice))
		} else { // one seed, no tolerance given: the order of magnitude
			l.row(from, comparison.NewRow(id, want.name+": lost packets of mice", "", want.drops, want.drops, 0.3,
				mean(each(points, lostMice))))
		}
		l.row(from, comparison.NewRow(id, want.name+": FCT of mice, mean", "ms", want.mean, want.mean, 0.15,
			mean(each(points, func(p *point) float64 {
				times, _ := p.mice()
				return mean(times)
			}))))
	}
	l.judged(id, "all models", runs)
	l.unfinished(id, runs)
	return nil
}
