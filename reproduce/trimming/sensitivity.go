package trimming

import (
	"context"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/reproduce/comparison"
)

// curve is what a sweep over the duration of the response gives.
type curve struct {
	micros []float64 // pessimistic time
	good   []float64 // mean goodput of a flow, Gb/s
	extra  []float64 // trims beyond the ideal switch, %
	queue  []float64 // longest recirculation queue, packets
	ideal  float64   // goodput on the ideal switch, Gb/s
}

// curve measures a sweep over the duration of the response.
func (l *lab) curve(ctx context.Context, file string) (*curve, error) {
	points, err := l.measure(ctx, file)
	if err != nil {
		return nil, err
	}
	best, err := l.ideal(ctx, points[0].senders())
	if err != nil {
		return nil, err
	}
	c := &curve{ideal: mean(best.goodput())}
	for _, p := range points {
		c.micros = append(c.micros, p.test.Switch.Values.Duration("pessimistic-us").Microseconds())
		c.good = append(c.good, mean(p.goodput()))
		c.extra = append(c.extra, 100*(p.trims()/best.trims()-1))
		c.queue = append(c.queue, p.recirculationPeak())
	}
	return c, nil
}

// responses measures a sweep over the duration of the response and plots it.
func (l *lab) responses(ctx context.Context, file, figure, title string) (*curve, error) {
	c, err := l.curve(ctx, file)
	if err != nil {
		return nil, err
	}
	for _, plot := range []struct {
		what, unit string
		y          []float64
	}{{"goodput", "Gb/s", c.good}, {"trims", "% beyond ideal", c.extra}, {"queue", "packets", c.queue}} {
		l.plot(comparison.Plot{Name: figure + "-" + plot.what, Title: title + ": " + plot.what, X: "µs of response", Y: plot.unit,
			Series: []comparison.Series{{Name: plot.what, X: c.micros, Y: plot.y}}})
	}
	return c, nil
}

// smallQueue is how long a recirculation queue is that the source's plots show as small, beside thousands: twice the 250 packets
// that it names for its own choice.
const smallQueue = 500

// stableFrom returns the shortest response from which on the recirculation queue stays small; infinity if none does.
func (c *curve) stableFrom() float64 {
	from := math.Inf(1)
	for i := len(c.micros) - 1; i >= 0 && c.queue[i] <= smallQueue; i-- {
		from = c.micros[i]
	}
	return from
}

// at returns a value for the measured response that is nearest to one, NaN if there are none.
func (c *curve) at(values []float64, micros float64) float64 {
	best := math.NaN()
	distance := math.Inf(1)
	for i, m := range c.micros {
		if d := math.Abs(m - micros); d < distance {
			best, distance = values[i], d
		}
	}
	return best
}

// within returns the values for responses from low to high.
func (c *curve) within(values []float64, low, high float64) []float64 {
	var list []float64
	for i, m := range c.micros {
		if m >= low && m <= high {
			list = append(list, values[i])
		}
	}
	return list
}

const longest = 30 // µs of response in all sweeps

// Why some rows deviate; docs/reproducing-trimming.md has the whole story.
const (
	steadier = "with three times as much half-pessimistic time behind it, a shorter response holds here; alone (T9) it takes 3 µs"
	harsher  = "each packet left in the recirculation queue prolongs the full stop here; the source must drain it faster"
	milder   = "here pipelines share deflected packets evenly, so that each hears of a port soon enough by itself"
)

// stableRow compares where a scheme becomes stable.
func (c *curve) stableRow(id, what string, low, high, tolerance float64) comparison.Row {
	from := c.stableFrom()
	if math.IsInf(from, 1) {
		return comparison.NewRow(id, what, "µs", low, high, tolerance, math.NaN()).Noted(fmt.Sprintf("not stable up to %d µs", longest))
	}
	return comparison.NewRow(id, what, "µs", low, high, tolerance, from)
}

func t8(ctx context.Context, l *lab) error {
	const id = "T8"
	c, err := l.responses(ctx, "t8.yml", "fig-8", "64 senders")
	if err != nil {
		return err
	}
	l.row(comparison.NewRow(id, "no response: longest recirculation queue", "packets", 14000, 14000, 0.1, c.at(c.queue, 0)))
	l.row(comparison.NewBound(id, "no response: goodput beside the ideal switch", "%", comparison.AtLeast, -5, 0, 100*(c.at(c.good, 0)/c.ideal-1)).
		Noted("the source: near optimal"))
	l.row(comparison.NewBound(id, "0.5 to 1.5 µs: longest recirculation queue, shortest of them", "packets", comparison.AtLeast, smallQueue, 0,
		slices.Min(c.within(c.queue, 0.5, 1.5))).Noted("the source: still large, no number; " + steadier))
	l.row(comparison.NewBound(id, "0.5 to 2.5 µs: trims beyond the ideal switch, worst", "%", comparison.AtLeast, 10, 0, slices.Max(c.within(c.extra, 0.5, 2.5))).
		Noted("the source: a lot more than it should, no number; here outputs never idle, so trims can't exceed the ideal's").ForInformation())
	l.row(comparison.NewBound(id, "0.5 to 2.5 µs: goodput beside the ideal switch, worst", "%", comparison.AtMost, -1, 0,
		100*(slices.Min(c.within(c.good, 0.5, 2.5))/c.ideal-1)).Noted("the source: hurt, no number").ForInformation())
	l.row(c.stableRow(id, "shortest response that keeps the queue small", 3, 3, 0.35).Noted(steadier))
	fewer, err := l.responses(ctx, "t8-32.yml", "fig-9-full", "32 senders, full scheme")
	if err != nil {
		return err
	}
	l.row(fewer.stableRow(id, "shortest response that keeps the queue small, 32 senders", 3, 3, 0.35).ForInformation())
	l.row(comparison.NewBound(id, "0.5 to 2.5 µs: trims beyond the ideal switch, worst, 32 senders", "%", comparison.AtLeast, 10, 0,
		slices.Max(fewer.within(fewer.extra, 0.5, 2.5))).ForInformation())
	l.row(comparison.NewBound(id, "6 µs: trims beyond the ideal switch", "%", comparison.AtMost, 10, 0, c.at(c.extra, 6)))
	l.row(comparison.NewBound(id, "30 µs: goodput less that at 6 µs", "Gb/s", comparison.AtMost, 0, 0, c.at(c.good, longest)-c.at(c.good, 6)).
		Noted("the source: longer costs throughput, no number; see T9's sweep with 32 senders").ForInformation())
	return nil
}

func t9(ctx context.Context, l *lab) error {
	const id = "T9"
	c, err := l.responses(ctx, "t9-32.yml", "fig-9a", "32 senders, pessimistic only")
	if err != nil {
		return err
	}
	d, err := l.responses(ctx, "t9-64.yml", "fig-9a-64", "64 senders, pessimistic only")
	if err != nil {
		return err
	}
	full, err := l.curve(ctx, "t8-32.yml")
	if err != nil {
		return err
	}
	l.row(c.stableRow(id, "32 senders, pessimistic only: shortest response that keeps the queue small", 14, 14, 0.15).
		Noted("11 µs with jitter, 20 µs with senders in step"))
	l.row(comparison.NewRow(id, "32 senders, pessimistic only: goodput at 14 µs", "Gb/s", 42, 42, 0.05, c.at(c.good, 14)))
	l.row(comparison.NewRow(id, "32 senders, full scheme: goodput at 6 µs", "Gb/s", 46, 46, 0.05, full.at(full.good, 6)))
	l.row(d.stableRow(id, "64 senders, pessimistic only: shortest response that keeps the queue small", 3, 3, 0.35))
	return nil
}

func t10(ctx context.Context, l *lab) error {
	const id = "T10"
	c, err := l.responses(ctx, "t10-32.yml", "fig-9c", "32 senders, trim all")
	if err != nil {
		return err
	}
	d, err := l.responses(ctx, "t10-64.yml", "fig-9c-64", "64 senders, trim all")
	if err != nil {
		return err
	}
	l.row(c.stableRow(id, "32 senders, trim all: shortest response that keeps the queue small", 12, 12, 0.15))
	l.row(comparison.NewRow(id, "32 senders, trim all, 12 µs: trims beyond the ideal switch", "%", 80, 80, 0.15, c.at(c.extra, 12)).Noted(harsher))
	l.row(comparison.NewRow(id, "32 senders, trim all: best goodput of stable responses", "Gb/s", 38, 38, 0.05, best(c)).Noted(harsher))
	l.row(d.stableRow(id, "64 senders, trim all: shortest response that keeps the queue small", 10, 10, 0.15).Noted(harsher))
	l.row(comparison.NewRow(id, "64 senders, trim all, 10 µs: goodput", "Gb/s", 19, 19, 0.05, d.at(d.good, 10)).Noted(harsher))
	return nil
}

// best returns the best goodput of the stable responses, NaN if there are none.
func best(c *curve) float64 {
	from := c.stableFrom()
	if math.IsInf(from, 1) {
		return math.NaN()
	}
	return slices.Max(c.within(c.good, from, longest))
}

func t11(ctx context.Context, l *lab) error {
	const id = "T11"
	for _, n := range []int{32, 64} {
		c, err := l.responses(ctx, fmt.Sprintf("t11-%d.yml", n), fmt.Sprintf("fig-9-own-%d", n), fmt.Sprintf("%d senders, one pipeline notified", n))
		if err != nil {
			return err
		}
		l.row(c.stableRow(id, fmt.Sprintf("%d senders, one pipeline notified: shortest response that keeps the queue small", n), 9, 12, 0.15).Noted(milder))
		l.row(comparison.NewRow(id, fmt.Sprintf("%d senders, one pipeline notified, 10 µs: trims beyond the ideal switch", n), "%", 20, 25, 0.15, c.at(c.extra, 10)).Noted(milder))
	}
	return nil
}
