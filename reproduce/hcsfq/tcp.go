package hcsfq

import (
	"context"
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// Time in which shares of TCP are measured: after slow start.
const fromTCP, toTCP = 50 * ms, 200 * ms

// seedsTCP is the number of seeds of E7 to E12.
const seedsTCP = 3

// toleranceTCP is that of the specification for shares of TCP (7, H3).
const toleranceTCP = 0.10

// shape is the origin of a row of which the source shows a figure, measured with Linux and hardware.
var shape = comparison.FromMechanism("the source shows equal, or by weight, in a figure without values; the number " +
	"is the max-min share of what the switch gives away, the tolerance that of the specification for TCP").
	Of(comparison.PaperStatement)

// measureQueue is measure with another queue in the place of HCSFQ, and of the first point alone.
func (l *lab) measureQueue(ctx context.Context, file string, q queue, seeds int) ([]*point, error) {
	return l.measureFiles(ctx, replaced{l.files, &q}, file, seeds)
}

// groupsTCP are the flows of three hosts and those of the fourth.
func groupsTCP(want, last float64) (share, share) {
	return share{flows{1, 24}, phi * want}, share{flows{25, 32}, phi * last}
}

// experimentTCP measures a test with HCSFQ and returns its runs.
func (l *lab) experimentTCP(ctx context.Context, id, what, figure, title, file string, groups ...share) ([]*point,
	error) {
	points, err := l.measureFiles(ctx, l.files, file, seedsTCP)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		l.spread(shape, id, what+g.String(), "seeds", "Gb/s", g.want, toleranceTCP, each(points, func(p *point) float64 {
			return mean(p.course.rates(g.flows, fromTCP, toTCP))
		}))
	}
	l.judged(id, what+"violations", points)
	l.bars(figure, title, points[0], fromTCP, toTCP, groups...)
	return points, nil
}

// withoutTCP shows what FIFO does to the flows of a test.
func (l *lab) withoutTCP(ctx context.Context, id, figure, title, file string, groups ...share) ([]*point, error) {
	points, err := l.measureQueue(ctx, file, fifo(), seedsTCP)
	if err == nil {
		l.bars(figure, title, points[0], fromTCP, toTCP, groups...)
	}
	return points, err
}

// e7 compares flows of TCP alone, with equal weights and weights 1 and 2.
func e7(ctx context.Context, l *lab) error {
	const id = "E7"
	a, b := groupsTCP(1.25, 1.25)
	if _, err := l.experimentTCP(ctx, id, "equal: ", "fig-3-8a", "Figure 3-8a: TCP, equal weights", "e7.yml", a,
		b); err != nil {
		return err
	}
	one, two := groupsTCP(1, 2)
	points, err := l.experimentTCP(ctx, id, "weights 1 and 2: ", "fig-3-8b", "Figure 3-8b: TCP, weights 1 and 2",
		"e7-weights.yml", one, two)
	if err != nil {
		return err
	}
	l.spread(shape, id, "weight 2 beside weight 1", "seeds", "times", 2, toleranceTCP,
		ratios(points, fromTCP, toTCP, two, one))
	without, err := l.withoutTCP(ctx, id, "fig-3-8-fifo", "Figure 3-8: TCP, without HCSFQ", "e7.yml", a, b)
	if err != nil {
		return err
	}
	l.spread(computedTCP, id, "FIFO: mean of all flows", "seeds", "Gb/s", 1.25, toleranceTCP, each(without,
		func(p *point) float64 { return mean(p.course.rates(flows{1, 32}, fromTCP, toTCP)) }))
	return nil
}

// computedTCP is the origin of a row without HCSFQ.
var computedTCP = comparison.FromMechanism("").Of(comparison.SpecCalibration)

// e8 compares flows of CUBIC with aggressive ones.
func e8(ctx context.Context, l *lab) error {
	const id = "E8"
	a, b := groupsTCP(1.25, 1.25)
	points, err := l.experimentTCP(ctx, id, "", "fig-3-9a", "Figure 3-9a: CUBIC beside aggressive flows (25 to 32)",
		"e8.yml",
		a, b)
	if err != nil {
		return err
	}
	chosen := comparison.FromChoice("flows of 5 Gb/s without congestion control replace BBR, which the simulated " +
		"hosts do not have").Of(comparison.PaperStatement)
	l.spread(chosen, id, "aggressive flow beside one of CUBIC", "seeds", "times", 1, toleranceTCP,
		ratios(points, fromTCP, toTCP, b, a))
	without, err := l.withoutTCP(ctx, id, "fig-3-9a-fifo", "Figure 3-9a: without HCSFQ", "e8.yml", a, b)
	if err != nil {
		return err
	}
	l.Row(comparison.FromChoice("the source: almost all; the bound is ours, and so are the flows").
		Of(comparison.PaperStatement), comparison.NewBound(id, "FIFO: share of the aggressive flows, least of the seeds", "%",
		comparison.AtLeast, 90, 0, slices.Min(each(without, func(p *point) float64 {
			return 100 * 8 * mean(p.course.rates(b.flows, fromTCP, toTCP)) / bottleneck
		}))))
	return nil
}

// q11 compares flows with RTTs of 0.3 and 0.7 ms: E9.
func q11(ctx context.Context, l *lab) error {
	const id = "Q11"
	a, b := groupsTCP(1.25, 1.25)
	points, err := l.measureFiles(ctx, l.files, "e9.yml", seedsTCP)
	if err != nil {
		return err
	}
	stated := comparison.FromMechanism("").Of(comparison.PaperStatement)
	l.Row(stated, comparison.NewBound(id, "E9, HCSFQ: RTT 0.3 ms beside 0.7 ms, most of the seeds", "times",
		comparison.AtMost, 1.1, 0, slices.Max(ratios(points, fromTCP, toTCP, a, b))))
	l.judged(id, "E9: violations", points)
	l.bars("fig-3-9b", "Figure 3-9b: RTTs of 0.3 and 0.7 ms (25 to 32)", points[0], fromTCP, toTCP, a, b)
	without, err := l.withoutTCP(ctx, id, "fig-3-9b-fifo", "Figure 3-9b: without HCSFQ", "e9.yml", a, b)
	if err != nil {
		return err
	}
	all := ratios(without, fromTCP, toTCP, a, b)
	l.Row(stated, comparison.NewRow(id, "E9, FIFO: RTT 0.3 ms beside 0.7 ms, least of the seeds", "times", 1.7, 2.6, 0,
		slices.Min(all)))
	l.Row(stated, comparison.NewRow(id, "E9, FIFO: RTT 0.3 ms beside 0.7 ms, most of the seeds", "times", 1.7, 2.6, 0,
		slices.Max(all)))
	return nil
}

// udpFlows and tcpFlows are those of E11.
func udpFlows() flows { return flows{25, 32} }

// q9 is E11 without HCSFQ.
func q9(ctx context.Context, l *lab) error {
	const id = "Q9"
	a, b := groupsTCP(1.25, 1.25)
	without, err := l.withoutTCP(ctx, id, "fig-3-12-fifo", "Figure 3-12: TCP beside UDP (25 to 32), without HCSFQ",
		"e11.yml", a, b)
	if err != nil {
		return err
	}
	above := each(without, func(p *point) float64 {
		return 100 * (mean(p.course.rates(udpFlows(), fromTCP, toTCP))/(bottleneck/32.) - 1)
	})
	stated := comparison.FromMechanism("+84 %, with what the specification allows").Of(comparison.PaperStatement)
	l.Row(stated, comparison.NewRow(id, "E11, FIFO: UDP above its share, least of the seeds", "%", 60, 110, 0,
		slices.Min(above)))
	l.Row(stated, comparison.NewRow(id, "E11, FIFO: UDP above its share, most of the seeds", "%", 60, 110, 0,
		slices.Max(above)))
	return nil
}

// q10 is E11 with HCSFQ.
func q10(ctx context.Context, l *lab) error {
	const id = "Q10"
	a, b := groupsTCP(1.25, 1.25)
	for _, mode := range []struct {
		name, file, figure string
		most               float64
	}{{"ideal", "e11.yml", "fig-3-12b", 1.1}, {"dataplane", "e11-dataplane.yml", "fig-3-12a", 1.25}} {
		points, err := l.measureFiles(ctx, l.files, mode.file, seedsTCP)
		if err != nil {
			return err
		}
		all := ratios(points, fromTCP, toTCP, b, a)
		stated := comparison.FromMechanism("").Of(comparison.PaperStatement)
		l.Row(stated, comparison.NewRow(id, "E11, "+mode.name+": UDP beside TCP, least of the seeds", "times", 0.9, mode.most,
			0, slices.Min(all)))
		l.Row(stated, comparison.NewRow(id, "E11, "+mode.name+": UDP beside TCP, most of the seeds", "times", 0.9, mode.most,
			0, slices.Max(all)))
		l.judged(id, "E11, "+mode.name+": violations", points)
		l.bars(mode.figure, "Figure "+mode.figure[len("fig-"):]+": TCP beside UDP (25 to 32), "+mode.name, points[0], fromTCP,
			toTCP, a, b)
	}
	return nil
}

// e10 compares flows of TCP that join and leave. It is long, and has one seed.
func e10(ctx context.Context, l *lab) error {
	const id, phase, wait = "E10", 160 * ms, 80 * ms
	with, err := l.measureFiles(ctx, l.files, "e10.yml", 1)
	if err != nil {
		return err
	}
	without, err := l.measureQueue(ctx, "e10.yml", fifo(), 1)
	if err != nil {
		return err
	}
	for n, senders := range []int{1, 2, 3, 4, 3, 2, 1} {
		from, want := clock.Duration(n)*phase, phi*bottleneck/float64(senders)
		for i := range senders {
			l.Row(shape, comparison.NewRow(id, fmt.Sprintf("phase %d, %d senders, second half: flow %d", n+1, senders, i+1),
				"Gb/s", want, want, toleranceTCP, with[0].course.rate(i+1, from+wait, from+phase)))
		}
	}
	l.judged(id, "violations", with)
	// of the fourth phase: all send
	biased := mean(without[0].course.rates(flows{1, 2}, 3*phase+wait, 4*phase)) /
		mean(without[0].course.rates(flows{3, 4}, 3*phase+wait, 4*phase))
	l.Row(comparison.FromChoice("the source shows a bias by RTT; that it is more than with HCSFQ is our bound").
		Of(comparison.PaperStatement), comparison.NewBound(id, "FIFO, 4 senders: RTT 0.3 ms beside 0.7 ms", "times",
		comparison.AtLeast, 1.1, 0, biased))
	l.lines("fig-3-11b", "Figure 3-11b: TCP flows join and leave", with[0], 4)
	l.lines("fig-3-11a", "Figure 3-11a: without HCSFQ", without[0], 4)
	return nil
}

// e12 is E5 and E6 with TCP.
func e12(ctx context.Context, l *lab) error {
	const id = "E12"
	a, b := groupsTCP(40./2/24, 40./2/8)
	points, err := l.experimentTCP(ctx, id, "two tenants: ", "fig-3-14a", "Figure 3-14a: two tenants with TCP",
		"e12.yml", a, b)
	if err != nil {
		return err
	}
	l.spread(shape, id, "two tenants: tenant 1 beside tenant 2", "seeds", "times", 1, toleranceTCP,
		totals(points, fromTCP, toTCP))
	_, err = l.experimentTCP(ctx, id, "weights: ", "fig-3-14b", "Figure 3-14b: two tenants and weights with TCP",
		"e12-weights.yml", share{flows{1, 8}, phi * 1.25}, share{flows{9, 24}, phi * 0.625}, share{flows{25, 32}, phi * 2.5})
	if err != nil {
		return err
	}
	_, err = l.withoutTCP(ctx, id, "fig-3-14-fifo", "Figure 3-14: without HCSFQ", "e12.yml", a, b)
	return err
}
