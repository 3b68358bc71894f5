package orchestrator

import (
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator/config"
)

// Metrics of a run that no analyzer measures.
const (
	metricGoodput = "traffic.goodput"
	metricMCT     = "traffic.mct"
)

// Measured returns the metrics of a NIC test over all connections: of its analysis, its messages and the counters of
// its NICs. The results store has these, and a test can compare them with those of earlier runs.
func Measured(a *analyzers.Analysis, g *generator.Report, c *Counters) ([]analyzers.Pooled, error) {
	list, err := analyzers.Pool(a.Metrics)
	if err != nil {
		return nil, err
	}
	if t := g.Times; t.Count > 0 {
		list = append(list, analyzers.Pooled{Name: metricMCT, Unit: analyzers.UnitNS, N: int64(t.Count),
			Least: float64(t.Min), Mean: float64(t.Mean), P50: float64(t.P50), P99: float64(t.P99), P999: float64(t.Max),
			Most: float64(t.Max)})
	}
	if g.GoodputBPS > 0 { // a single instant has no rate
		list = append(list, analyzers.Single(metricGoodput, analyzers.UnitBPS, float64(g.GoodputBPS)))
	}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		for _, name := range sortedNames(h.Finish) {
			n, _ := h.Delta(name)
			list = append(list, analyzers.Single(config.CounterMetric(config.Side(i))+name, analyzers.UnitCount, float64(n)))
		}
	}
	return list, nil
}

func sortedNames(counters map[string]int64) []string {
	names := make([]string, 0, len(counters))
	for name := range counters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
