package nightly

import (
	"github.com/prometheus/client_golang/prometheus"

	"candela.dev/candela/orchestrator/history"
)

// Metrics are what a night shows to Prometheus.
type Metrics struct {
	runs     *prometheus.CounterVec
	duration *prometheus.HistogramVec
	lost     *prometheus.CounterVec
	up       *prometheus.GaugeVec
	done     prometheus.Gauge
	planned  prometheus.Gauge
	tests    *prometheus.GaugeVec
	exit     prometheus.Gauge
	ended    prometheus.Gauge
	shifts   prometheus.Gauge
}

// NewMetrics registers the metrics of the nights of a plan.
func NewMetrics(r prometheus.Registerer, plan string) *Metrics {
	of := prometheus.Labels{"plan": plan}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: of})
	}
	const first, factor, count = 0.1, 2, 14 // 100 ms to 14 min
	m := &Metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "candela_nightly_runs_total",
			Help: "Runs by verdict: pass, fail, invalid or broken.", ConstLabels: of}, []string{"testbed", "verdict"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "candela_nightly_run_seconds",
			Help: "Time that runs took.", ConstLabels: of, Buckets: prometheus.ExponentialBuckets(first, factor, count)},
			[]string{"testbed"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "candela_nightly_frames_lost_total",
			Help: "Frames that dumpers lost.", ConstLabels: of}, []string{"testbed"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "candela_nightly_testbed_up",
			Help: "1 if the latest run on the testbed had a verdict.", ConstLabels: of}, []string{"testbed"}),
		done:    gauge("candela_nightly_jobs_done", "Repetitions of the night that are done."),
		planned: gauge("candela_nightly_jobs", "Repetitions of the night."),
		tests: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "candela_nightly_tests",
			Help: "Tests of the latest night, by what became of them.", ConstLabels: of}, []string{"state"}),
		exit:   gauge("candela_nightly_exit_status", "Exit status of the latest night."),
		ended:  gauge("candela_nightly_end_timestamp_seconds", "When the latest night ended."),
		shifts: gauge("candela_nightly_metric_shifts", "Metrics that shifted, found in the latest night."),
	}
	r.MustRegister(m.runs, m.duration, m.lost, m.up, m.done, m.planned, m.tests, m.exit, m.ended, m.shifts)
	return m
}

// attempt counts a run.
func (m *Metrics) attempt(a *Attempt, done, planned int) {
	m.runs.WithLabelValues(a.bed, a.Verdict.String()).Inc()
	m.duration.WithLabelValues(a.bed).Observe(a.Ended.Sub(a.Started).Seconds())
	m.lost.WithLabelValues(a.bed).Add(float64(a.Lost))
	m.done.Set(float64(done))
	m.planned.Set(float64(planned))
	up := 0.
	if a.Verdict != history.Broken {
		up = 1
	}
	m.up.WithLabelValues(a.bed).Set(up)
}

// night shows what a night came to.
func (m *Metrics) night(s *Summary) {
	for _, state := range states() {
		m.tests.WithLabelValues(string(state)).Set(float64(s.Counts[state]))
	}
	m.exit.Set(float64(s.Exit))
	m.ended.Set(float64(s.Ended.Unix()))
	m.shifts.Set(float64(len(s.Shifts)))
}
