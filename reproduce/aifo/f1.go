package aifo

import (
	"context"

	"candela.dev/candela/reproduce/comparison"
)

// absoluteF1 and ratioF1 are the tolerances of the specification.
const absoluteF1, ratioF1 = 0.30, 0.25

// valuesF1 are the published data of figure 4-7 in ms, by scheme and load: small mean, small p99, large mean.
func valuesF1() map[string][7][3]float64 {
	return map[string][7][3]float64{
		"TCP": {{0.132, 0.82, 4.30}, {0.186, 0.96, 5.45}, {0.253, 1.21, 7.29}, {0.333, 1.50, 10.2}, {0.458, 2.04, 16.8},
			{0.863, 4.18, 43.1}, {2.47, 12.6, 116}},
		"DCTCP": {{0.052, 0.23, 4.21}, {0.065, 0.28, 5.29}, {0.082, 0.35, 7.02}, {0.105, 0.47, 9.83}, {0.152, 0.78, 17.2},
			{0.391, 2.44, 47.6}, {1.45, 8.00, 118}},
		"PIFO": {{0.061, 0.22, 4.06}, {0.075, 0.24, 4.97}, {0.090, 0.26, 6.66}, {0.106, 0.27, 10.0}, {0.122, 0.29, 18.0},
			{0.132, 0.31, 27.6}, {0.138, 0.32, 35.5}},
		"SP-PIFO": {{0.068, 0.21, 3.93}, {0.076, 0.23, 4.89}, {0.085, 0.25, 6.71}, {0.095, 0.27, 10.1}, {0.104, 0.28, 17.8},
			{0.111, 0.30, 31.8}, {0.115, 0.31, 43.2}},
		"AIFO": {{0.107, 0.54, 4.53}, {0.128, 0.59, 6.07}, {0.144, 0.58, 9.14}, {0.153, 0.55, 15.3}, {0.157, 0.51, 23.5},
			{0.158, 0.49, 30.1}, {0.160, 0.47, 37.1}},
	}
}

// f1 compares completion times at 10 and 40 Gb/s.
func f1(ctx context.Context, l *lab) error {
	const id = "F1"
	schemes := []scheme{{"TCP", "f1-tcp.yml"}, {"DCTCP", "f1-dctcp.yml"}, {"PIFO", "f1-pifo.yml"},
		{"SP-PIFO", "f1-sp-pifo.yml"}, {"AIFO", "f1-aifo.yml"}}
	measured, err := l.sweeps(ctx, schemes...)
	if err != nil {
		return err
	}
	l.compareLoads(id, schemes, measured)
	l.plotLoads("4-7", schemes...)
	return nil
}

// compareLoads adds the rows of F1.
func (l *lab) compareLoads(id string, schemes []scheme, measured map[string][]*cell) {
	for i, load := range labels() {
		pifo := measured["PIFO"][i]
		if pifo == nil {
			continue
		}
		for _, s := range schemes {
			c, want := measured[s.Name][i], valuesF1()[s.Name][i]
			for n, f := range figures() {
				l.Row(l.fromF1(load, n == 2), comparison.NewRow(id, at(load)+s.Name+": "+f.Title, "ms", want[n], want[n],
					absoluteF1, f.Of(c)))
			}
			if s.Name != "PIFO" {
				ratio := want[0] / valuesF1()["PIFO"][i][0]
				l.Row(l.fromF1(load, false), comparison.NewRow(id, at(load)+s.Name+" beside PIFO: small flows, mean", "times",
					ratio, ratio, ratioF1, c.Mean/pifo.Mean))
			}
			l.RowOfUnfinished(id, load, s.Name, c)
		}
		beside := func(a, b string, least float64) {
			l.Row(l.fromF1(load, false), comparison.NewBound(id, at(load)+a+" beside "+b+", order: "+figures()[0].Title, "times",
				comparison.AtLeast, least, 0, measured[a][i].Mean/measured[b][i].Mean))
		}
		beside("AIFO", "PIFO", 1)
		least := 1.0
		if i == len(labels())-1 {
			least = 8 // "TCP/AIFO small mean at 0.8 >= 8" (specification, 9)
		}
		beside("TCP", "AIFO", least)
	}
	first, last := 0, len(labels())-1
	if !l.Measures(first) || !l.Measures(last) {
		return
	}
	over := func(i int) float64 { return measured["AIFO"][i].Mean / measured["PIFO"][i].Mean }
	l.Row(l.fromF1(labels()[last], false), comparison.NewBound(id, "AIFO beside PIFO at load 0.2, beside the same at "+
		"0.8: "+figures()[0].Title, "times", comparison.AtLeast, 1, 0, over(first)/over(last)))
}

// fromF1 returns the origin of a row: in a quick reproduction some have no value to compare with.
func (l *lab) fromF1(load float64, large bool) comparison.Origin {
	switch {
	case l.Config.Quick && large:
		return comparison.Unjudged("0.1 s ends before most large flows do").Of(comparison.PublishedData)
	case l.Config.Quick && load > 0.7:
		return comparison.Unjudged("the queues of an overload grow for longer than 0.1 s").Of(comparison.PublishedData)
	}
	return published
}
