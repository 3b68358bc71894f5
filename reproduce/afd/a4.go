package afd

import (
	"context"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/reproduce/comparison"
)

// seeds4 is the number of seeds of A-4.
const seeds4 = 5

// elephant is the size above which table 9.2 has a flow as an elephant.
const elephant = 1_000_000

// Items of the workload of load sweeps.
const (
	drawn  = 0 // flows of the distribution
	probes = 1 // flows of 100 KB
)

// loads4 are the loads of table 9.2.
func loads4() []float64 { return []float64{0.2, 0.4, 0.6, 0.8} }

// row4 is a row of table 9.2: times in ms at each load, the buffer in MB from the least to the greatest.
type row4 struct {
	queue, name                 string
	probe, tail, elephants, all [4]float64
	buffer                      [2]float64
}

func table4() []row4 {
	return []row4{
		{"tail-shallow", "tail 3 MB", [4]float64{.37, .85, 1.84, 3.59}, [4]float64{3.8, 13, 20, 33},
			[4]float64{4.96, 6.87, 10.7, 19.9}, [4]float64{1.61, 2.44, 4.18, 7.71}, [2]float64{3, 3}},
		{"tail-deep", "tail 52 MB", [4]float64{.45, 1.13, 2.62, 5.78}, [4]float64{6.2, 15, 28, 48},
			[4]float64{5.02, 7.01, 10.6, 19.9}, [4]float64{1.64, 2.56, 4.58, 9.15}, [2]float64{20.6, 29.4}},
		{"wred", "wred", [4]float64{.32, .62, .89, 1.30}, [4]float64{1.7, 11, 13, 13},
			[4]float64{5.85, 8.12, 12.4, 21.7}, [4]float64{1.87, 2.70, 4.24, 6.99}, [2]float64{.72, .72}},
		{"afd", "afd", [4]float64{.249, .318, .400, .508}, [4]float64{.81, 1.5, 1.5, 1.6},
			[4]float64{5.62, 7.72, 12.6, 25.0}, [4]float64{1.69, 2.38, 3.84, 7.37}, [2]float64{1.05, 1.19}},
		{"dpp", "dpp", [4]float64{.255, .349, .729, 1.22}, [4]float64{.26, 10.4, 10.5, 20.7},
			[4]float64{5.07, 7.40, 11.1, 20.6}, [4]float64{1.59, 2.39, 3.74, 6.76}, [2]float64{3, 3}},
		{"afd-dpp", "afd+dpp", [4]float64{.214, .215, .217, .218}, [4]float64{.26, .26, .28, .29},
			[4]float64{5.59, 7.76, 12.8, 23.3}, [4]float64{1.67, 2.34, 3.79, 6.76}, [2]float64{1.06, 2.13}},
	}
}

// a4 sweeps the load through six queues.
func a4(ctx context.Context, l *lab) error {
	runs, err := l.measure(ctx, "a-4.yml", seeds4, attachEstablished)
	if err != nil {
		return err
	}
	deep, err := l.measure(ctx, "a-4-buffer.yml", seeds4, attachEstablished)
	if err != nil {
		return err
	}
	list := cells(runs)
	l.gates4(list, cells(deep))
	for _, r := range table4() {
		l.row4(list, &r)
	}
	l.plots4(list)
	return nil
}

// gates4 adds what the paper says about completion times and buffers (figures 5 and 6, table 2).
func (l *lab) gates4(list, tenMegabytes []*cell) {
	const id = "A-4"
	rtt := comparison.FromChoice("RTT of 40 us, which the paper does not give: of 0.21 ms on an idle path, 0.16 ms are " +
		"round trips; the bound is that of the specification").Of(comparison.PaperStatement)
	bound := func(why string) comparison.Origin { return comparison.FromChoice(why).Of(comparison.PaperStatement) }
	ours := bound("the bound is the specification's: the paper has no number")
	var means []float64
	for _, load := range loads4() {
		both, deep := find(list, "afd-dpp", load), find(list, "tail-deep", load)
		if both == nil || deep == nil {
			continue
		}
		at := fmt.Sprintf("%.0f %%: ", 100*load)
		means = append(means, mean(both.times(probes, 0)))
		l.row(rtt, comparison.NewBound(id, at+"100 KB with afd+dpp, mean", "ms", comparison.AtMost, 0.3, 0,
			means[len(means)-1]))
		l.row(bound("the paper says similar, sometimes better; the range is the specification's, with an RTO of 10 ms"),
			comparison.NewRow(id, at+"elephants with afd+dpp beside a deep buffer", "times", 0.75, 1.35, 0,
				mean(both.times(drawn, elephant))/mean(deep.times(drawn, elephant))))
		l.row(calibrated, comparison.NewRow(id, at+"all flows, a deep buffer beside afd+dpp", "times",
			[]float64{.98, 1.09, 1.21, 1.35}[len(means)-1], []float64{.98, 1.09, 1.21, 1.35}[len(means)-1], 0.15,
			mean(deep.times(drawn, 0))/mean(both.times(drawn, 0))))
	}
	l.row(stated, comparison.NewBound(id, "100 KB with afd+dpp: longest mean of the loads beside the shortest", "times",
		comparison.AtMost, 1.1, 0, slices.Max(means)/slices.Min(means)))
	both, deep := find(list, "afd-dpp", 0.8), find(list, "tail-deep", 0.8)
	l.row(ours, comparison.NewBound(id, "80 %: 100 KB with a deep buffer beside afd+dpp", "times", comparison.AtLeast, 10,
		0, mean(deep.times(probes, 0))/mean(both.times(probes, 0))))
	most := slices.Max(tenMegabytes[0].buffers())
	l.row(stated, comparison.NewBound(id, "80 %: most buffer with afd+dpp and 10 MB", "MB", comparison.AtMost, 3, 0, most).
		Noted("with the 3 MB of the other rows the bound could not be missed"))
	l.row(ours, comparison.NewBound(id, "80 %: most buffer, a deep one beside afd+dpp with 10 MB", "times",
		comparison.AtLeast, 10, 0, slices.Max(deep.buffers())/most))
}

// row4 adds the values of a queue.
func (l *lab) row4(list []*cell, want *row4) {
	const id, ms = "A-4", "ms"
	least, most := math.Inf(1), 0.0
	from := originOf(want.queue)
	for i, load := range loads4() {
		c := find(list, want.queue, load)
		if c == nil {
			continue
		}
		at := fmt.Sprintf("%s, %.0f %%: ", want.name, 100*load)
		add := func(what string, value, tolerance, got float64) {
			l.row(from, comparison.NewRow(id, at+what, ms, value, value, tolerance, got))
		}
		small := c.times(probes, 0)
		add("100 KB, mean", want.probe[i], 0.15, mean(small))
		add("100 KB, p99", want.tail[i], 0.3, quantile(small, 0.99))
		add("elephants, mean", want.elephants[i], 0.15, mean(c.times(drawn, elephant)))
		add("all flows, mean", want.all[i], 0.15, mean(c.times(drawn, 0)))
		peak := slices.Max(c.buffers())
		least, most = min(least, peak), max(most, peak)
	}
	if math.IsInf(least, 1) {
		return
	}
	if want.buffer[0] == 3 {
		from = comparison.FromConstant("port-buffer-bytes").Of(comparison.SpecCalibration)
	}
	l.row(from, comparison.NewRow(id, want.name+": most buffer, of the load that needs least", "MB", want.buffer[0],
		want.buffer[0], 0.1, least))
	l.row(from, comparison.NewRow(id, want.name+": most buffer, of the load that needs most", "MB", want.buffer[1],
		want.buffer[1], 0.1, most))
}

// plots4 draws completion times by load, and buffers over time.
func (l *lab) plots4(list []*cell) {
	small := comparison.Plot{Name: "a-4-100kb", Title: "Completion of 100 KB, web search", X: "% load", Y: "ms"}
	large := comparison.Plot{Name: "a-4-elephants", Title: "Completion of flows above 1 MB, web search", X: "% load",
		Y: "ms"}
	depth := comparison.Plot{Name: "a-4-buffer", Title: "Buffer in use at 80 % load, most of each ms", X: "ms", Y: "MB"}
	for _, r := range table4() {
		a, b := comparison.Series{Name: r.name}, comparison.Series{Name: r.name}
		for _, load := range loads4() {
			if c := find(list, r.queue, load); c != nil {
				a.X, a.Y = append(a.X, 100*load), append(a.Y, mean(c.times(probes, 0)))
				b.X, b.Y = append(b.X, 100*load), append(b.Y, mean(c.times(drawn, elephant)))
			}
		}
		small.Series, large.Series = append(small.Series, a), append(large.Series, b)
		if c := find(list, r.queue, 0.8); c != nil {
			depth.Series = append(depth.Series, c.points[0].buffer.line(r.name))
		}
	}
	l.plot(small)
	l.plot(large)
	l.plot(depth)
}
