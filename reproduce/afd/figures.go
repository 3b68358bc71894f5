package afd

import (
	"context"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/reproduce/comparison"
)

// seedsOfFigures is the number of seeds of the sweeps for figures 3 to 6.
const seedsOfFigures = 3

// mix is a traffic mix of figures 3 to 6.
type mix struct {
	name, file string
	small      [2]float64 // share of the flows below 100 KB in percent, as the paper has it
	all        float64    // a deep buffer beside afd+dpp, at least
	allWhy     string
	deepest    float64 // longest mean of 100 KB on the deep buffer of the paper, ms
}

// figures sweeps the mixes of the paper through a network of two leaf switches.
func figures(ctx context.Context, l *lab) error {
	for _, m := range []mix{
		{"data mining", "fig-3.yml", [2]float64{82, 83}, 1.1,
			"the paper says 20 to 30 % longer; the bound is the specification's", 21.37},
		{"enterprise", "fig-4.yml", [2]float64{95, 95}, 3,
			"the paper says an order of magnitude; the bound is the specification's", 5.22},
	} {
		runs, err := l.measure(ctx, m.file, seedsOfFigures, attachBuffer)
		if err != nil {
			return err
		}
		l.mix(&m, cells(runs))
	}
	l.unreachable()
	return nil
}

// mix adds the rows of a traffic mix.
func (l *lab) mix(m *mix, list []*cell) {
	const id = "FIGURES"
	bound := func(why string) comparison.Origin { return comparison.FromChoice(why).Of(comparison.PaperStatement) }
	hardware := comparison.Unjudged("the lab's topology, hosts and RTT are unknown").Of(comparison.Hardware)
	plots := map[string]*comparison.Plot{}
	for _, p := range []struct{ key, title string }{{"all", "all flows"}, {"elephants", "flows above 1 MB"},
		{"100kb", "100 KB"}} {
		plots[p.key] = &comparison.Plot{Name: m.file[:len("fig-3")] + "-" + p.key,
			Title: "Mean completion, " + m.name + ": " + p.title, X: "% load", Y: "ms",
			Series: []comparison.Series{{Name: "afd+dpp"}, {Name: "tail 52 MB"}}}
	}
	var flat, deepest []float64
	for _, load := range loads4() {
		both, deep := find(list, "afd-dpp", load), find(list, "tail-deep", load)
		if both == nil || deep == nil {
			continue
		}
		at := fmt.Sprintf("%s, %.0f %%: ", m.name, 100*load)
		if load >= 0.6 {
			l.row(bound(m.allWhy), comparison.NewBound(id, at+"all flows, a deep buffer beside afd+dpp", "times",
				comparison.AtLeast, m.all, 0, mean(deep.times(drawn, 0))/mean(both.times(drawn, 0))))
		}
		l.row(bound("the paper says similar, sometimes better; the range is the specification's, with an RTO of 10 ms"),
			comparison.NewRow(id, at+"elephants with afd+dpp beside a deep buffer", "times", 0.75, 1.35, 0,
				mean(both.times(drawn, elephant))/mean(deep.times(drawn, elephant))))
		flat, deepest = append(flat, mean(both.times(probes, 0))), append(deepest, mean(deep.times(probes, 0)))
		for i, c := range []*cell{both, deep} {
			for key, times := range map[string][]float64{"all": c.times(drawn, 0), "elephants": c.times(drawn, elephant),
				"100kb": c.times(probes, 0)} {
				s := &plots[key].Series[i]
				s.X, s.Y = append(s.X, 100*load), append(s.Y, mean(times))
			}
		}
	}
	l.row(stated, comparison.NewBound(id, m.name+": 100 KB with afd+dpp, longest mean of the loads beside the shortest",
		"times", comparison.AtMost, 1.1, 0, slices.Max(flat)/slices.Min(flat)))
	l.row(hardware, comparison.NewRow(id, m.name+": 100 KB on the Nexus switches, all loads", "ms", 0.21, 0.25, 0,
		slices.Max(flat)))
	l.row(hardware, comparison.NewRow(id, m.name+": 100 KB on the deep buffer, longest", "ms", m.deepest, m.deepest, 0,
		slices.Max(deepest)))
	most := map[string]float64{}
	for _, c := range list {
		most[c.queue] = max(most[c.queue], slices.Max(c.buffers()))
	}
	l.row(stated, comparison.NewBound(id, m.name+": most buffer of a port with afd+dpp and 10 MB", "MB",
		comparison.AtMost, 3, 0, most["afd-dpp"]))
	l.row(bound("the bound is the specification's; the paper has 52 and 2.97 MB"), comparison.NewBound(id, m.name+
		": most buffer of a port, a deep one beside afd+dpp", "times", comparison.AtLeast, 10, 0,
		most["tail-deep"]/most["afd-dpp"]))
	l.row(comparison.FromConstant("sizes of the workload").Of(comparison.PaperStatement), comparison.NewRow(id, m.name+
		": flows below 100 KB", "%", m.small[0], m.small[1], 0.02, smallShare(list)))
	for _, key := range []string{"all", "elephants", "100kb"} {
		l.plot(*plots[key])
	}
}

// smallShare returns the share of drawn flows below 100 KB in percent.
func smallShare(list []*cell) float64 {
	small, all := 0.0, 0.0
	for _, c := range list {
		for _, p := range c.points {
			for _, f := range p.completions {
				if f.item != drawn {
					continue
				}
				all++
				if f.bytes < 100_000 {
					small++
				}
			}
		}
	}
	return 100 * small / all
}

// unreachable adds what only the laboratory of the paper can show.
func (l *lab) unreachable() {
	const id = "FIGURES"
	from := comparison.Unjudged("a Hadoop cluster, or the counters of these switches").Of(comparison.Hardware)
	for _, v := range []struct {
		what  string
		bound comparison.Bound
		mb    float64
	}{
		{"table 2: Nexus 9272Q, most buffer", "", 2.97}, {"table 2: Nexus 92160YC-X, most buffer", "", 2.95},
		{"table 2: Arista 7280E, most buffer", "", 52},
		{"Hadoop: Arista 7280SE-72, most buffer of a port", comparison.AtMost, 5},
		{"Hadoop: Nexus, most buffer of a port", "", 1.9},
	} {
		row := comparison.NewRow(id, v.what, "MB", v.mb, v.mb, 0, math.NaN())
		row.Bound = v.bound
		l.row(from, row)
	}
}
