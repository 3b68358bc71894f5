package hcsfq

import (
	"context"
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

const ms = clock.Millisecond

// share is what each of some flows is to get, in Gb/s.
type share struct {
	flows
	want float64
}

// spread adds rows for the least and the most of values.
func (l *lab) spread(from comparison.Origin, id, what, of, unit string, want, tolerance float64, values []float64) {
	l.Row(from, comparison.NewRow(id, what+", least of the "+of, unit, want, want, tolerance, slices.Min(values)))
	l.Row(from, comparison.NewRow(id, what+", most of the "+of, unit, want, want, tolerance, slices.Max(values)))
}

// groups adds rows for the mean of each group of flows.
func (l *lab) groups(id string, from comparison.Origin, points []*point, since, to clock.Duration, tolerance float64,
	groups ...share) {
	for _, g := range groups {
		l.spread(from, id, g.String(), "seeds", "Gb/s", g.want, tolerance, each(points, func(p *point) float64 {
			return mean(p.course.rates(g.flows, since, to))
		}))
	}
}

// judged adds a row for what the judges of the runs found.
func (l *lab) judged(id, what string, points []*point) {
	sum := 0.0
	for _, p := range points {
		sum += p.violations
	}
	l.Row(comparison.FromMechanism("the rules of analyzer fair and others, packet by "+
		"packet").Of(comparison.SpecCalibration),
		comparison.NewRow(id, what+", all seeds", "", 0, 0, 0, sum))
}

// bars draws the rate of each flow of a run.
func (l *lab) bars(name, title string, p *point, from, to clock.Duration, groups ...share) {
	plot := comparison.Plot{Name: name, Title: title, X: "flow", Y: "Gb/s"}
	for _, g := range groups {
		s := comparison.Series{Name: fmt.Sprintf("%d–%d: %.3g Gb/s", g.first, g.last, g.want), Style: comparison.Dots}
		for i, r := range p.course.rates(g.flows, from, to) {
			s.X, s.Y = append(s.X, float64(g.first+i)), append(s.Y, r)
		}
		plot.Series = append(plot.Series, s)
	}
	l.Plot(plot)
}

// lines draws rates over time.
func (l *lab) lines(name, title string, p *point, flows int) {
	plot := comparison.Plot{Name: name, Title: title, X: "ms", Y: "Gb/s"}
	for i := 1; i <= flows; i++ {
		plot.Series = append(plot.Series, p.course.line(fmt.Sprint("flow ", i), i))
	}
	l.Plot(plot)
}

// settled is when the FIFO has drained and alpha has settled, which take some 5 ms.
const settled = 15 * ms

func q1(ctx context.Context, l *lab) error {
	// in this time random drops move the share of a flow by 0.9 % or less, one standard deviation
	const id, ended = "Q1", 150 * ms
	points, err := l.measure(ctx, "e1.yml", seedsUDP)
	if err != nil {
		return err
	}
	all := share{flows{1, 32}, phi * bottleneck / 32}
	var rates []float64
	for _, p := range points {
		rates = append(rates, p.course.rates(all.flows, settled, ended)...)
	}
	l.spread(stated, id, "E1: "+all.String(), "flows and seeds", "Gb/s", all.want, 0.03, rates)
	l.Row(stated, comparison.NewBound(id, "E1: Jain's index, least of the seeds", "", comparison.AtLeast, 0.999, 0,
		slices.Min(each(points, func(p *point) float64 { return jain(p, settled, ended, all) }))))
	l.judged(id, "violations", points)
	l.bars("fig-3-6a", "Figure 3-6a: equal weights", points[0], settled, ended, share{flows{1, 24}, all.want},
		share{flows{25, 32}, all.want})
	return nil
}

func q2(ctx context.Context, l *lab) error {
	const id, ended = "Q2", 100 * ms
	points, err := l.measure(ctx, "e2.yml", seedsUDP)
	if err != nil {
		return err
	}
	one, two := share{flows{1, 24}, phi}, share{flows{25, 32}, 2 * phi}
	l.groups(id, stated, points, settled, ended, 0.03, one, two)
	l.spread(stated, id, "weight 2 beside weight 1", "seeds", "times", 2, 0.03, ratios(points, settled, ended, two, one))
	l.judged(id, "violations", points)
	l.bars("fig-3-6b", "Figure 3-6b: weights 1 and 2", points[0], settled, ended, one, two)
	return nil
}

// ratios returns, for each run, how much more one group of flows gets than another, in the mean of each.
func ratios(points []*point, from, to clock.Duration, a, b share) []float64 {
	return each(points, func(p *point) float64 {
		return mean(p.course.rates(a.flows, from, to)) / mean(p.course.rates(b.flows, from, to))
	})
}

func q3(ctx context.Context, l *lab) error {
	const id, phase, wait = "Q3", 10 * ms, 3 * ms
	points, err := l.measure(ctx, "e3.yml", seedsUDP)
	if err != nil {
		return err
	}
	half := phi * bottleneck / 2
	for n, want := range [][2]float64{{10, 20}, {half, half}, {half, half}, {half, half}} {
		from := clock.Duration(n) * phase
		for i, w := range want {
			what := fmt.Sprintf("flow 1 sends %d Gb/s: flow %d", 10*(n+1), i+1)
			l.spread(stated, id, what, "seeds", "Gb/s", w, 0.03, each(points, func(p *point) float64 {
				return p.course.rate(i+1, from+wait, from+phase)
			}))
		}
	}
	l.judged(id, "violations", points)
	l.lines("fig-3-7", "Figure 3-7: flow 1 sends 10, 20, 30, 40 Gb/s", points[0], 2)
	return nil
}

func q4(ctx context.Context, l *lab) error {
	const id, phase, wait = "Q4", 20 * ms, 10 * ms
	points, err := l.measure(ctx, "e4.yml", seedsUDP)
	if err != nil {
		return err
	}
	for n, senders := range []int{1, 2, 3, 4, 3, 2, 1} {
		from, want := clock.Duration(n)*phase, phi*bottleneck/float64(senders)
		for i := range senders {
			what := fmt.Sprintf("phase %d, %d senders, after 10 ms: flow %d", n+1, senders, i+1)
			l.spread(stated, id, what, "seeds", "Gb/s", want, 0.03, each(points, func(p *point) float64 {
				return p.course.rate(i+1, from+wait, from+phase)
			}))
		}
	}
	l.judged(id, "violations", points)
	l.lines("fig-3-10", "Figure 3-10: flows join and leave", points[0], 4)
	return nil
}

// tenants are the flows of the tenants of E5 and E6.
func tenants() (a, b flows) { return flows{1, 24}, flows{25, 32} }

// totals returns what the first tenant got in all beside the second, for each run.
func totals(points []*point, from, to clock.Duration) []float64 {
	a, b := tenants()
	return each(points, func(p *point) float64 {
		return 3 * mean(p.course.rates(a, from, to)) / mean(p.course.rates(b, from, to))
	})
}

func q5(ctx context.Context, l *lab) error {
	const id = "Q5"
	a, b := tenants()
	first, second := share{a, phi * bottleneck / 2 / 24}, share{b, phi * bottleneck / 2 / 8}
	for _, mode := range []struct {
		name, file string
		from, to   clock.Duration
		tolerance  float64
	}{{"ideal", "e5.yml", 20 * ms, 100 * ms, 0.03}, {"dataplane", "e5-dataplane.yml", 60 * ms, 120 * ms, 0.06}} {
		points, err := l.measure(ctx, mode.file, seedsUDP)
		if err != nil {
			return err
		}
		l.spread(stated, id, mode.name+": tenant 1 beside tenant 2", "seeds", "times", 1, mode.tolerance,
			totals(points, mode.from, mode.to))
		if mode.name == "ideal" {
			l.groups(id, stated, points, mode.from, mode.to, mode.tolerance, first, second)
		}
		l.judged(id, "violations", points)
		l.bars("fig-3-13a-"+mode.name, "Figure 3-13a: two tenants, "+mode.name, points[0], mode.from, mode.to, first,
			second)
	}
	return nil
}

func q6(ctx context.Context, l *lab) error {
	const id, from, to = "Q6", 20 * ms, 100 * ms
	points, err := l.measure(ctx, "e6.yml", seedsUDP)
	if err != nil {
		return err
	}
	groups := []share{{flows{1, 8}, phi * 1.25}, {flows{9, 24}, phi * 0.625}, {flows{25, 32}, phi * 2.5}}
	l.groups(id, stated, points, from, to, 0.03, groups...)
	l.judged(id, "violations", points)
	l.bars("fig-3-13b", "Figure 3-13b: two tenants and weights", points[0], from, to, groups...)
	return nil
}

// example adds the rows of figure 3-2, times 4 Gb/s.
func (l *lab) example(ctx context.Context, id, file string, tolerance float64, want [4]float64) error {
	const from, to = 10 * ms, 40 * ms
	points, err := l.measure(ctx, file, seedsUDP)
	if err != nil {
		return err
	}
	for i, w := range want {
		l.spread(computed, id, fmt.Sprintf("flow %d", i+1), "seeds", "Gb/s", w, tolerance, each(points,
			func(p *point) float64 { return p.course.rate(i+1, from, to) }))
	}
	l.judged(id, "violations", points)
	return nil
}

// q7 is figure 3-2b. Its first group leaves nothing: what flow 2 wants and gets is the same but for phi.
func q7(ctx context.Context, l *lab) error {
	return l.example(ctx, "Q7", "q7.yml", 0.04, [4]float64{4, phi*20 - 4, phi * 10, phi * 10})
}

func q8(ctx context.Context, l *lab) error {
	rest := (phi*bottleneck - 4) / 3
	return l.example(ctx, "Q8", "q8.yml", 0.03, [4]float64{4, rest, rest, rest})
}
