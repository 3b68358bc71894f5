package deflection

import (
	"context"
	"fmt"
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// quickSweep is the simulated time of a point of a sweep in a quick reproduction.
const quickSweep = 150 * clock.Millisecond

// onE4 is why figures 12 and 14 have no magnitudes to compare.
const onE4 = "figures 12 and 14 are of E1; they are measured on E4 (specification, 14)"

// sweep is a parameter of PD at 55 and 95 %.
type sweep struct {
	*series
	values []float64
}

func sweepOf(file string, values ...float64) *sweep {
	return &sweep{&series{name: "PD", file: file, quick: quickSweep}, values}
}

// at returns the point of a value; nil: it was not measured.
func (l *lab) at(w *sweep, load int, value float64) *point {
	for i, v := range w.values {
		if v != value {
			continue
		}
		if load == 95 {
			i += len(w.values)
		}
		return l.of(w.series, i)
	}
	return nil
}

// beside shows a ratio that the source has of another set-up, and judges which of the two is larger.
func (l *lab) beside(id, what string, m metric, a, b *point, want, tolerance float64) {
	if a == nil || b == nil {
		return
	}
	if want >= 1 {
		l.above(id, what, m, a, b, comparison.PaperStatement)
	} else {
		l.Row(l.shape(comparison.PaperStatement), comparison.NewBound(id, what+", order: "+m.name, "times",
			comparison.AtMost, 1, 0, m.ratio(a, b)))
	}
	l.Row(comparison.Unjudged(onE4).Of(comparison.PaperStatement), comparison.NewRow(id, what+": "+m.name, "times", want,
		want, tolerance, m.ratio(a, b)))
}

// level is how far apart means are that count as equal.
const level = 1.15

// flat adds a row for how far apart the means of some values are.
func (l *lab) flat(id, what string, w *sweep, load int, from, to float64) {
	least, most := math.Inf(1), 0.0
	for _, v := range w.values {
		if p := l.at(w, load, v); p != nil && p.QCT.Mean > 0 && v >= from && v <= to {
			least, most = min(least, p.QCT.Mean), max(most, p.QCT.Mean)
		}
	}
	if most == 0 {
		return
	}
	why := comparison.FromChoice("the source says that it makes no difference; that 15 % are none is ours; " + onE4)
	l.Row(why.Of(comparison.PaperStatement), comparison.NewBound(id, at(load)+what+": QCT, mean, largest beside smallest",
		"times", comparison.AtMost, level, 0, most/least))
}

// plot draws a sweep.
func (l *lab) plotSweep(name, title, x string, w *sweep, scale func(v float64) float64) {
	for _, m := range []struct {
		suffix string
		metric
	}{{"mean", meanQCT}, {"p99", p99QCT}} {
		plot := comparison.Plot{Name: name + "-" + m.suffix, Title: title + ": " + m.name, X: x, Y: "ms"}
		for _, load := range []int{55, 95} {
			line := comparison.Series{Name: fmt.Sprintf("%d %%", load)}
			for _, v := range w.values {
				if p := l.at(w, load, v); p != nil {
					line.X, line.Y = append(line.X, scale(v)), append(line.Y, m.of(p))
				}
			}
			plot.Series = append(plot.Series, line)
		}
		l.Plot(plot)
	}
}

// shown adds what each value gave.
func (l *lab) shown(id, what string, w *sweep) {
	from := comparison.Unjudged("the figure has no numbers; " + onE4).Of(comparison.PaperStatement)
	for _, load := range []int{55, 95} {
		for _, v := range w.values {
			if p := l.at(w, load, v); p != nil {
				l.Row(from, comparison.NewRow(id, fmt.Sprintf("%s%s %g: QCT, mean", at(load), what, v), "ms", 0, 0, 0,
					p.QCT.Mean).Noted(fmt.Sprintf("99th percentile %.3g ms; %s", p.QCT.P99, p.note())))
			}
		}
	}
}

func same(v float64) float64 { return v }

// f12Alpha varies alpha.
func f12Alpha(ctx context.Context, l *lab) error {
	const id = "F12A"
	w := sweepOf("fig-12-alpha.yml", 0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1)
	if err := l.measure(ctx, w.series); err != nil {
		return err
	}
	l.shown(id, "alpha", w)
	p := func(load int, v float64) *point { return l.at(w, load, v) }
	l.beside(id, at(55)+"alpha 0.1 beside 0", meanQCT, p(55, 0.1), p(55, 0), 0.81, ratioMean)
	l.beside(id, at(55)+"alpha 0.1 beside 1", meanQCT, p(55, 0.1), p(55, 1), 0.29, ratioMean)
	l.beside(id, at(95)+"alpha 0.5 beside 0.1", p99QCT, p(95, 0.5), p(95, 0.1), 0.50, ratioP99)
	l.beside(id, at(95)+"alpha 0.5 beside 0.9", p99QCT, p(95, 0.5), p(95, 0.9), 0.60, ratioP99)
	l.plotSweep("fig-12-alpha", "Figures 12a and 12b, on E4", "alpha", w, same)
	return nil
}

// f12Window varies W.
func f12Window(ctx context.Context, l *lab) error {
	const id = "F12C"
	w := sweepOf("fig-12-window.yml", 1, 5, 10, 20, 50, 100, 150, 200)
	if err := l.measure(ctx, w.series); err != nil {
		return err
	}
	l.shown(id, "W", w)
	l.flat(id, "W above 5", w, 55, 6, 200)
	l.flat(id, "W above 50", w, 95, 51, 200)
	l.beside(id, at(95)+"W 20 beside 200", p99QCT, l.at(w, 95, 20), l.at(w, 95, 200), 1.13, ratioP99)
	l.plotSweep("fig-12-window", "Figure 12c, on E4", "W, packets", w, same)
	return nil
}

// f12Sample varies S.
func f12Sample(ctx context.Context, l *lab) error {
	const id = "F12D"
	w := sweepOf("fig-12-sample.yml", 1, 5, 10, 20, 50, 100, 150, 200, 500)
	if err := l.measure(ctx, w.series); err != nil {
		return err
	}
	l.shown(id, "S", w)
	for _, load := range []int{55, 95} {
		l.flat(id, "S", w, load, 1, 500)
	}
	l.plotSweep("fig-12-sample", "Figure 12d, on E4", "S, packets", w, same)
	return nil
}

// f14 varies how old information is.
func f14(ctx context.Context, l *lab) error {
	const id = "F14"
	w := sweepOf("fig-14.yml", 100, 200, 500, 1000, 1500, 2000, 5000, 10_000, 50_000, 100_000, 500_000)
	exact := &series{name: "exact", file: "e4-pd.yml", tag: "exact", loads: []int{55, 95}, quick: quickSweep}
	if err := l.measure(ctx, w.series, exact); err != nil {
		return err
	}
	l.shown(id, "Delta in ns", w)
	for k, load := range []int{55, 95} {
		l.flat(id, "Delta below 2 us", w, load, 0, 1999)
		if a, b := l.at(w, load, 1500), l.of(exact, k*4); a != nil && b != nil {
			why := comparison.FromChoice("the source says flat; that 15 % are none is ours; " + onE4)
			l.Row(why.Of(comparison.PaperStatement), comparison.NewRow(id, at(load)+"Delta of 1.5 us beside exact: QCT, mean",
				"times", 1, 1, level-1, meanQCT.ratio(a, b)))
		}
	}
	l.plotSweep("fig-14", "Figure 14, on E4", "log10 of Delta in us", w, func(v float64) float64 {
		return math.Log10(v / 1000)
	})
	return nil
}
