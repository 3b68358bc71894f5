package aifo

import (
	"context"
	"math"

	"candela.dev/candela/reproduce/comparison"
)

// text lists statements of the text that its own data contradict (specification, 11). Nothing is run.
func text(_ context.Context, l *lab) error {
	for _, s := range []struct {
		what, unit string
		says, data float64
		why        string
	}{
		{"F2, load 0.8: small flows with k = 0.9 beside k = 0.1, mean", "times", 9, 0.907 / 0.160,
			"the text says about 9 times; \"measured\" is the published data"},
		{"F2, load 0.8: small flows with k = 0.9 beside k = 0.1, 99th percentile", "times", 9, 3.76 / 0.47,
			"the text says about 9 times; \"measured\" is the published data"},
		{"F8, load 0.7: AIFO above AFQ, small flows", "%", 9.7, 100 * (2.40/2.15 - 1),
			"the text has 9.7 % without a load; \"measured\" is the published data"},
		{"F8, load 0.8: AIFO above AFQ, small flows", "%", 9.7, 100 * (3.80/3.41 - 1),
			"the text has 9.7 % without a load; \"measured\" is the published data"},
		{"F8, load 0.7: AIFO above SP-PIFO, small flows", "%", 3.6, 100 * (2.40/2.17 - 1),
			"the text has 3.6 % without a load; \"measured\" is the published data"},
		{"F8, load 0.8: AIFO above SP-PIFO, small flows", "%", 3.6, 100 * (3.80/3.66 - 1),
			"the text has 3.6 % without a load; \"measured\" is the published data"},
		{"F6: other packets before the flow of 10 MB is complete, AIFO beside SP-PIFO", "times", 1, 350.0 / 135,
			"the text says that AIFO admits a set closer to PIFO's; \"measured\" is the published data"},
		{"load label 0.8: payload offered of the access capacity", "", 0.8, 190_000 * 987_600 * 8 / (144 * 10e9),
			"the label is an overload by the arrival rate of the published configurations"},
	} {
		l.Row(comparison.Unjudged(s.why).Of(comparison.PaperStatement), comparison.NewRow("TEXT", s.what, s.unit, s.says,
			s.says, 0.02, s.data))
	}
	for _, s := range []struct{ what, why string }{
		{"section 4.4.4, figure 4-6: the quantile counts larger ranks",
			"with lower ranks first this admits the worst packets; section 4.4.2 and the simulator count smaller ones"},
		{"section 4.4.3: queue length (1 - (n*/n)(1-k)) C", "holds for equal rates of all ranks alone"},
		{"section 4.4.3: \"theorem 3\" in the remark", "means theorem 4"},
		{"section 4.5.1: all simulations at 10 and 40 Gb/s", "F6 and F8 are at 1 and 4 Gb/s in the published configurations"},
		{"figure 4-2: the third and fourth arrivals are swapped", "the order printed needs the fourth and fifth"},
		{"F1 and F8: PIEO", "every packet is eligible, so PIEO is PIFO: see its rows; the published data have no PIEO"},
		{"T2: 0.2 to 1 and 3 to 5 Gb/s for flows of high ranks", "the first is flow 1, the second flows 2 and 3"},
	} {
		row := comparison.NewRow("TEXT", s.what, "", 0, 0, 0, math.NaN())
		from := comparison.Unjudged("a statement without a value that a run measures: " + s.why)
		l.Row(from.Of(comparison.PaperStatement), row)
	}
	return nil
}

// hardware lists table 4-I.
func hardware(_ context.Context, l *lab) error {
	from := comparison.Unjudged("resources of a Tofino").Of(comparison.Hardware)
	for _, r := range []struct {
		what         string
		aifo, spPIFO float64
	}{
		{"crossbar", 10.94, 8.27}, {"gateway", 22.92, 17.71}, {"hash bits", 3.91, 2.66}, {"SRAM", 6.98, 15.31},
		{"TCAM", 0, 0.35}, {"stateful ALU", 39.6, 16.67}, {"table ids", 25, 18.75},
	} {
		l.Row(from, comparison.NewRow("TABLE", "table 4-I, AIFO: "+r.what, "%", r.aifo, r.aifo, 0, math.NaN()))
		l.Row(from, comparison.NewRow("TABLE", "table 4-I, SP-PIFO: "+r.what, "%", r.spPIFO, r.spPIFO, 0, math.NaN()))
	}
	return nil
}
