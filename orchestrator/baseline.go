package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// Baseline holds a metric's values in earlier runs of a test, one for each run: by metric, then min, mean, p50, p99 or
// max.
type Baseline map[string]map[string][]float64

// BaselineSchema names the format of baseline.json, which has the earlier runs that a run was compared with: a later
// analysis of the directory compares it with the same.
const BaselineSchema = "candela.baseline/v1"

const baselineFile = "baseline.json"

type baselineDocument struct {
	Schema  string   `json:"schema"`
	Metrics Baseline `json:"metrics"`
}

func (c *Cycle) writeBaseline(context.Context) error {
	if c.Baseline == nil {
		return nil
	}
	return c.Dir.WriteJSON(baselineFile, baselineDocument{BaselineSchema, c.Baseline})
}

// ReadBaseline returns the earlier runs that a recorded run was compared with; nil: with none. read returns a document
// of the run.
func ReadBaseline(read func(name string) ([]byte, error)) (Baseline, error) {
	data, err := read(baselineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var d baselineDocument
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err == nil && d.Schema != BaselineSchema {
		err = fmt.Errorf("schema is %q, want %s", d.Schema, BaselineSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", baselineFile, err)
	}
	return d.Metrics, nil
}

// fewestBaseline is from how many runs on a baseline says how runs differ among themselves. A choice, that of
// benchstat.
const fewestBaseline = 4

// Compare checks metrics against earlier runs: failed are limits that decide the verdict, reported those that do not. A
// value fails if it is over its limit and farther out than the runs of the baseline are from one another: one and a
// half interquartile ranges beyond their quartiles (Tukey's fence).
func Compare(e *config.BaselineExpect, measured []analyzers.Pooled, earlier Baseline) (failed, reported []string) {
	for i := range e.Metrics {
		m := &e.Metrics[i]
		at := slices.IndexFunc(measured, func(p analyzers.Pooled) bool { return p.Name == m.Metric() })
		for _, l := range m.Bound.Limits() {
			key := m.Key() + "." + l.Key
			values := slices.Sorted(slices.Values(earlier[m.Metric()][l.Key]))
			switch {
			case len(values) < fewestBaseline:
				reported = append(reported, fmt.Sprintf("%s: not judged, n is too small: %s has %d runs with this metric, "+
					"%d are needed", key, e.Ref, len(values), fewestBaseline))
			case at < 0:
				failed = append(failed, key+": nothing was measured")
			default:
				text, fails := relative(l, &measured[at], values, e.Ref)
				switch {
				case fails:
					failed = append(failed, key+": "+text)
				case text != "":
					reported = append(reported, key+": "+text)
				}
			}
		}
	}
	return failed, reported
}

func statistic(m *analyzers.Pooled, key string) float64 {
	switch key {
	case "min":
		return m.Least
	case "mean":
		return m.Mean
	case "p50":
		return m.P50
	case "p99":
		return m.P99
	}
	return m.Most
}

// relative compares a metric with its values in earlier runs, in ascending order. The text is empty if the limit holds.
func relative(l config.RelativeLimit, m *analyzers.Pooled, values []float64, ref string) (text string, fails bool) {
	const fence = 1.5
	n := len(values)
	median := (values[(n-1)/2] + values[n/2]) / 2
	limit := median * (1 + l.Share)
	low, high := values[(n-1)/4], values[n-1-(n-1)/4]
	v := statistic(m, l.Key)
	over, apart := v > limit, v > high+fence*(high-low)
	if l.Least() {
		over, apart = v < limit, v < low-fence*(high-low)
	}
	if !over {
		return "", false
	}
	change := ""
	if median != 0 {
		change = fmt.Sprintf("%+.1f %% from ", 100*(v/median-1))
	}
	text = fmt.Sprintf("%s, %sthe median of %d runs of %s, which is %s; the limit is %+.3g %%", quantityOf(v, m.Unit),
		change,
		n, ref, quantityOf(median, m.Unit), 100*l.Share)
	if !apart {
		text += " (reported, not judged: the runs of the baseline differ as much)"
	}
	return text, apart
}

// quantityOf returns a value with its unit. Means and shares are not whole.
func quantityOf(v float64, unit string) string {
	if unit == "" || unit == analyzers.UnitCount && v != float64(int64(v)) {
		return strings.TrimSpace(strconv.FormatFloat(v, 'g', 6, 64))
	}
	return report.Quantity(int64(v), unit)
}

// compared checks what the test compares with earlier runs.
func (u *unmet) compared(e *config.BaselineExpect, measured []analyzers.Pooled, earlier Baseline) {
	failed, reported := Compare(e, measured, earlier)
	u.decide, u.reported = append(u.decide, failed...), append(u.reported, reported...)
}
