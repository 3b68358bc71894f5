package deflection

import (
	"fmt"
	"strings"

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
		{"drops", "packets dropped at switches, of all sent", "%",
			func(p *point) float64 { return share(p.Dropped, p.Sent) }},
		{"deflections", "deflections for each packet sent", "", func(p *point) float64 {
			return float64(p.Deflected) / float64(max(1, p.Sent))
		}},
		{"reordering", "data out of order at the host, of all", "%",
			func(p *point) float64 { return share(p.Reordered, p.Data) }},
	}
}

// plotLoads draws what schemes did by load.
func (l *lab) plotLoads(name, title string, list []*series) {
	for _, f := range figures() {
		plot := comparison.Plot{Name: name + "-" + f.suffix, Title: title + ": " + f.title, X: "load, %", Y: f.y}
		for _, s := range list {
			line := comparison.Series{Name: s.name}
			for i, load := range loads() {
				if p := l.of(s, i); p != nil {
					line.X, line.Y = append(line.X, float64(load)), append(line.Y, f.of(p))
				}
			}
			plot.Series = append(plot.Series, line)
		}
		l.Plot(plot)
	}
}

// plotPorts draws deflections and drops by port, and of the highest load lengths of paths, and where packets were
// deflected over time.
func (l *lab) plotPorts(name, title string, list []*series) {
	l.plotKinds(name, title, list)
	last := len(loads()) - 1
	paths := comparison.Plot{Name: name + "-paths", Title: fmt.Sprintf("%s, %d %%: packets by switches visited", title,
		loads()[last]), X: "switches", Y: "share of packets, %"}
	for _, s := range list {
		p := l.of(s, last)
		if p == nil {
			continue
		}
		line, all := comparison.Series{Name: s.name}, int64(0)
		for _, n := range p.Paths {
			all += n
		}
		for visited, n := range p.Paths {
			if visited > 0 && visited <= longestDrawn {
				line.X, line.Y = append(line.X, float64(visited)), append(line.Y, share(n, all))
			}
		}
		paths.Series = append(paths.Series, line)
		if p.Deflected > 0 {
			l.Plot(p.heatMap(name+"-heat-"+strings.ToLower(s.name), fmt.Sprintf("%s, %d %%: deflections over time, %s", title,
				loads()[last], s.name)))
		}
	}
	l.Plot(paths)
}

// longestDrawn is the longest path of a plot.
const longestDrawn = 16

// plotKinds draws what ports of a kind did by load.
func (l *lab) plotKinds(name, title string, list []*series) {
	for _, what := range []struct {
		suffix, words string
		of            func(c *port) int64
	}{
		{"to", "packets deflected to ports", func(c *port) int64 { return c.To }},
		{"drops", "packets dropped for ports", func(c *port) int64 { return c.NoPort + c.Tail + c.Evicted }},
	} {
		for _, kind := range []string{"leaf to host", "leaf to spine", "spine to leaf"} {
			plot := comparison.Plot{Name: name + "-" + what.suffix + "-" + strings.ReplaceAll(kind, " ", "-"),
				Title: title + ": " + what.words + ", " + kind, X: "load, %", Y: "thousands"}
			for _, s := range list {
				line := comparison.Series{Name: s.name}
				for i, load := range loads() {
					p := l.of(s, i)
					if p == nil {
						continue
					}
					for _, c := range p.Ports {
						if c.Kind == kind {
							line.X, line.Y = append(line.X, float64(load)), append(line.Y, float64(what.of(c))/1000)
						}
					}
				}
				plot.Series = append(plot.Series, line)
			}
			if what.suffix != "to" || kind != "leaf to host" { // those are never deflected to
				l.Plot(plot)
			}
		}
	}
}

// heatMap draws deflections at each switch over time.
func (p *point) heatMap(name, title string) comparison.Plot {
	plot := comparison.Plot{Name: name, Title: title, X: "ms", Y: ""}
	for _, h := range p.Heat {
		row := comparison.Series{Name: h.Switch, Style: comparison.Cells}
		for i, n := range h.Counts {
			row.X, row.Y = append(row.X, float64(i)*p.BinMS), append(row.Y, float64(n))
		}
		plot.Series = append(plot.Series, row)
	}
	return plot
}
