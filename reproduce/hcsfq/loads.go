package hcsfq

import (
	"context"
	"fmt"

	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// cell is what a scheme did to the flows of a load.
type cell = experiments.Cell

// tenantOf returns the tenant of a host in S4, as the trees of its tests have them: every sixth is the second's.
func tenantOf(src int) int {
	if src%6 == 0 {
		return 2
	}
	return 1
}

// scheme is a queue with its hosts.
type scheme struct{ name, file string }

// schemes returns those of a set-up, HCSFQ last.
func (h setting) schemes(setup string) []scheme {
	return []scheme{{"TCP", setup + "-tcp.yml"}, {"DCTCP", setup + "-dctcp.yml"}, {"AFQ", setup + "-afq.yml"},
		{"SP-PIFO", setup + "-sp-pifo.yml"}, {"HCSFQ", h.file(setup)}}
}

// sweep measures schemes at all loads, and returns their cells of a group of flows by name and load.
func (l *lab) sweep(ctx context.Context, list []scheme, groups ...int) ([]map[string][]*cell, error) {
	var shared []experiments.Scheme
	for _, s := range list {
		shared = append(shared, experiments.Scheme{Name: s.name, File: s.file})
	}
	if err := l.loads.Measure(ctx, l.Lab, shared...); err != nil {
		return nil, err
	}
	var of []map[string][]*cell
	for _, g := range groups {
		cells := make(map[string][]*cell)
		for _, s := range list {
			cells[s.name] = l.loads.Of(s.file, g)
		}
		of = append(of, cells)
	}
	return of, nil
}

// plot draws completion times of small flows over the load.
func (l *lab) plot(number, suffix, title string, group int, list []scheme) {
	var shared []experiments.Scheme
	for _, s := range list {
		shared = append(shared, experiments.Scheme{Name: s.name, File: s.file})
	}
	for _, f := range experiments.LoadFigures()[:2] {
		l.loads.Plot(l.Lab, number, suffix, title, f, group, shared...)
	}
}

// ofLoads is the origin of rows of a sweep; chosen says what of the set-up is a choice, beside the setting of HCSFQ.
func (h setting) ofLoads(l *lab, chosen string) comparison.Origin {
	if l.Config.Quick {
		return comparison.Unjudged("0.1 s at 1 Gb/s is a start, not a steady state").Of(comparison.PaperStatement)
	}
	return h.origin(chosen)
}

// smallFlows are the words of rows about completion times.
const smallFlows = "flows below 100 KB, mean"

// order adds a row that is met if a takes at least as long as b.
func (l *lab) order(from comparison.Origin, id, at, a, b string, aMean, bMean float64) {
	l.Row(from, comparison.NewBound(id, fmt.Sprintf("%s%s beside %s, order: %s", at, a, b, smallFlows), "times",
		comparison.AtLeast, 1, 0, aMean/bMean))
}

// means adds what each scheme did, without a value to compare with.
func (l *lab) means(id, at string, list []scheme, measured map[string][]*cell, load int) {
	from := comparison.Unjudged("figures 3-15 to 3-18 give no numbers").Of(comparison.PaperStatement)
	for _, s := range list {
		c := measured[s.name][load]
		l.Row(from, comparison.NewRow(id, at+s.name+": "+smallFlows, "ms", 0, 0, 0, c.Mean).Noted(fmt.Sprintf(
			"99th percentile %.3g ms; from 1 MB on %.3g ms; %d of %d flows unfinished", c.P99, c.Large, c.Unfinished,
			c.Ended+c.Unfinished)))
	}
}

// s1 compares completion times at 1 and 4 Gb/s: Q12.
func (h setting) s1(ctx context.Context, l *lab) error {
	id := "S1" + h.mark
	list := h.schemes("s1")
	measured, err := l.sweep(ctx, list, 0)
	if err != nil {
		return err
	}
	of := measured[0]
	labels := experiments.LoadLabels()
	last := len(labels) - 1
	for i, load := range labels {
		if !l.Measures(i) {
			continue
		}
		at := "Q12: " + experiments.AtLoad(load)
		l.means(id, at, list, of, i)
		mean := func(name string) float64 { return of[name][i].Mean }
		for _, slower := range []string{"TCP", "DCTCP"} {
			l.order(h.ofLoads(l, ""), id, at, slower, "HCSFQ", mean(slower), mean("HCSFQ"))
			if i == last {
				l.Row(h.ofLoads(l, ""), comparison.NewRow(id, at+"HCSFQ below "+slower+": "+smallFlows, "%", 40, 75, 0,
					100*(1-mean("HCSFQ")/mean(slower))))
			}
		}
		for _, faster := range []string{"AFQ", "SP-PIFO"} {
			l.Row(h.ofLoads(l, ""), comparison.NewRow(id, at+"HCSFQ above "+faster+": "+smallFlows, "%", 0, 30, 0,
				100*(mean("HCSFQ")/mean(faster)-1)))
		}
	}
	if l.Measures(0) && l.Measures(last) {
		for _, faster := range []string{"AFQ", "SP-PIFO"} {
			over := func(i int) float64 { return of["HCSFQ"][i].Mean / of[faster][i].Mean }
			l.Row(h.ofLoads(l, ""), comparison.NewBound(id, fmt.Sprintf("Q12: HCSFQ beside %s at load 0.8, beside the same at "+
				"0.2: %s", faster, smallFlows), "times", comparison.AtMost, 1, 0, over(last)/over(0)))
		}
	}
	l.plot("3-15", h.suffix, "", 0, list)
	h.breakdown(l, list, of)
	return nil
}

// breakdown draws figure 3-15b: completion times by size at load 0.7.
func (h setting) breakdown(l *lab, list []scheme, of map[string][]*cell) {
	const load = 5
	if !l.Measures(load) {
		return
	}
	for _, f := range []struct {
		suffix, title string
		of            func(s experiments.OfSize) float64
	}{{"-mean", "mean", func(s experiments.OfSize) float64 { return s.Mean }},
		{"-p99", "99th percentile", func(s experiments.OfSize) float64 { return s.P99 }}} {
		p := comparison.Plot{Name: "fig-3-15" + h.suffix + "-sizes" + f.suffix,
			Title: "Figure 3-15b: load 0.7 by size, " + f.title, X: "bytes", Y: "completion time, ms"}
		for _, s := range list {
			line := comparison.Series{Name: s.name}
			for _, size := range of[s.name][load].Sizes {
				if size.Bytes < 200_000 && size.Bytes > 1 {
					line.X, line.Y = append(line.X, float64(size.Bytes)), append(line.Y, f.of(size))
				}
			}
			p.Series = append(p.Series, line)
		}
		l.Plot(p)
	}
}

// s2 adds UDP: Q13.
func (h setting) s2(ctx context.Context, l *lab) error {
	id := "S2" + h.mark
	list := h.schemes("s2")
	measured, err := l.sweep(ctx, list, 0)
	if err != nil {
		return err
	}
	of := measured[0]
	from := h.ofLoads(l, "every host sends UDP at half of its link to the same host of the next rack: the source says "+
		"evenly, and about half of the bandwidth")
	for i, load := range experiments.LoadLabels() {
		if !l.Measures(i) {
			continue
		}
		at := "Q13: " + experiments.AtLoad(load)
		l.means(id, at, list, of, i)
		for _, slower := range []string{"TCP", "DCTCP", "AFQ", "SP-PIFO"} {
			l.order(from, id, at, slower, "HCSFQ", of[slower][i].Mean, of["HCSFQ"][i].Mean)
		}
	}
	l.plot("3-16", h.suffix, ", with UDP", 0, list)
	return nil
}

// equalTenants is how far apart two tenants may be that a scheme does not know.
const equalTenants = 0.15

// s4 has two tenants: Q15. Schemes that know none do what they did in S1.
func (h setting) s4(ctx context.Context, l *lab) error {
	id := "S4" + h.mark
	list := append(h.schemes("s1")[:4], scheme{"HCSFQ", h.file("s4")}, scheme{"HPIFO", "s4-hpifo.yml"})
	measured, err := l.sweep(ctx, list, 1, 2)
	if err != nil {
		return err
	}
	const hosts = "every sixth host is the second tenant's: the source does not say how tenants are placed"
	from := h.ofLoads(l, hosts)
	for i, load := range experiments.LoadLabels() {
		if !l.Measures(i) {
			continue
		}
		at := "Q15: " + experiments.AtLoad(load)
		for tenant, of := range measured {
			at := fmt.Sprintf("%stenant %d, ", at, tenant+1)
			l.means(id, at, list, of, i)
			for _, s := range list[:5] {
				l.order(from, id, at, s.name, "HPIFO", of[s.name][i].Mean, of["HPIFO"][i].Mean)
			}
		}
		for _, s := range list {
			ratio := measured[0][s.name][i].Mean / measured[1][s.name][i].Mean
			what := at + s.name + ", tenant 1 beside tenant 2: " + smallFlows
			switch s.name {
			case "HCSFQ", "HPIFO":
				l.Row(from, comparison.NewBound(id, what, "times", comparison.AtLeast, 1, 0, ratio))
			default:
				l.Row(h.ofLoads(l, hosts+"; that 15 % apart is similar is ours"), comparison.NewRow(id, what, "times", 1, 1,
					equalTenants, ratio))
			}
		}
	}
	for _, tenant := range []int{1, 2} {
		l.plot("3-18", fmt.Sprint(h.suffix, "-tenant-", tenant), fmt.Sprint(", tenant ", tenant), tenant, list)
	}
	return nil
}
