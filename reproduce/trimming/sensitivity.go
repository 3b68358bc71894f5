package trimming

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/reproduce/comparison"
)

// curve is the result of a sweep over the duration of the response with one seed.
type curve struct {
	micros []float64 // pessimistic time
	good   []float64 // mean goodput of a flow, Gb/s
	extra  []float64 // trims beyond the ideal switch, %
	queue  []float64 // longest recirculation queue, packets
	ideal  float64   // goodput on the ideal switch, Gb/s
}

// sweep is a sweep repeated with several seeds. The source ran each point once; its values are compared with the
// median.
type sweep []*curve

// of returns the median of a value over all seeds; NaN, nothing measured, sorts last.
func (s sweep) of(show func(*curve) float64) float64 {
	values := s.each(show)
	slices.SortFunc(values, func(a, b float64) int {
		if math.IsNaN(a) || math.IsNaN(b) {
			return cmp.Compare(btoi(math.IsNaN(a)), btoi(math.IsNaN(b)))
		}
		return cmp.Compare(a, b)
	})
	return values[len(values)/2]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s sweep) each(show func(*curve) float64) []float64 {
	values := make([]float64, len(s))
	for i, c := range s {
		values[i] = show(c)
	}
	return values
}

// spread lists the value of each seed.
func (s sweep) spread(show func(*curve) float64) string {
	words := make([]string, len(s))
	for i, v := range s.each(show) {
		switch {
		case math.IsInf(v, 1):
			words[i] = "never"
		case math.IsNaN(v):
			words[i] = "none"
		default:
			words[i] = strconv.FormatFloat(v, 'g', 4, 64)
		}
	}
	return "seeds: " + strings.Join(words, ", ")
}

// measureSweep measures a sweep over the duration of the response.
func (l *lab) measureSweep(ctx context.Context, file string) (sweep, error) {
	if s := l.sweeps[file]; s != nil {
		return s, nil
	}
	bySeed, err := l.measureSeeds(ctx, file)
	if err != nil {
		return nil, err
	}
	best, err := l.ideal(ctx, bySeed[0][0].senders())
	if err != nil {
		return nil, err
	}
	var s sweep
	for _, points := range bySeed {
		c := &curve{ideal: mean(best.goodput())}
		for _, p := range points {
			c.micros = append(c.micros, p.Test.Switch.Values.Duration("pessimistic-us").Microseconds())
			c.good = append(c.good, mean(p.goodput()))
			c.extra = append(c.extra, 100*(p.trims()/best.trims()-1))
			c.queue = append(c.queue, p.recirculationPeak())
		}
		s = append(s, c)
	}
	l.sweeps[file] = s
	return s, nil
}

// responses measures a sweep over the duration of the response and plots it, a line for each seed.
func (l *lab) responses(ctx context.Context, file, figure, title string) (sweep, error) {
	s, err := l.measureSweep(ctx, file)
	if err != nil {
		return nil, err
	}
	for _, plot := range []struct {
		what, unit string
		y          func(*curve) []float64
	}{
		{"goodput", "Gb/s", func(c *curve) []float64 { return c.good }},
		{"trims", "% beyond ideal", func(c *curve) []float64 { return c.extra }},
		{"queue", "packets", func(c *curve) []float64 { return c.queue }},
	} {
		p := comparison.Plot{Name: figure + "-" + plot.what, Title: title + ": " + plot.what, X: "us of response",
			Y: plot.unit}
		for i, c := range s {
			p.Series = append(p.Series, comparison.Series{Name: fmt.Sprintf("seed %d", i+1), X: c.micros, Y: plot.y(c)})
		}
		l.plot(p)
	}
	return s, nil
}

// smallQueue is the maximum recirculation queue, in packets, that the source's plots show as small, next to thousands:
// twice the 250 packets that it gives for its own choice.
const smallQueue = 500

// stableFrom returns the shortest response from which on the recirculation queue stays small; infinity if none.
func (c *curve) stableFrom() float64 {
	from := math.Inf(1)
	for i := len(c.micros) - 1; i >= 0 && c.queue[i] <= smallQueue; i-- {
		from = c.micros[i]
	}
	return from
}

// at returns the value for the measured response that is nearest to micros, NaN if there are none.
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

// within returns the values for responses from low to high. If none was measured, as in a quick reproduction, it
// returns the value nearest to the middle.
func (c *curve) within(values []float64, low, high float64) []float64 {
	var list []float64
	for i, m := range c.micros {
		if m >= low && m <= high {
			list = append(list, values[i])
		}
	}
	if len(list) == 0 {
		list = []float64{c.at(values, (low+high)/2)}
	}
	return list
}

const longest = 30 // us of response in all sweeps

// Reasons for deviations of rows; docs/internals/reproducing-trimming.md explains them in full.
const (
	steadier = "with three times as much half-pessimistic time behind it, a shorter response holds here; alone (T9) it " +
		"takes 3 us"
	harsher = "each packet left in the recirculation queue prolongs the full stop here; the source must drain it faster"
	milder  = "here pipelines share deflected packets evenly, so that each hears of a port soon enough by itself"
)

// stableRow compares the response from which on a scheme is stable.
func (s sweep) stableRow(id, what string, low, high, tolerance float64) comparison.Row {
	from := s.of((*curve).stableFrom)
	if math.IsInf(from, 1) {
		from = math.NaN()
	}
	row := comparison.NewRow(id, what, "us", low, high, tolerance, from)
	if math.IsNaN(from) {
		row = row.Noted(fmt.Sprintf("not stable up to %d us", longest))
	}
	return row.Noted(s.spread((*curve).stableFrom))
}

// goodAt and extraAt return functions that give goodput and trims at the measured response nearest to micros.
func goodAt(micros float64) func(*curve) float64 {
	return func(c *curve) float64 { return c.at(c.good, micros) }
}

func extraAt(micros float64) func(*curve) float64 {
	return func(c *curve) float64 { return c.at(c.extra, micros) }
}

func t8(ctx context.Context, l *lab) error {
	const id = "T8"
	c, err := l.responses(ctx, "t8.yml", "fig-8", "64 senders")
	if err != nil {
		return err
	}
	l.row(follows, comparison.NewRow(id, "no response: longest recirculation queue", "packets", 14000, 14000, 0.1,
		c.of(func(c *curve) float64 { return c.at(c.queue, 0) })))
	l.row(comparison.FromChoice("bound ours: the source says near optimal"), comparison.NewBound(id,
		"no response: goodput beside the ideal switch", "%", comparison.AtLeast, -5, 0,
		c.of(func(c *curve) float64 { return 100 * (c.at(c.good, 0)/c.ideal - 1) })))
	l.row(comparison.FromChoice("bound ours: the source says still large"), comparison.NewBound(id,
		"0.5 to 1.5 us: longest recirculation queue, shortest of them", "packets", comparison.AtLeast, smallQueue, 0,
		c.of(func(c *curve) float64 { return slices.Min(c.within(c.queue, 0.5, 1.5)) })).Noted(steadier))
	l.row(comparison.FromChoice("bound ours: the source says a lot more than it should"), comparison.NewBound(id,
		"0.5 to 2.5 us: trims beyond the ideal switch, worst", "%", comparison.AtLeast, 10, 0, c.of(worstExtra)).
		Noted("here outputs never idle, so trims can't exceed the ideal's"))
	l.row(comparison.FromChoice("bound ours: the source says hurt"), comparison.NewBound(id,
		"0.5 to 2.5 us: goodput beside the ideal switch, worst", "%", comparison.AtMost, -1, 0,
		c.of(func(c *curve) float64 { return 100 * (slices.Min(c.within(c.good, 0.5, 2.5))/c.ideal - 1) })))
	l.row(follows, c.stableRow(id, "shortest response that keeps the queue small", 3, 3, 0.35).Noted(steadier))
	fewer, err := l.responses(ctx, "t8-32.yml", "fig-9-full", "32 senders, full scheme")
	if err != nil {
		return err
	}
	other := comparison.Unjudged("the source gives it for 64 senders")
	l.row(other, fewer.stableRow(id, "shortest response that keeps the queue small, 32 senders", 3, 3, 0.35))
	l.row(other, comparison.NewBound(id, "0.5 to 2.5 us: trims beyond the ideal switch, worst, 32 senders", "%",
		comparison.AtLeast, 10, 0, fewer.of(worstExtra)))
	l.row(follows, comparison.NewBound(id, "6 us: trims beyond the ideal switch", "%", comparison.AtMost, 10, 0,
		c.of(extraAt(6))))
	l.row(follows, comparison.NewBound(id, "30 us: goodput less that at 6 us", "Gb/s", comparison.AtMost, 0, 0,
		c.of(func(c *curve) float64 { return c.at(c.good, longest) - c.at(c.good, 6) })).
		Noted("the source: longer costs throughput"))
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
	full, err := l.measureSweep(ctx, "t8-32.yml")
	if err != nil {
		return err
	}
	l.row(follows, c.stableRow(id, "32 senders, pessimistic only: shortest response that keeps the queue small", 14, 14,
		0.15))
	l.row(follows, comparison.NewRow(id, "32 senders, pessimistic only: goodput at 14 us", "Gb/s", 42, 42, 0.05,
		c.of(goodAt(14))).Noted(c.spread(goodAt(14))))
	l.row(follows, comparison.NewRow(id, "32 senders, full scheme: goodput at 6 us", "Gb/s", 46, 46, 0.05,
		full.of(goodAt(6))).Noted(full.spread(goodAt(6))))
	l.row(follows, d.stableRow(id, "64 senders, pessimistic only: shortest response that keeps the queue small", 3, 3,
		0.35))
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
	l.row(follows, c.stableRow(id, "32 senders, trim all: shortest response that keeps the queue small", 12, 12, 0.15))
	l.row(follows, comparison.NewRow(id, "32 senders, trim all, 12 us: trims beyond the ideal switch", "%", 80, 80, 0.15,
		c.of(extraAt(12))).Noted(c.spread(extraAt(12))).Noted(harsher))
	l.row(follows, comparison.NewRow(id, "32 senders, trim all: best goodput of stable responses", "Gb/s", 38, 38, 0.05,
		c.of(best)).Noted(c.spread(best)).Noted(harsher))
	l.row(follows, d.stableRow(id, "64 senders, trim all: shortest response that keeps the queue small", 10, 10,
		0.15).Noted(harsher))
	l.row(follows, comparison.NewRow(id, "64 senders, trim all, 10 us: goodput", "Gb/s", 19, 19, 0.05,
		d.of(goodAt(10))).Noted(d.spread(goodAt(10))).Noted(harsher))
	return nil
}

// worstExtra returns the highest share of additional trims among responses that are too short.
func worstExtra(c *curve) float64 { return slices.Max(c.within(c.extra, 0.5, 2.5)) }

// best returns the highest goodput of the stable responses, NaN if there are none.
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
		c, err := l.responses(ctx, fmt.Sprintf("t11-%d.yml", n), fmt.Sprintf("fig-9-own-%d", n),
			fmt.Sprintf("%d senders, one pipeline notified", n))
		if err != nil {
			return err
		}
		l.row(follows, c.stableRow(id, fmt.Sprintf("%d senders, one pipeline notified: shortest response that keeps the "+
			"queue small", n), 9, 12, 0.15).Noted(milder))
		l.row(follows, comparison.NewRow(id, fmt.Sprintf("%d senders, one pipeline notified, 10 us: trims beyond the ideal "+
			"switch", n), "%", 20, 25, 0.15, c.of(extraAt(10))).Noted(c.spread(extraAt(10))).Noted(milder))
	}
	return nil
}
