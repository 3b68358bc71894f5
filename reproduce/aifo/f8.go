package aifo

import (
	"context"

	"candela.dev/candela/reproduce/comparison"
)

// f8 compares fairness at 1 and 4 Gb/s, in completion times.
func f8(ctx context.Context, l *lab) error {
	const id = "F8"
	schemes := []scheme{{"TCP", "f8-tcp.yml"}, {"DCTCP", "f8-dctcp.yml"}}
	values := map[string]map[int]float64{ // small mean in ms by index of the load; the rest is not in the specification
		"TCP":   {0: 1.77, 3: 4.49, 5: 6.96, 6: 9.17},
		"DCTCP": {0: 1.05, 3: 2.43, 5: 4.01, 6: 5.35},
	}
	measured := make(map[string][]*cell)
	for _, s := range schemes {
		cells, err := l.sweep(ctx, s)
		if err != nil {
			return err
		}
		measured[s.name] = cells
		for i, c := range cells {
			if want, ok := values[s.name][i]; ok && c != nil {
				from := comparison.FromChoice("tolerance ours, that of F1: the specification has one for ratios to AFQ alone")
				if l.Config.Quick {
					from = comparison.Unjudged("0.1 s at 1 Gb/s is a start, not a steady state")
				}
				l.Row(from.Of(comparison.PublishedData), comparison.NewRow(id, at(labels()[i])+s.name+": "+figures()[0].title, "ms",
					want, want, absoluteF1, c.mean))
			}
			if c != nil {
				l.unfinished(id, labels()[i], s, c)
			}
		}
	}
	for i, load := range labels() {
		if a, b := measured["TCP"][i], measured["DCTCP"][i]; a != nil {
			l.Row(published, comparison.NewBound(id, at(load)+"TCP beside DCTCP: small flows, mean", "times",
				comparison.AtLeast, 1, 0, a.mean/b.mean))
		}
	}
	l.missing(id, "completion times", "AFQ", "SP-PIFO with STFQ", "PIFO with STFQ", "AIFO with STFQ")
	l.plotLoads("fig-4-14", schemes, measured)
	return nil
}
