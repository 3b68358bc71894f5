package aifo

import (
	"context"
	"fmt"
	"math"

	"candela.dev/candela/reproduce/comparison"
)

// variant is a queue of F2 to F5 and F8 and the published data about it.
type variant struct {
	scheme
	want map[int][3]float64 // by index of the load: small mean, small p99, large mean in ms; 0: not in the specification
}

// variants measures queues at all loads, shows them beside the published data, and draws them, together with others
// that another result compares.
func (l *lab) variants(ctx context.Context, id, plot string, list []variant, drawn ...scheme) (map[string][]*cell,
	error) {
	var schemes []scheme
	for _, v := range list {
		schemes = append(schemes, v.scheme)
	}
	schemes = append(schemes, drawn...)
	measured, err := l.sweeps(ctx, schemes...)
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		for i, c := range measured[v.Name] {
			if c == nil {
				continue
			}
			for n, f := range figures() {
				if want := v.want[i][n]; want > 0 {
					from := comparison.Unjudged("the specification has tolerances for ratios alone; that of F1 is shown")
					l.Row(from.Of(comparison.PublishedData), comparison.NewRow(id, at(labels()[i])+v.Name+": "+f.Title, "ms", want,
						want, absoluteF1, f.Of(c)))
				}
			}
			l.RowOfUnfinished(id, labels()[i], v.Name, c)
		}
	}
	l.plotLoads(plot, schemes...)
	return measured, nil
}

// f2 varies the headroom k.
func f2(ctx context.Context, l *lab) error {
	const id = "F2"
	list := []variant{
		{scheme{"k = 0.1", "f1-aifo.yml"}, map[int][3]float64{0: {.107, .54, 4.53}, 3: {.153, .55, 15.3}, 6: {.160, .47,
			37.1}}},
		{scheme{"k = 0.3", "f2-k03.yml"}, map[int][3]float64{0: {.108, .55, 4.29}, 3: {.163, .59, 10.7}, 6: {.222, .62,
			39.4}}},
		{scheme{"k = 0.7", "f2-k07.yml"}, map[int][3]float64{0: {.113, .68, 3.95}, 3: {.184, .74, 8.95}, 6: {.429, 1.39,
			55.3}}},
		{scheme{"k = 0.9", "f2-k09.yml"}, map[int][3]float64{0: {.116, .76, 4.02}, 3: {.201, .86, 9.51}, 6: {.907, 3.76,
			89.6}}},
	}
	// The source's FIFO is its TCP.
	measured, err := l.variants(ctx, id, "4-8", list, scheme{"FIFO", "f1-tcp.yml"}, scheme{"PIFO", "f1-pifo.yml"})
	if err != nil {
		return err
	}
	for i, load := range labels() {
		for n, f := range figures()[:2] {
			for j := 1; j < len(list) && load >= 0.5; j++ {
				if a, b := measured[list[j-1].Name][i], measured[list[j].Name][i]; a != nil && b != nil {
					l.Row(l.fromF1(load, false), comparison.NewBound(id, fmt.Sprintf("%s%s beside %s: %s", at(load), list[j].Name,
						list[j-1].Name, f.Title), "times", comparison.AtLeast, 1, 0, f.Of(b)/f.Of(a)))
				}
			}
			if a, b := measured["k = 0.1"][i], measured["k = 0.9"][i]; i == 6 && a != nil && b != nil {
				want := []float64{0.907 / 0.160, 3.76 / 0.47}[n]
				l.Row(l.fromF1(load, false), comparison.NewRow(id, at(load)+"k = 0.9 beside k = 0.1: "+f.Title, "times", want,
					want, 0.30, f.Of(b)/f.Of(a)))
			}
		}
	}
	return nil
}

// f3 varies the window and how many packets enter it.
func f3(ctx context.Context, l *lab) error {
	const id, big = "F3", "n = 1000, rate 1"
	measured, err := l.variants(ctx, id, "4-9", []variant{
		{scheme{"n = 20, rate 1", "f3-20-1.yml"},
			map[int][3]float64{0: {.081, .36, 5.44}, 3: {.118, .42, 18.4}, 6: {.135, .44,
				39.7}}},
		{scheme{"n = 20, rate 0.02", "f3-20-50.yml"}, map[int][3]float64{0: {.118, .70, 4.29}, 3: {.160, .62, 14.1},
			6: {.165, .50, 35.7}}},
		{scheme{"n = 100, rate 0.1", "f3-100-10.yml"}, map[int][3]float64{0: {.117, .68, 4.27}, 3: {.160, .62, 14.0},
			6: {.164, .49, 34.8}}},
		{scheme{big, "f3-1000-1.yml"}, map[int][3]float64{0: {.116, .65, 4.33}, 3: {.159, .60, 14.3}, 6: {.164, .49, 34.6}}},
	})
	if err != nil {
		return err
	}
	for i, load := range labels() {
		for _, name := range []string{"n = 20, rate 0.02", "n = 100, rate 0.1"} {
			if a, b := measured[name][i], measured[big][i]; a != nil && b != nil {
				l.Row(l.fromF1(load, false), comparison.NewRow(id, at(load)+name+" beside "+big+": "+figures()[0].Title,
					"times", 1, 1,
					0.05, a.Mean/b.Mean))
			}
		}
	}
	return nil
}

// f4 varies C at 1 and 4 Gb/s.
func f4(ctx context.Context, l *lab) error {
	const id = "F4"
	list := []variant{
		{scheme{"C = 10", "f4-c10.yml"}, map[int][3]float64{0: {.85}, 3: {1.03}, 6: {1.05, 0, 83.0}}},
		{scheme{"C = 20", "f4-c20.yml"}, map[int][3]float64{0: {.85}, 3: {1.11}, 6: {1.15, 0, 82.8}}},
		{scheme{"C = 50", "f4-c50.yml"}, map[int][3]float64{0: {1.19}, 3: {1.72}, 6: {1.83, 0, 83.1}}},
		{scheme{"C = 100", "f4-c100.yml"}, map[int][3]float64{0: {1.48}, 3: {2.41}, 6: {2.71, 0, 86.8}}},
		{scheme{"C = 500", "f4-c500.yml"}, map[int][3]float64{0: {1.83}, 3: {4.45}, 6: {6.59, 0, 104}}},
	}
	measured, err := l.variants(ctx, id, "4-10", list)
	if err != nil {
		return err
	}
	for i, load := range labels() {
		for j := 2; j < len(list); j++ { // C = 10 and C = 20 coincide at 0.2
			a, b := list[j-1].Name, list[j].Name
			if measured[a][i] != nil && measured[b][i] != nil {
				l.Row(l.fromSlow(), comparison.NewBound(id, at(load)+b+" beside "+a+": "+figures()[0].Title, "times",
					comparison.AtLeast, 1, 0, measured[b][i].Mean/measured[a][i].Mean))
			}
		}
	}
	if a, b := measured["C = 20"][6], measured["C = 100"][6]; a != nil && b != nil {
		l.Row(l.fromSlow(), comparison.NewRow(id, at(labels()[6])+"C = 100 beside C = 20: "+figures()[0].Title, "times",
			2.4, 2.4,
			0.25, b.Mean/a.Mean))
	}
	return nil
}

// f5 varies C at 10 and 40 Gb/s.
func f5(ctx context.Context, l *lab) error {
	const id = "F5"
	measured, err := l.variants(ctx, id, "4-11", []variant{
		{scheme{"C = 10", "f5-c10.yml"}, map[int][3]float64{0: {.115}, 3: {.134}, 6: {.139, 0, 39.1}}},
		{scheme{"C = 20", "f1-aifo.yml"}, map[int][3]float64{0: {.107}, 3: {.153}, 6: {.160, 0, 37.1}}},
		{scheme{"C = 50", "f5-c50.yml"}, map[int][3]float64{0: {.120}, 3: {.159}, 6: {.157, 0, 36.2}}},
		{scheme{"C = 100", "f5-c100.yml"}, map[int][3]float64{0: {.100}, 3: {.144}, 6: {.135, 0, 36.3}}},
		{scheme{"C = 500", "f5-c500.yml"}, map[int][3]float64{0: {.126}, 3: {.364}, 6: {.715, 0, 36.0}}},
	})
	if err != nil {
		return err
	}
	for i, load := range labels() {
		if a, b := measured["C = 20"][i], measured["C = 100"][i]; a != nil && b != nil {
			l.Row(l.fromF1(load, false), comparison.NewRow(id, at(load)+"C = 100 beside C = 20: "+figures()[0].Title,
				"times", 1, 1,
				0.25, b.Mean/a.Mean))
		}
	}
	return nil
}

// f8 compares fairness at 1 and 4 Gb/s, in completion times.
func f8(ctx context.Context, l *lab) error {
	const id = "F8"
	list := []variant{
		{scheme{"TCP", "f8-tcp.yml"}, map[int][3]float64{0: {1.77}, 3: {4.49}, 5: {6.96, 22.8}, 6: {9.17}}},
		{scheme{"DCTCP", "f8-dctcp.yml"}, map[int][3]float64{0: {1.05}, 3: {2.43}, 5: {4.01, 12.8}, 6: {5.35}}},
		{scheme{"AFQ", "f8-afq.yml"}, map[int][3]float64{0: {.557}, 3: {1.15}, 5: {2.15, 9.78}, 6: {3.41}}},
		{scheme{"SP-PIFO", "f8-sp-pifo.yml"}, map[int][3]float64{0: {.502}, 3: {1.05}, 5: {2.17, 11.3}, 6: {3.66}}},
		{scheme{"PIFO", "f8-pifo.yml"}, map[int][3]float64{0: {.426}, 3: {.862}, 5: {1.77, 9.14}, 6: {3.01}}},
		{scheme{"AIFO", "f8-aifo.yml"}, map[int][3]float64{0: {.624}, 3: {1.29}, 5: {2.40, 10.9}, 6: {3.80}}},
	}
	measured, err := l.variants(ctx, id, "4-14", list)
	if err != nil {
		return err
	}
	data := map[string]map[int][3]float64{}
	for _, v := range list {
		data[v.Name] = v.want
	}
	for i, load := range labels() {
		if measured["AIFO"][i] == nil {
			continue
		}
		mean := func(name string) float64 { return measured[name][i].Mean }
		for _, pair := range [][2]string{{"SP-PIFO", "PIFO"}, {"AFQ", "PIFO"}, {"AIFO", "SP-PIFO"}, {"AIFO", "AFQ"},
			{"DCTCP", "AIFO"}, {"TCP", "DCTCP"}} {
			if load < 0.65 {
				l.Row(l.fromSlow(), comparison.NewBound(id, at(load)+pair[0]+" beside "+pair[1]+", order: "+figures()[0].Title,
					"times",
					comparison.AtLeast, 1, 0, mean(pair[0])/mean(pair[1])))
			}
		}
		for _, other := range []string{"AFQ", "SP-PIFO"} {
			if want := data["AIFO"][i][0] / data[other][i][0]; !math.IsNaN(want) {
				l.Row(l.fromSlow(), comparison.NewRow(id, at(load)+"AIFO beside "+other+": "+figures()[0].Title, "times", want-0.1,
					want+0.1, 0, mean("AIFO")/mean(other)))
			}
		}
	}
	return nil
}

// fromSlow is the origin of rows at 1 and 4 Gb/s.
func (l *lab) fromSlow() comparison.Origin {
	if l.Config.Quick {
		return comparison.Unjudged("0.1 s at 1 Gb/s is a start, not a steady state").Of(comparison.PublishedData)
	}
	return published
}
