package agent

import (
	"bytes"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/rdma"
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
	answer := &agentpb.PrepareResponse{}
	for _, e := range h.Local() {
		answer.Ends = append(answer.Ends, endToProto(e))
	}
	r.host, r.device, r.stall = h, q.GetInterface(), newSentinel()
	r.prepare.take(q, answer)
	return answer, nil
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
		case !r.connect.taken:
			return status.Error(codes.FailedPrecondition, "the host is not connected")
		case r.started:
			return r.start
		}
		r.started = true
		r.stall.active.Store(true)
		r.start = failed(r.host.Start())
		return r.start
	})
}

// Wait returns when the host's messages are complete.
func (s *Server) Wait(ctx context.Context, q *agentpb.WaitRequest) (*agentpb.WaitResponse, error) {
	var of *run
	var h *live.Host
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
		if q.GetTimeoutNs() == 0 {
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
		list, err := r.host.Counters()
		if err != nil {
			return failed(err)
		}
		for _, c := range list {
			answer.Counters = append(answer.Counters, &agentpb.Counter{Name: c.Name, Value: c.Value})
		}
		profile, err := rdma.ProfileByName(r.prepare.request.GetNic().GetProfile())
		if err != nil {
			return failed(err)
		}
		answer.Vendor = profile.Vendor
		missed, err := r.host.Missed()
		if err != nil {
			return failed(err)
		}
		now, err := readLosses(r.device)
		if err != nil {
			return failed(err)
		}
		frames, err := r.host.Frames()
		if err != nil {
			return failed(err)
		}
		answer.Probes = frames.Probes
		answer.StallNs = r.stall.longest.Load()
		answer.Losses = append(now.since(r.at), &agentpb.Counter{Name: "ring_missed", Value: missed})
		return nil
	})
	return answer, err
}

// Report returns what became of the messages.
func (s *Server) Report(_ context.Context, q *agentpb.ReportRequest) (*agentpb.ReportResponse, error) {
	var b bytes.Buffer
	err := s.withHost(q.GetRun(), func(r *run) error {
		report, err := r.host.Report()
		if err != nil {
			return failed(err)
		}
		return failed(report.Write(&b))
	})
	return &agentpb.ReportResponse{Report: b.Bytes()}, err
}

// Release frees the host.
func (s *Server) Release(_ context.Context, q *agentpb.ReleaseRequest) (*agentpb.ReleaseResponse, error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	return &agentpb.ReleaseResponse{}, r.locked(func() error { return failed(r.closeHost()) })
}
