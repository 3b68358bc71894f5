package deflection

import (
	"candela.dev/candela/reproduce/comparison"
)

// figure is a plot by load and scheme.
type figure struct {
	suffix, title, y string
	of               func(p *point) float64
}

func figures() []figure {
	return []figure{
		{"qct-mean", "QCT, mean of completed queries", "ms", func(p *point) float64 { return p.QCT.Mean }},
		{"qct-p99", "QCT, 99th percentile of completed queries", "ms", func(p *point) float64 { return p.QCT.P99 }},
		{"completed", "queries that were completed", "%", func(p *point) float64 { return share(p.Completed, p.Queries) }},
		{"fct-mean", "FCT, mean of flows that ended", "ms", func(p *point) float64 { return p.FCT.Mean }},
		{"fct-p99", "FCT, 99th percentile of flows that ended", "ms", func(p *point) float64 { return p.FCT.P99 }},
		{"flows-completed", "flows that ended", "%", func(p *point) float64 { return share(p.Finished, p.Flows) }},
		{"goodput", "goodput of flows from 10 MB on, mean", "Mb/s", func(p *point) float64 { return p.Large }},
		{"drops", "packets dropped at switches", "packets", func(p *point) float64 { return float64(p.Dropped) }},
		{"deflections", "deflections", "packets", func(p *point) float64 { return float64(p.Deflected) }},
		{"reordering", "packets out of order at the host, of all", "%",
			func(p *point) float64 { return share(p.Reordered, p.Whole) }},
	}
}

// plotLoads draws what schemes did by load.
func (l *lab) plotLoads(name, title string, list []published) {
	for _, f := range figures() {
		plot := comparison.Plot{Name: name + "-" + f.suffix, Title: title + ": " + f.title, X: "load, %", Y: f.y}
		for k := range list {
			line := comparison.Series{Name: list[k].name}
			for i, load := range loads() {
				if p := l.of(&list[k].series, i); p != nil {
					line.X, line.Y = append(line.X, float64(load)), append(line.Y, f.of(p))
				}
			}
			plot.Series = append(plot.Series, line)
		}
		l.Plot(plot)
	}
}
