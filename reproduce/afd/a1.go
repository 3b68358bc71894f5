package afd

import (
	"context"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// Window in which the flows of A-1 are measured.
const from1, to1 = 50 * clock.Millisecond, 150 * clock.Millisecond

// seeds1 is the number of seeds of.
const seeds1 = 3

// wire is the share of layer-2 bytes in what a packet of 1500 bytes takes of a link with 20 bytes of framing.
const wire = 1500.0 / 1520

// carried returns the layer-2 rate of a flow in Gb/s between two instants: payloads are 1458 bytes of 1500.
func (p *point) carried(flow int, from, to clock.Duration) float64 {
	return p.series.mean(fmt.Sprintf("flow-%d.goodput-bps", flow), from, to) / 1e9 * 1500 / 1458
}

// depth returns the mean depth of a queue of packets of 1500 bytes in KB.
func (p *point) depth(queue string, from, to clock.Duration) float64 {
	return p.series.mean("switch."+queue+".packets", from, to) * 1.5
}

// a1 compares unresponsive flows with max-min fairness.
func a1(ctx context.Context, l *lab) error {
	const id, queue = "A-1", "port-4.queue-0"
	runs, err := l.measure(ctx, "a-1.yml", seeds1, nil)
	if err != nil {
		return err
	}
	demands := []float64{2, 4, 6, 8}
	fair, err := waterfill.Flat(10*wire, demands)
	if err != nil {
		return err
	}
	var points []*point
	for _, p := range runs {
		points = append(points, p[0])
	}
	paperFair := comparison.FromMechanism("the paper says fairly; the number is that of max-min fairness").
		Of(comparison.PaperStatement)
	for i, demand := range demands {
		rates := each(points, func(p *point) float64 { return p.carried(i+1, from1, to1) })
		for _, end := range []struct {
			name string
			of   float64
		}{{"least", slices.Min(rates)}, {"most", slices.Max(rates)}} {
			what := fmt.Sprintf("afd, flow of %g Gb/s: carried, %s of the seeds", demand, end.name)
			l.row(paperFair, comparison.NewRow(id, what, "Gb/s", fair[i], fair[i], 0.02, end.of))
		}
		l.row(paperFair, comparison.NewRow(id, fmt.Sprintf("afd, flow of %g Gb/s: share dropped", demand), "%",
			100*(1-fair[i]/demand), 100*(1-fair[i]/demand), 0.02, 100*mean(each(points, func(p *point) float64 {
				f := &p.Flows.Flows[i]
				return float64(f.Dropped) / float64(f.Sent)
			}))))
	}
	l.row(calibrated, comparison.NewBound(id, "afd: Jain's index of the three large flows, least of the seeds", "",
		comparison.AtLeast, 0.9999, 0, slices.Min(each(points, func(p *point) float64 {
			return waterfill.Jain([]float64{p.carried(2, from1, to1), p.carried(3, from1, to1), p.carried(4, from1, to1)})
		}))))
	depths := each(points, func(p *point) float64 { return p.depth(queue, from1, to1) })
	depth := comparison.FromConstant("queue-desired-bytes; the range is that of the specification").
		Of(comparison.SpecCalibration)
	l.row(depth, comparison.NewRow(id, "afd: mean queue, least of the seeds", "KB", 135, 165, 0, slices.Min(depths)))
	l.row(depth, comparison.NewRow(id, "afd: mean queue, most of the seeds", "KB", 135, 165, 0, slices.Max(depths)))
	l.row(stated, comparison.NewRow(id, "afd: tail drops, all seeds", "", 0, 0, 0,
		3*mean(each(points, func(p *point) float64 { return p.counter("dropped-tail") }))))
	l.judged(id, "afd", runs)
	l.queueOf1(points[0], queue)
	return l.baselines1(ctx, demands, queue)
}

// queueOf1 plots the queue and the rates of a run.
func (l *lab) queueOf1(p *point, queue string) {
	depth := comparison.Plot{Name: "a-1-queue", Title: "Queue of four unresponsive flows", X: "ms", Y: "KB"}
	depth.Series = append(depth.Series, p.series.line("switch."+queue+".packets", "afd", 1.5))
	rates := comparison.Plot{Name: "a-1-fairness", Title: "Rates of four unresponsive flows (afd)", X: "ms", Y: "Gb/s"}
	for i, demand := range []int{2, 4, 6, 8} {
		rates.Series = append(rates.Series, p.series.line(fmt.Sprintf("flow-%d.goodput-bps", i+1),
			fmt.Sprintf("offers %d Gb/s", demand), 1500.0/1458/1e9))
	}
	l.plot(depth)
	l.plot(rates)
}

// line returns a time series over milliseconds, in units of a scale, of at most 500 means.
func (all series) line(name, label string, scale float64) comparison.Series {
	line := comparison.Series{Name: label, Style: comparison.Line}
	s := all[name]
	if s == nil {
		return line
	}
	step := (len(s.at) + 499) / 500
	for i := 0; i+step <= len(s.at); i += step {
		line.X = append(line.X, s.at[i+step/2].Sub(0).Microseconds()/1000)
		line.Y = append(line.Y, scale*mean(s.values[i:i+step]))
	}
	return line
}

// baselines1 measures the queues that are blind to flows.
func (l *lab) baselines1(ctx context.Context, demands []float64, queue string) error {
	const id = "A-1"
	runs, err := l.measure(ctx, "a-1-baselines.yml", seeds1, nil)
	if err != nil {
		return err
	}
	for n, m := range []struct {
		name  string
		rates []float64
		queue float64
	}{{"wred", []float64{0.99, 1.97, 2.96, 3.94}, 450}, {"tail drop", []float64{0.82, 1.78, 2.98, 4.28}, 3000}} {
		var points []*point
		for _, p := range runs {
			points = append(points, p[n])
		}
		for i, demand := range demands {
			l.row(calibrated, comparison.NewRow(id, fmt.Sprintf("%s, flow of %g Gb/s: carried, mean of the seeds", m.name,
				demand), "Gb/s", m.rates[i], m.rates[i], 0.02,
				mean(each(points, func(p *point) float64 { return p.carried(i+1, from1, to1) }))))
		}
		l.row(comparison.FromConstant("max-bytes of wred, port-buffer-bytes").Of(comparison.SpecCalibration),
			comparison.NewRow(id, m.name+": mean queue", "KB", m.queue, m.queue, 0.1,
				mean(each(points, func(p *point) float64 { return p.depth(queue, from1, to1) }))))
	}
	return nil
}
