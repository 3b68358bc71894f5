package deflection

import (
	"context"
	"fmt"
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// loads are those of E1 and E4 in percent of the capacity between leaves and spines, of which background flows are 50.
func loads() []int { return []int{55, 65, 75, 85, 95} }

// quickE4 is the simulated time of points of E4 in a quick reproduction.
const quickE4 = 300 * clock.Millisecond

// published are means and 99th percentiles of QCT in ms, by load.
type published struct {
	series
	mean, p99 [5]float64
}

// table4 is §11.3: README of the artifact.
func table4() []published {
	of := func(name, file string, mean, p99 [5]float64) published {
		return published{series{name: name, file: file, quick: quickE4}, mean, p99}
	}
	return []published{
		of("ECMP", "e4-ecmp.yml", [5]float64{30.7, 34.3, 41.6, 50.7, 69.2}, [5]float64{72.0, 75.1, 97.1, 100.6, 182.0}),
		of("DIBS", "e4-dibs.yml", [5]float64{10.9, 21.7, 34.5, 53.0, 91.8}, [5]float64{21.0, 49.6, 81.3, 113.5, 317.5}),
		of("SD", "e4-sd.yml", [5]float64{11.5, 21.9, 35.4, 53.2, 91.4}, [5]float64{24.3, 46.6, 86.4, 110.6, 329.9}),
		of("Vertigo", "e4-vertigo.yml", [5]float64{15.3, 17.5, 18.3, 20.0, 24.8}, [5]float64{21.6, 24.4, 25.8, 38.8, 48.6}),
		of("PD", "e4-pd.yml", [5]float64{17.0, 23.3, 30.3, 38.5, 52.3}, [5]float64{28.0, 42.1, 56.7, 80.6, 98.1}),
		of("Dist-PD", "e4-pd-dist.yml", [5]float64{17.5, 23.2, 30.9, 40.5, 55.4}, [5]float64{26.7, 41.2, 53.3, 81.7, 105.2}),
	}
}

// Tolerances of §11.
const (
	absolute  = 0.35 // of seconds
	ratioMean = 0.30
	ratioP99  = 0.40
)

// onWireE4 is how long the 800 KB of a query take at 1 Gb/s, in ms (DEF-15).
const onWireE4 = 6.4

func at(load int) string { return fmt.Sprintf("%d %%, ", load) }

// e4 compares with §11.3.
func e4(ctx context.Context, l *lab) error {
	const id = "E4"
	list := table4()
	// Those without the shim first (§14).
	for i := range list {
		if err := l.measure(ctx, &list[i].series); err != nil {
			return err
		}
	}
	floor := comparison.FromMechanism("800 KB at 1 Gb/s: nothing can be faster").Of(comparison.SpecCalibration)
	least := math.Inf(1)
	for i, load := range loads() {
		for k := range list {
			s := &list[k]
			p := l.of(&s.series, i)
			if p == nil {
				continue
			}
			if p.Completed > 0 {
				least = min(least, p.Least)
			}
			from := l.magnitude(comparison.PublishedData)
			l.Row(from, comparison.NewRow(id, at(load)+s.name+": QCT, mean", "ms", s.mean[i], s.mean[i], absolute,
				p.QCT.Mean).Noted(p.note()))
			l.Row(from, comparison.NewRow(id, at(load)+s.name+": QCT, 99th percentile", "ms", s.p99[i], s.p99[i], ratioP99,
				p.QCT.P99))
		}
		l.order(id, load, i, list)
		l.times(id, at(load)+"SD beside DIBS", meanQCT, l.of(&list[2].series, i), l.of(&list[1].series, i), 1, 0.10)
	}
	l.Row(floor, comparison.NewBound(id, "least QCT of all", "ms", comparison.AtLeast, onWireE4, 0, least))
	l.gatesE4(id, list)
	l.plotLoads("e4", "E4", named(list))
	l.plotPorts("e4", "E4", named(list))
	return nil
}

// named are the series of a table.
func named(list []published) (all []*series) {
	for i := range list {
		all = append(all, &list[i].series)
	}
	return all
}

// paths shows what PD owes to power-of-two forwarding (§2.1): PD with ECMP's paths, and its forwarding alone.
func paths(ctx context.Context, l *lab) error {
	const id = "PATHS"
	ends := []int{55, 95}
	of := func(name, file string) *series { return &series{name: name, file: file, loads: ends, quick: quickE4} }
	ecmp, pd := of("ECMP", "e4-ecmp.yml"), of("PD", "e4-pd.yml")
	hashed, spread := of("PD with ECMP's paths", "e4-pd-ecmp.yml"), of("power of two alone", "e4-power-of-two.yml")
	from := comparison.Unjudged("the source does not tell paths from deflection").Of(comparison.PublishedData)
	if err := l.measure(ctx, ecmp, pd, hashed, spread); err != nil {
		return err
	}
	for k, load := range ends {
		base := l.of(ecmp, 4*k)
		for _, s := range []*series{pd, hashed, spread} {
			if p := l.of(s, 4*k); p != nil && base != nil {
				l.Row(from, comparison.NewRow(id, at(load)+s.name+" beside ECMP: "+meanQCT.name, "times", 0, 0, 0,
					meanQCT.ratio(p, base)).Noted(fmt.Sprintf("%.3g ms; %s", p.QCT.Mean, p.note())))
			}
		}
	}
	return nil
}

// metric is what points are compared by.
type metric struct {
	name string
	of   func(p *point) float64
}

// Metrics.
var (
	meanQCT = metric{"QCT, mean", func(p *point) float64 { return p.QCT.Mean }}
	p99QCT  = metric{"QCT, 99th percentile", func(p *point) float64 { return p.QCT.P99 }}
	meanFCT = metric{"FCT, mean", func(p *point) float64 { return p.FCT.Mean }}
	p99FCT  = metric{"FCT, 99th percentile", func(p *point) float64 { return p.FCT.P99 }}
)

// ratio divides what two points have, NaN if one has nothing.
func (m *metric) ratio(a, b *point) float64 {
	x, y := m.of(a), m.of(b)
	if x == 0 || y == 0 {
		return math.NaN()
	}
	return x / y
}

// times adds a row for the ratio of two points, which the specification names, if both were measured.
func (l *lab) times(id, what string, m metric, a, b *point, want, tolerance float64) {
	if a != nil && b != nil {
		l.Row(l.shape(comparison.PublishedData), comparison.NewRow(id, what+": "+m.name, "times", want, want, tolerance,
			m.ratio(a, b)))
	}
}

// above adds a row that is met if a is at least b.
func (l *lab) above(id, what string, m metric, a, b *point, of comparison.Source) {
	if a != nil && b != nil {
		l.Row(l.shape(of), comparison.NewBound(id, what+", order: "+m.name, "times", comparison.AtLeast, 1, 0,
			m.ratio(a, b)))
	}
}

// gatesE4 adds the checks of §11.3.
func (l *lab) gatesE4(id string, list []published) {
	of := func(scheme, i int) *point { return l.of(&list[scheme].series, i) }
	const ecmp, sd, pd = 0, 2, 4
	l.times(id, at(55)+"ECMP beside SD", meanQCT, of(ecmp, 0), of(sd, 0), 2.6, ratioMean)
	l.times(id, at(95)+"PD beside ECMP", meanQCT, of(pd, 4), of(ecmp, 4), 0.76, ratioMean)
	l.times(id, at(95)+"PD beside SD", meanQCT, of(pd, 4), of(sd, 4), 0.57, ratioMean)
	l.above(id, at(95)+"ECMP beside PD", meanQCT, of(ecmp, 4), of(pd, 4), comparison.PublishedData)
	l.above(id, at(95)+"SD beside PD", meanQCT, of(sd, 4), of(pd, 4), comparison.PublishedData)
	l.above(id, at(75)+"before they cross, ECMP beside SD", meanQCT, of(ecmp, 2), of(sd, 2), comparison.PublishedData)
	l.above(id, at(85)+"after they cross, SD beside ECMP", meanQCT, of(sd, 3), of(ecmp, 3), comparison.PublishedData)
}

// tie is how close two published means are that count as equal.
const tie = 0.10

// order adds a row for the ranking at a load: pairs of schemes that are in the published order.
func (l *lab) order(id string, load, i int, list []published) {
	pairs, kept, swapped := 0, 0, ""
	for a := range list {
		for b := range list {
			x, y := &list[a], &list[b]
			faster, slower := l.of(&x.series, i), l.of(&y.series, i)
			if y.mean[i] <= x.mean[i]*(1+tie) || faster == nil || slower == nil {
				continue
			}
			pairs++
			if faster.QCT.Mean < slower.QCT.Mean {
				kept++
			} else {
				swapped += ", " + x.name + " above " + y.name
			}
		}
	}
	if pairs == 0 {
		return
	}
	row := comparison.NewRow(id, at(load)+"pairs of schemes in the published order: QCT, mean", "%", 100, 100, 0,
		100*float64(kept)/float64(pairs))
	if swapped != "" {
		row = row.Noted(swapped[2:])
	}
	l.Row(l.shape(comparison.PublishedData), row.Noted("of pairs whose published means are more than 10 % apart"))
}

// note says in words what else a point measured.
func (p *point) note() string {
	return fmt.Sprintf("%.1f %% of %d queries completed; %d drops, %d deflections, %d timeouts",
		share(p.Completed, p.Queries), p.Queries, p.Dropped, p.Deflected, p.Timeouts)
}
