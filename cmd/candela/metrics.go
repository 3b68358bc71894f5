package main

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"candela.dev/candela/exporter"
	"candela.dev/candela/injector/softswitch"
	agentpb "candela.dev/candela/proto/agent/v1"
	injectorpb "candela.dev/candela/proto/injector/v1"
)

// agentMetrics counts what an agent serves, by its answers.
type agentMetrics struct {
	requests *prometheus.CounterVec
	held     prometheus.Gauge
	leases   prometheus.Counter
	frames   *prometheus.CounterVec
}

func newAgentMetrics(r prometheus.Registerer) *agentMetrics {
	m := &agentMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "candela_agent_requests_total",
			Help: "Requests of orchestrators by method and status."}, []string{"method", "code"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{Name: "candela_agent_held",
			Help: "Streams of orchestrators that hold this machine, or wait for it."}),
		leases: prometheus.NewCounter(prometheus.CounterOpts{Name: "candela_agent_leases_total",
			Help: "Runs that held this machine, or waited for it."}),
		frames: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "candela_dumper_frames_total",
			Help: "Frames of this machine as dumper: written, dropped for want of room in the kernel's rings, exceeded " +
				"(beyond the quota), other (frames that are not mirror copies) or lost before the rings."}, []string{"fate"}),
	}
	for _, fate := range []string{"written", "dropped", "exceeded", "other", "lost"} {
		m.frames.WithLabelValues(fate)
	}
	r.MustRegister(m.requests, m.held, m.leases, m.frames, &exporter.RDMA{})
	return m
}

func (m *agentMetrics) options() []grpc.ServerOption {
	unary := func(ctx context.Context, q any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		answer, err := handle(ctx, q)
		m.requests.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
		if f, ok := answer.(*agentpb.FinishResponse); ok && err == nil {
			m.finished(f)
		}
		return answer, err
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if info.FullMethod == agentpb.Agent_Lease_FullMethodName {
			m.leases.Inc()
			m.held.Inc()
			defer m.held.Dec()
		}
		err := handle(srv, s)
		m.requests.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
		return err
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

func (m *agentMetrics) finished(f *agentpb.FinishResponse) {
	m.frames.WithLabelValues("written").Add(float64(f.GetWritten()))
	m.frames.WithLabelValues("dropped").Add(float64(f.GetDropped()))
	m.frames.WithLabelValues("exceeded").Add(float64(f.GetExceeded()))
	m.frames.WithLabelValues("other").Add(float64(f.GetOther()))
	for _, l := range f.GetLosses() {
		m.frames.WithLabelValues("lost").Add(float64(l.GetValue()))
	}
}

// switchMetrics are what a switch counted and lost, as it answers orchestrators.
type switchMetrics struct{ sw injectorSwitch }

var (
	switchMissed = prometheus.NewDesc("candela_switch_missed_frames_total",
		"Frames that arrived and that the switch never saw, for want of room.", []string{"port", "interface"}, nil)
	switchUnsent = prometheus.NewDesc("candela_switch_unsent_frames_total",
		"Frames that the switch forwarded and that never left.", []string{"port", "interface"}, nil)
	switchRoCE = prometheus.NewDesc("candela_switch_roce_packets_total",
		"RoCE packets that the switch received (direction rx) and sent (tx) since its pipeline was pushed.",
		[]string{"port", "interface", "direction"}, nil)
	switchPauses = prometheus.NewDesc("candela_switch_pause_frames_total",
		"Pause and PFC frames that the switch received since its pipeline was pushed.", []string{"port", "interface"}, nil)
	switchMirrored = prometheus.NewDesc("candela_switch_mirrored_packets_total",
		"Copies for dumpers, by clone session, since the pipeline was pushed.", []string{"session"}, nil)
	switchUp = prometheus.NewDesc("candela_switch_up", "1 if the datapath answers.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *switchMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{switchMissed, switchUnsent, switchRoCE, switchPauses, switchMirrored, switchUp} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A switch that cannot say what it counted (bmv2) exports only that it is up.
func (m *switchMetrics) Collect(ch chan<- prometheus.Metric) {
	up := 1.
	if s, ok := m.sw.(interface {
		Losses(context.Context, *injectorpb.LossesRequest) (*injectorpb.LossesResponse, error)
	}); ok {
		const patience = 5 * time.Second
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		losses, err := s.Losses(ctx, &injectorpb.LossesRequest{})
		if err != nil {
			up = 0
		}
		for _, p := range losses.GetPorts() {
			port := strconv.Itoa(int(p.GetPort()))
			ch <- prometheus.MustNewConstMetric(switchMissed, prometheus.CounterValue, float64(p.GetMissed()), port,
				p.GetInterface())
			ch <- prometheus.MustNewConstMetric(switchUnsent, prometheus.CounterValue, float64(p.GetUnsent()), port,
				p.GetInterface())
		}
	}
	m.counts(ch)
	ch <- prometheus.MustNewConstMetric(switchUp, prometheus.GaugeValue, up)
}

func (m *switchMetrics) counts(ch chan<- prometheus.Metric) {
	s, ok := m.sw.(interface {
		Counts() (ports []softswitch.PortCount, mirrored []uint64)
	})
	if !ok {
		return
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	ports, mirrored := s.Counts()
	for _, p := range ports {
		port := strconv.Itoa(p.Port)
		counter(switchRoCE, p.RoCERx, port, p.Interface, "rx")
		counter(switchRoCE, p.RoCETx, port, p.Interface, "tx")
		counter(switchPauses, p.PauseRx, port, p.Interface)
	}
	for i, n := range mirrored {
		counter(switchMirrored, n, strconv.Itoa(i+1))
	}
}
