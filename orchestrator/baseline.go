package orchestrator

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// Baseline holds a metric's values in earlier runs of a test, one for each run: by metric, then mean, p50, p99 or max.
type Baseline map[string]map[string][]float64

// fewestBaseline is from how many runs on a baseline says how runs differ among themselves. A choice, that of
// benchstat.
const fewestBaseline = 4

// compared checks metrics against earlier runs. A value fails if it is over its limit and farther out than the runs of
// the baseline are from one another: one and a half interquartile ranges beyond their quartiles (Tukey's fence).
func (u *unmet) compared(e *config.BaselineExpect, a *analyzers.Analysis, earlier Baseline) {
	for _, m := range e.Compared() {
		of := findMetric(a, m.Metric, 0)
		for _, l := range m.Limits {
			key := m.Key + "." + l.Key
			values := slices.Sorted(slices.Values(earlier[m.Metric][l.Key]))
			switch {
			case len(values) < fewestBaseline:
				u.reported = append(u.reported, fmt.Sprintf("%s: not judged, n is too small: %s has %d runs with this metric, "+
					"%d are needed", key, e.Ref, len(values), fewestBaseline))
			case of.Count == 0:
				u.decide = append(u.decide, key+": nothing was measured")
			default:
				u.relative(key, l, statistic(&of, l.Key), of.Unit, values, e.Ref)
			}
		}
	}
}

func statistic(m *analyzers.Metric, key string) int64 {
	switch key {
	case "mean":
		return m.Sum / m.Count
	case "p50":
		return m.P50
	case "p99":
		return m.P99
	}
	return m.Max
}

func (u *unmet) relative(key string, l config.RelativeLimit, got int64, unit string, values []float64, ref string) {
	const fence = 1.5
	n := len(values)
	median := (values[(n-1)/2] + values[n/2]) / 2
	limit := median * (1 + l.Share)
	low, high := values[(n-1)/4], values[n-1-(n-1)/4]
	v := float64(got)
	over, apart := v > limit, v > high+fence*(high-low)
	if l.Share < 0 {
		over, apart = v < limit, v < low-fence*(high-low)
	}
	if !over {
		return
	}
	text := fmt.Sprintf("%s: %s is %+.1f %% from the median of %d runs of %s, %s; the limit is %+.3g %%", key,
		report.Quantity(got, unit), 100*(v/median-1), n, ref, report.Quantity(int64(median), unit), 100*l.Share)
	if apart {
		u.decide = append(u.decide, text)
		return
	}
	u.reported = append(u.reported, text+" (reported, not judged: the runs of the baseline differ as much)")
}
