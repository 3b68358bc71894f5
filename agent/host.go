package agent

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
)

// Prepare creates the NIC and its queue pairs.
func (s *Server) Prepare(_ context.Context, q *agentpb.PrepareRequest) (answer *agentpb.PrepareResponse, err error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	err = r.locked(func() error {
		var taken bool
		if answer, taken, err = r.prepare.again("Prepare", q); taken {
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
	cfg, err := hostConfig(q, r.server.cfg.Limits)
	if err != nil {
		return nil, err
	}
	h, err := live.Open(cfg)
	if err != nil {
		return nil, failed(err)
	}
	// Only now: without the host's ring a frame that nobody wants, such as LLDP, counts as lost, and so does the carrier that a
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

// hostConfig reads a request; everything of it is checked, here or by the model.
func hostConfig(q *agentpb.PrepareRequest, limits Limits) (live.Config, error) {
	n := q.GetNic()
	h := testbeds.Host{
		Name: n.GetName(), MAC: new(packet.MAC), Profile: n.GetProfile(), Bugs: n.GetBugs(), DCQCNRP: n.GetDcqcnRp(), DCQCNNP: n.GetDcqcnNp(),
		MinTimeBetweenCNPs: clock.Duration(n.GetMinTimeBetweenCnpsPs()), CNPPacing: n.GetCnpPacing(), SlowRestart: n.GetSlowRestart(),
		AdaptiveRetrans: n.GetAdaptiveRetrans(), TrimReaction: n.GetTrimReaction(), TrimDSCP: uint8(n.GetTrimDscp()),
		ECN: packet.ECN(n.GetEcn()), DSCP: uint8(n.GetDscp()), HopLimit: uint8(n.GetHopLimit()), Rate: clock.BitRate(n.GetRateBps()),
	}
	for _, v := range []uint32{n.GetTrimDscp(), n.GetEcn(), n.GetDscp(), n.GetHopLimit()} {
		if v > math.MaxUint8 {
			return live.Config{}, refuse("nic: %d doesn't fit into a byte", v)
		}
	}
	if m := n.GetMac(); len(m) > 0 {
		if len(m) != len(packet.MAC{}) {
			return live.Config{}, refuse("nic: MAC of %d bytes", len(m))
		}
		*h.MAC = packet.MAC(m)
	}
	for _, b := range n.GetIps() {
		ip, ok := netip.AddrFromSlice(b)
		if !ok {
			return live.Config{}, refuse("nic: IP address of %d bytes", len(b))
		}
		h.IPs = append(h.IPs, ip)
	}
	nic, err := h.NICConfig(rdma.ProfileByName, n.GetSeed())
	if err != nil {
		return live.Config{}, refuse("nic: %v", err)
	}
	if q.GetSide() > uint32(generator.Responder) || q.GetReceiveDepth() > math.MaxInt32 {
		return live.Config{}, refuse("side %d, receive depth %d", q.GetSide(), q.GetReceiveDepth())
	}
	cfg := live.Config{
		Interface: q.GetInterface(), NIC: nic, Side: generator.Side(q.GetSide()), BarrierSync: q.GetBarrierSync(),
		ReceiveDepth: int(q.GetReceiveDepth()), RepostDelay: clock.Duration(q.GetRepostDelayPs()),
	}
	cfg.Connections, err = connections(q, limits)
	return cfg, err
}

func connections(q *agentpb.PrepareRequest, limits Limits) ([]live.Connection, error) {
	if n := len(q.GetConnections()); n == 0 || n > limits.Connections {
		return nil, status.Errorf(codes.ResourceExhausted, "%d connections, this agent has 1 to %d", n, limits.Connections)
	}
	var list []live.Connection
	messages := 0
	for i, c := range q.GetConnections() {
		ip, ok := netip.AddrFromSlice(c.GetLocalIp())
		if !ok {
			return nil, refuse("connection %d: IP address of %d bytes", i+1, len(c.GetLocalIp()))
		}
		for _, v := range []uint32{c.GetAckTimeout(), c.GetRetryCount(), c.GetRnrRetry(), c.GetMinRnrTimer()} {
			if v > math.MaxUint8 {
				return nil, refuse("connection %d: %d doesn't fit into a byte", i+1, v)
			}
		}
		x := live.Connection{QP: rdma.QPConfig{
			Context: i, LocalIP: ip, MTU: int(c.GetMtu()), RetryCount: uint8(c.GetRetryCount()), RNRRetry: uint8(c.GetRnrRetry()),
			Timeout: uint8(c.GetAckTimeout()), MinRNRTimer: uint8(c.GetMinRnrTimer()),
		}}
		if c.InitialPsn != nil {
			x.QP.IPSN, x.QP.FixIPSN = packet.PSN(c.GetInitialPsn()), true
		}
		var err error
		if x.Traffic, err = trafficFromProto(c.GetTraffic()); err == nil {
			x.PeerTraffic, err = trafficFromProto(c.GetPeerTraffic())
		}
		if err != nil {
			return nil, refuse("connection %d: %v", i+1, err)
		}
		if messages += x.Traffic.Messages + x.PeerTraffic.Messages; messages > limits.Messages {
			return nil, status.Errorf(codes.ResourceExhausted, "more than %d messages", limits.Messages)
		}
		list = append(list, x)
	}
	return list, nil
}

// Connect joins the queue pairs to the peer's.
func (s *Server) Connect(_ context.Context, q *agentpb.ConnectRequest) (answer *agentpb.ConnectResponse, err error) {
	return answer, s.withHost(q.GetRun(), func(r *run) error {
		var taken bool
		if answer, taken, err = r.connect.again("Connect", q); taken {
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
	var h *live.Host
	var gone chan struct{}
	var stall *sentinel
	err := s.withHost(q.GetRun(), func(r *run) error {
		h, gone, stall = r.host, r.gone, r.stall
		return nil
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.GetTimeoutNs()))
	defer cancel()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	err = h.Wait(ctx)
	switch {
	case err == nil:
		if q.GetTimeoutNs() == 0 {
			stall.active.Store(false) // both sides are done: what comes late now comes too late for nobody
		}
		return &agentpb.WaitResponse{Done: true, QuietNs: h.Quiet().Nanoseconds()}, nil
	case ctx.Err() != nil && !errors.Is(err, live.ErrClosed):
		return &agentpb.WaitResponse{QuietNs: h.Quiet().Nanoseconds()}, nil
	}
	return nil, failed(err)
}

// Counters reads the NIC's counters and what was lost on the way to the wire.
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
