// Package exporter serves metrics to Prometheus: a registry, an HTTP server, and counters of RDMA devices.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// New returns a registry with what every program has: its version, and what it uses of the machine.
func New(version, command string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "candela_build_info", Help: "1, with version and command.",
		ConstLabels: prometheus.Labels{"version": version, "command": command}})
	info.Set(1)
	r.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Serve serves a registry at http://address/metrics until ctx ends or stop is called. It returns the address that it
// listens on.
func Serve(ctx context.Context, address string, r prometheus.Gatherer) (at net.Addr, stop func() error, err error) {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	const patience = 10 * time.Second
	server := &http.Server{Handler: mux, ReadHeaderTimeout: patience, WriteTimeout: 3 * patience}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(lis) }()
	done := context.AfterFunc(ctx, func() { _ = server.Close() })
	return lis.Addr(), func() error {
		done()
		err := server.Close()
		if serving := <-ended; !errors.Is(serving, http.ErrServerClosed) {
			err = errors.Join(err, serving)
		}
		return err
	}, nil
}

// RDMA exports the hardware counters of all RDMA devices of a machine. A machine without any exports none.
type RDMA struct {
	Root string // empty: /sys/class/infiniband
}

var rdmaCounter = prometheus.NewDesc("candela_rdma_hw_counter",
	"Counter in ports/N/hw_counters of an RDMA device, as the driver counts it.",
	[]string{"device", "port", "counter"}, nil)

// Describe implements prometheus.Collector.
func (r *RDMA) Describe(ch chan<- *prometheus.Desc) { ch <- rdmaCounter }

// Collect implements prometheus.Collector.
func (r *RDMA) Collect(ch chan<- prometheus.Metric) {
	root := r.Root
	if root == "" {
		root = "/sys/class/infiniband"
	}
	files, err := filepath.Glob(filepath.Join(root, "*", "ports", "*", "hw_counters", "*"))
	if err != nil {
		return // the pattern is valid
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // lifespan and others need not be readable
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
		name := filepath.Base(f)
		if err != nil || name == "lifespan" { // a setting, not a counter
			continue
		}
		port := filepath.Dir(filepath.Dir(f))
		device := filepath.Base(filepath.Dir(filepath.Dir(port)))
		ch <- prometheus.MustNewConstMetric(rdmaCounter, prometheus.CounterValue, value, device, filepath.Base(port), name)
	}
}
