package fair

import (
	"math"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
)

func duration(d clock.Duration) span64 { return span64(d) }

// million is the scale of shares.
const million = 1_000_000

// measures are the distributions that the judge measures.
type measures struct{ rate, jain, errors, depth, convergence *analyzers.Distribution }

func newMeasures() measures {
	return measures{
		rate:        analyzers.NewDistribution("fair.rate", analyzers.UnitBPS, 0),
		jain:        analyzers.NewDistribution("fair.jain", analyzers.UnitCount, 0),
		errors:      analyzers.NewDistribution("fair.error", analyzers.UnitCount, 0),
		depth:       analyzers.NewDistribution("fair.depth", analyzers.UnitBytes, 0),
		convergence: analyzers.NewDistribution("fair.convergence", analyzers.UnitNS, 0),
	}
}

func (m *measures) metrics() []analyzers.Metric {
	return []analyzers.Metric{m.rate.Metric(), m.jain.Metric(), m.errors.Metric(), m.depth.Metric(),
		m.convergence.Metric()}
}

// run measures a row of steady slots: Jain's index of what the children of a node got for each unit of weight, of those
// that demand more than that; and the greatest relative error of each level of the tree.
func (m *measures) run(s *shares, r *run, filled []waterfill.Share, all []child) {
	tree := s.tree(s.totals(r))
	span := seconds(r.to.Sub(r.from))
	var levels []float64 // greatest error
	level := make([]int, len(tree))
	rates := make([][]float64, len(s.p.nodes))
	for i := 1; i < len(tree); i++ {
		parent := tree[i].Parent
		level[i] = level[parent] + 1
		if filled[i].Arrival == 0 {
			continue
		}
		for len(levels) < level[i] {
			levels = append(levels, -1)
		}
		got, want := all[i].got/span, filled[i].Granted
		levels[level[i]-1] = max(levels[level[i]-1], math.Abs(got-want)/want)
		if want < filled[i].Arrival {
			rates[parent] = append(rates[parent], got/tree[i].Weight)
		}
	}
	for _, e := range levels {
		if e >= 0 {
			m.errors.Record(int64(e*million + 0.5))
		}
	}
	for _, x := range rates {
		if index := waterfill.Jain(x); len(x) > 1 && !math.IsNaN(index) {
			m.jain.Record(int64(index*million + 0.5))
		}
	}
}
