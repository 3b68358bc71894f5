package reproduce

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
)

// mark is a packet in the trace on which the injector set CE.
type mark struct {
	connection int
	psn        int64
	sinceStart int64 // ns after the first packet of the trace
}

// read reads the generator's report from a run directory.
func (r *result) read(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "generator.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &r.report); err != nil {
		return fmt.Errorf("generator.json: %w", err)
	}
	return nil
}

// metric returns the named metric of a connection, or of all together for connection 0; nil if the run has none.
func (r *result) metric(name string, connection int) *analyzers.Metric {
	if r.analysis == nil {
		return nil
	}
	for i := range r.analysis.Metrics {
		if m := &r.analysis.Metrics[i]; m.Name == name && m.Connection == connection {
			return m
		}
	}
	return nil
}

// micros returns the values of a metric over all connections, in trace order, in microseconds.
func (r *result) micros(name string) []float64 {
	m := r.metric(name, 0)
	if m == nil {
		return nil
	}
	values := make([]float64, len(m.Values))
	for i, v := range m.Values {
		values[i] = float64(v) / 1e3
	}
	return values
}

// count returns how many values a metric has over all connections.
func (r *result) count(name string) int64 {
	if m := r.metric(name, 0); m != nil {
		return m.Count
	}
	return 0
}

// value returns the only value of a metric of a connection.
func (r *result) value(name string, connection int) float64 {
	m := r.metric(name, connection)
	if m == nil || len(m.Values) != 1 {
		return math.NaN()
	}
	return float64(m.Values[0])
}

// meanMCT returns the mean message completion time in microseconds.
func (r *result) meanMCT() float64 { return float64(r.report.Times.Mean) / 1e3 }

// profile returns the NIC model of both hosts.
func (r *result) profile() string { return r.test.Requester.NIC.Profile }

// of returns the results with a profile, in order.
func of(results []*result, profile string) []*result {
	return slices.DeleteFunc(slices.Clone(results), func(r *result) bool { return r.profile() != profile })
}

// with returns the results whose test satisfies a condition, in order.
func with(results []*result, want func(*config.Test) bool) []*result {
	return slices.DeleteFunc(slices.Clone(results), func(r *result) bool { return !want(r.test) })
}

// byPlace returns the mean over runs of the n-th value of a metric, for every n that all runs have.
func byPlace(results []*result, name string) []float64 {
	var sums []float64
	for i, r := range results {
		values := r.micros(name)
		if i == 0 {
			sums = make([]float64, len(values))
		}
		sums = sums[:min(len(sums), len(values))]
		for n := range sums {
			sums[n] += values[n]
		}
	}
	for n := range sums {
		sums[n] /= float64(len(results))
	}
	return sums
}

// mean returns the mean of values, NaN if there are none.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// median returns the middle of values, NaN if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// farthest returns the value that is farthest from want, NaN if there are none.
func farthest(values []float64, want float64) float64 {
	worst := math.NaN()
	for _, v := range values {
		if math.IsNaN(worst) || math.Abs(v-want) > math.Abs(worst-want) {
			worst = v
		}
	}
	return worst
}

func upTo(n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = float64(i + 1)
	}
	return list
}

// at returns values[i][j], NaN if it does not exist.
func at(values [][]float64, i, j int) float64 {
	if i >= len(values) || j >= len(values[i]) {
		return math.NaN()
	}
	return values[i][j]
}

// markTime returns when a marked packet passed the injector, in microseconds after the first packet; NaN if it did not.
func (r *result) markTime(connection int, psn int64) float64 {
	for _, m := range r.marks {
		if m.connection == connection && m.psn == psn {
			return float64(m.sinceStart) / 1e3
		}
	}
	return math.NaN()
}
