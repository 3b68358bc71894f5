package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/generator/verbs"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// Prepare creates the NIC and its queue pairs.
func (s *Server) Prepare(_ context.Context, q *agentpb.PrepareRequest) (answer *agentpb.PrepareResponse, err error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	err = r.locked(func() error {
		var taken bool
		if answer, taken, err = r.prepare.repeated("Prepare", q); taken {
			return err
		}
		answer, err = r.prepareHost(q)
		return err
	})
	return answer, err
}

func (r *run) prepareHost(q *agentpb.PrepareRequest) (*agentpb.PrepareResponse, error) {
	if q.GetRdma() != nil {
		return r.prepareDevice(q)
	}
	if err := r.server.checkInterface(q.GetInterface()); err != nil {
		return nil, err
	}
	host, err := hostOf(q, r.server.cfg.Limits)
	if err != nil {
		return nil, err
	}
	cfg, err := liveConfig(&host)
	if err != nil {
		return nil, err
	}
	h, err := live.Open(cfg)
	if err != nil {
		return nil, failed(err)
	}
	// Only now: without the host's ring an unwanted frame, such as LLDP, counts as lost, and so does the carrier that a
	// change of offloads takes away from some NICs.
	if r.at, err = readLosses(q.GetInterface()); err != nil {
		return nil, failed(errors.Join(err, h.Close()))
	}
	r.host, r.model, r.device, r.stall = h, h, q.GetInterface(), newSentinel()
	return r.prepared(q, &agentpb.PrepareResponse{}), nil
}

// prepared answers with the queue pairs.
func (r *run) prepared(q *agentpb.PrepareRequest, answer *agentpb.PrepareResponse) *agentpb.PrepareResponse {
	for _, e := range r.host.Local() {
		answer.Ends = append(answer.Ends, endToProto(e))
	}
	r.prepare.take(q, answer)
	return answer
}

// prepareDevice makes an RDMA device the host.
func (r *run) prepareDevice(q *agentpb.PrepareRequest) (*agentpb.PrepareResponse, error) {
	host, err := hostOf(q, r.server.cfg.Limits)
	if err != nil {
		return nil, err
	}
	d, err := openDevice(&host, r.server.cfg.Verbs, r.server.cfg.Interfaces, r.server.journal)
	if err != nil {
		return nil, failed(err)
	}
	if r.at, err = readLosses(d.name()); err != nil {
		return nil, failed(errors.Join(err, d.Close()))
	}
	r.host, r.rdma, r.device = d, d, d.name()
	return r.prepared(q, &agentpb.PrepareResponse{Interface: d.name(), Mac: d.address(), Properties: d.properties()}), nil
}

// openDevice makes an RDMA device a host, for its own traffic or for that of an application.
func openDevice(h *Host, program string, allowed []string, journal *nic.Journal) (rdmaDevice, error) {
	sysfs := os.DirFS("/")
	if h.RDMA.Watch != nil {
		a, err := watchApplication(h, sysfs, allowed, journal, verbs.QueuePairs)
		if err != nil {
			return nil, err
		}
		return a, nil
	}
	r, err := openRDMA(h, sysfs, program, allowed, journal)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Connect joins the queue pairs to the peer's.
func (s *Server) Connect(_ context.Context, q *agentpb.ConnectRequest) (answer *agentpb.ConnectResponse, err error) {
	return answer, s.withHost(q.GetRun(), func(r *run) error {
		var taken bool
		if answer, taken, err = r.connect.repeated("Connect", q); taken {
			return err
		}
		var peers []live.End
		for i, p := range q.GetPeers() {
			e, err := endFromProto(p)
			if err != nil {
				return refuse("connection %d: %v", i+1, err)
			}
			peers = append(peers, e)
		}
		if err := r.host.Connect(peers); err != nil {
			return refuse("%v", err)
		}
		answer = &agentpb.ConnectResponse{}
		r.connect.take(q, answer)
		return nil
	})
}

// withHost runs a step of a run that has a host.
func (s *Server) withHost(id string, f func(*run) error) error {
	r, err := s.current(id)
	if err != nil {
		return err
	}
	return r.locked(func() error {
		if r.host == nil {
			return status.Error(codes.FailedPrecondition, "no host is prepared")
		}
		return f(r)
	})
}

// Start posts the first messages.
func (s *Server) Start(_ context.Context, q *agentpb.StartRequest) (*agentpb.StartResponse, error) {
	return &agentpb.StartResponse{}, s.withHost(q.GetRun(), func(r *run) error {
		switch {
		case !r.connect.taken && r.prepare.request.GetRdma().GetWatch() == nil:
			return status.Error(codes.FailedPrecondition, "the host is not connected")
		case r.started:
			return r.start
		}
		r.started = true
		if r.stall != nil {
			r.stall.active.Store(true)
		}
		r.start = failed(r.host.Start())
		return r.start
	})
}

// Wait returns when the host's messages are complete.
func (s *Server) Wait(ctx context.Context, q *agentpb.WaitRequest) (*agentpb.WaitResponse, error) {
	var of *run
	var h trafficHost
	var stall *sentinel
	err := s.withHost(q.GetRun(), func(r *run) error {
		of, h, stall = r, r.host, r.stall
		return nil
	})
	if err != nil {
		return nil, err
	}
	ctx, end := of.during(ctx, time.Duration(q.GetTimeoutNs()))
	defer end()
	err = h.Wait(ctx)
	switch {
	case err == nil:
		if q.GetTimeoutNs() == 0 && stall != nil {
			stall.active.Store(false) // both sides are done: later delays affect nobody
		}
		return &agentpb.WaitResponse{Done: true, QuietNs: h.Quiet().Nanoseconds()}, nil
	case ctx.Err() != nil && !errors.Is(err, live.ErrClosed):
		return &agentpb.WaitResponse{QuietNs: h.Quiet().Nanoseconds()}, nil
	}
	return nil, failed(err)
}

// Counters reads the NIC's counters and what was lost before the wire.
func (s *Server) Counters(_ context.Context, q *agentpb.CountersRequest) (*agentpb.CountersResponse, error) {
	answer := &agentpb.CountersResponse{}
	err := s.withHost(q.GetRun(), func(r *run) error {
		if r.rdma != nil {
			return failed(r.deviceCounters(answer))
		}
		return failed(r.modelCounters(answer))
	})
	return answer, err
}

func (r *run) deviceCounters(answer *agentpb.CountersResponse) error {
	list, err := r.rdma.counters()
	if err != nil {
		return err
	}
	for _, c := range list.Values {
		answer.Counters = append(answer.Counters, &agentpb.Counter{Name: c.Name, Value: c.Value})
	}
	answer.Vendor, answer.Lacks = list.Vendor, list.Lacks
	answer.Losses, err = r.rdma.losses(r.at)
	return err
}

func (r *run) modelCounters(answer *agentpb.CountersResponse) error {
	list, err := r.model.Counters()
	if err != nil {
		return err
	}
	for _, c := range list {
		answer.Counters = append(answer.Counters, &agentpb.Counter{Name: c.Name, Value: c.Value})
	}
	profile, err := rdma.ProfileByName(r.prepare.request.GetNic().GetProfile())
	if err != nil {
		return err
	}
	answer.Vendor = profile.Vendor
	missed, err := r.model.Missed()
	if err != nil {
		return err
	}
	now, err := readLosses(r.device)
	if err != nil {
		return err
	}
	frames, err := r.model.Frames()
	if err != nil {
		return err
	}
	answer.Probes = frames.Probes
	answer.StallNs = r.stall.longest.Load()
	answer.Losses = append(now.since(r.at), &agentpb.Counter{Name: "ring_missed", Value: missed})
	return nil
}

// Report returns what became of the messages and their data.
func (s *Server) Report(_ context.Context, q *agentpb.ReportRequest) (*agentpb.ReportResponse, error) {
	var b bytes.Buffer
	answer := &agentpb.ReportResponse{}
	err := s.withHost(q.GetRun(), func(r *run) error {
		report, data, err := r.report()
		if err != nil {
			return failed(err)
		}
		for i := range data {
			answer.Data = append(answer.Data, dataToProto(&data[i]))
		}
		return failed(report.Write(&b))
	})
	answer.Report = b.Bytes()
	return answer, err
}

func (r *run) report() (report generator.Report, data []verbs.Data, err error) {
	if r.rdma != nil {
		all, err := r.rdma.report()
		return all.Report, all.Data, err
	}
	if report, err = r.model.Report(); err != nil {
		return report, nil, err
	}
	list, err := r.model.Counters()
	wrong := uint64(0)
	for _, c := range list {
		if c.Name == rdma.DataErrors {
			wrong = c.Value
		}
	}
	q := r.prepare.request
	return report, verbs.ModelData(&report, generator.Side(q.GetSide()), len(q.GetConnections()), wrong), err
}

// Release frees the host.
func (s *Server) Release(_ context.Context, q *agentpb.ReleaseRequest) (*agentpb.ReleaseResponse, error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	return &agentpb.ReleaseResponse{}, r.locked(func() error { return failed(r.closeHost()) })
}
