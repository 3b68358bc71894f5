package remote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector/delay"
	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/injector/transport"
	agentpb "candela.dev/candela/proto/agent/v1"
	injectorpb "candela.dev/candela/proto/injector/v1"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/remote"
)

// machine is a fake agent, host and dumper. Its fields change its answers; set them before its testbed is used.
type machine struct {
	agentpb.UnimplementedAgentServer
	agentpb.UnimplementedHostServer
	agentpb.UnimplementedDumperServer
	server *grpc.Server

	describe agentpb.DescribeResponse // with the current time if it has none
	fails    map[string]error         // by call
	hangs    map[string]bool          // until the call's deadline
	never    bool                     // its messages are never complete
	stall    time.Duration
	full     bool   // its disk is full: Finish fails but reports what is written
	lost     uint64 // frames of the interface
	shards   map[string][]byte
	announce func(*agentpb.Shard) // changes the description of a shard

	mu     sync.Mutex
	calls  []string
	leases int // currently held
	ended  int // released
}

// step records a call and makes it fail or hang.
func (m *machine) step(ctx context.Context, name string) error {
	m.mu.Lock()
	m.calls = append(m.calls, name)
	m.mu.Unlock()
	if m.hangs[name] {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	return m.fails[name]
}

func (m *machine) count(name string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.calls {
		if c == name {
			n++
		}
	}
	return n
}

func (m *machine) Describe(ctx context.Context, _ *agentpb.DescribeRequest) (*agentpb.DescribeResponse, error) {
	if m.describe.NowUnixNs == 0 {
		m.describe.NowUnixNs = time.Now().UnixNano()
	}
	return &m.describe, m.step(ctx, "describe")
}

func (m *machine) Lease(stream grpc.BidiStreamingServer[agentpb.LeaseRequest, agentpb.LeaseResponse]) error {
	if err := m.step(stream.Context(), "lease"); err != nil {
		return err
	}
	m.mu.Lock()
	m.leases++
	m.mu.Unlock()
	for {
		if _, err := stream.Recv(); err != nil {
			m.mu.Lock()
			m.leases, m.ended = m.leases-1, m.ended+1
			m.mu.Unlock()
			return nil
		}
		if err := stream.Send(&agentpb.LeaseResponse{}); err != nil {
			return err
		}
	}
}

func (m *machine) Prepare(ctx context.Context, q *agentpb.PrepareRequest) (*agentpb.PrepareResponse, error) {
	end := &agentpb.End{Ip: q.GetConnections()[0].GetLocalIp(), Qpn: 0x11 + q.GetSide(), Ipsn: 7, Mac: make([]byte, 6)}
	return &agentpb.PrepareResponse{Ends: []*agentpb.End{end}}, m.step(ctx, "prepare")
}

func (m *machine) Connect(ctx context.Context, _ *agentpb.ConnectRequest) (*agentpb.ConnectResponse, error) {
	return &agentpb.ConnectResponse{}, m.step(ctx, "connect")
}

func (m *machine) Start(ctx context.Context, _ *agentpb.StartRequest) (*agentpb.StartResponse, error) {
	return &agentpb.StartResponse{}, m.step(ctx, "start")
}

func (m *machine) Wait(ctx context.Context, q *agentpb.WaitRequest) (*agentpb.WaitResponse, error) {
	if m.never {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(q.GetTimeoutNs())):
		}
	}
	return &agentpb.WaitResponse{Done: !m.never, QuietNs: time.Second.Nanoseconds()}, m.step(ctx, "wait")
}

func (m *machine) Counters(ctx context.Context, _ *agentpb.CountersRequest) (*agentpb.CountersResponse, error) {
	return &agentpb.CountersResponse{Vendor: "spec", StallNs: m.stall.Nanoseconds(),
		Counters: []*agentpb.Counter{{Name: "tx_packets", Value: 10}, {Name: "rx_packets", Value: 10 - m.lost}},
		Losses:   []*agentpb.Counter{{Name: "rx_dropped", Value: m.lost}}}, m.step(ctx, "counters")
}

func (m *machine) Report(ctx context.Context, _ *agentpb.ReportRequest) (*agentpb.ReportResponse, error) {
	var b bytes.Buffer
	report := generator.Report{Schema: generator.ReportSchema}
	if err := report.Write(&b); err != nil {
		return nil, err
	}
	return &agentpb.ReportResponse{Report: b.Bytes()}, m.step(ctx, "report")
}

func (m *machine) Record(ctx context.Context, _ *agentpb.RecordRequest) (*agentpb.RecordResponse, error) {
	return &agentpb.RecordResponse{}, m.step(ctx, "record")
}

func (m *machine) Finish(ctx context.Context, _ *agentpb.FinishRequest) (*agentpb.FinishResponse, error) {
	answer := &agentpb.FinishResponse{Received: 20, Written: 20,
		Losses: []*agentpb.Counter{{Name: "carrier_changes", Value: m.lost}}}
	for name, data := range m.shards {
		sum := sha256.Sum256(data)
		shard := &agentpb.Shard{Name: name, Bytes: uint64(len(data)), Sha256: sum[:]}
		if m.announce != nil {
			m.announce(shard)
		}
		answer.Shards = append(answer.Shards, shard)
	}
	err := m.step(ctx, "finish")
	if s, ok := status.FromError(err); ok && err != nil && m.full {
		if s, err = s.WithDetails(answer); err == nil {
			err = s.Err()
		}
	}
	return answer, err
}

func (m *machine) Fetch(q *agentpb.FetchRequest, stream grpc.ServerStreamingServer[agentpb.FetchResponse]) error {
	data := m.shards[q.GetShard()]
	crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	if err := stream.Send(&agentpb.FetchResponse{Data: data, Crc32C: crc}); err != nil {
		return err
	}
	return m.step(stream.Context(), "fetch")
}

// sw is a fake switch that only reports its state.
type sw struct {
	injectorpb.UnimplementedStatusServer
	server *grpc.Server
	mu     sync.Mutex
	lost   []uint64 // of port 0, per question except liveness checks; the last stays
	asked  int
	silent bool
	hangs  bool          // on Describe
	wait   time.Duration // of a frame between two descriptions; 0: waits are not reported
	waits  delay.Counts
}

func (s *sw) Describe(ctx context.Context, _ *injectorpb.DescribeRequest) (*injectorpb.DescribeResponse, error) {
	if s.hangs {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	d := &injectorpb.DescribeResponse{Version: "v1", Datapath: "xdp"}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait > 0 {
		d.Properties = []*injectorpb.Property{{Name: softswitch.WaitCounts, Value: s.waits.String()}}
		s.waits.Add(s.wait)
	}
	return d, nil
}

func (s *sw) Losses(context.Context, *injectorpb.LossesRequest) (*injectorpb.LossesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent {
		return nil, status.Error(codes.Unavailable, "out of order")
	}
	answer := &injectorpb.LossesResponse{Ports: []*injectorpb.PortLosses{{Port: 0}, {Port: 1}, {Port: 2}}}
	if len(s.lost) > 0 {
		answer.Ports[0].Unsent = s.lost[min(s.asked, len(s.lost)-1)]
		s.asked++
	}
	return answer, nil
}

// rack is a testbed of fake machines.
type rack struct {
	*remote.Testbed
	hosts  [2]*machine
	dumper *machine
	sw     *sw
	closed bool
}

func newMachine() *machine {
	return &machine{fails: map[string]error{}, hangs: map[string]bool{}, shards: map[string][]byte{},
		describe: agentpb.DescribeResponse{Version: "v1", Privileges: []string{"CAP_NET_ADMIN", "CAP_NET_RAW"},
			Interfaces: []*agentpb.Interface{{Name: "eth1", Mtu: 4096, Up: true, Kind: "device"}}}}
}

// serve serves on a socket until the test is over, and returns a connection.
func serve(t *testing.T, register func(*grpc.Server)) (*grpc.Server, *grpc.ClientConn) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	register(g)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(lis) }()
	t.Cleanup(func() { g.Stop(); <-done })
	conn, err := transport.Dial("unix:"+socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return g, conn
}

// spec is a test of one connection without messages and with short deadlines.
func spec() testbeds.Spec {
	ip := [2]netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}
	return testbeds.Spec{
		Hosts: [2]testbeds.Host{{Name: "requester", Profile: "spec", IPs: ip[:1]},
			{Name: "responder", Profile: "spec", IPs: ip[1:]}},
		Connections: []testbeds.Connection{{IPs: ip, MTU: 1024, AckTimeout: 14}},
		Dumpers:     []testbeds.Dumper{{Name: "dumper-1", Weight: 1, Cores: 1}},
		Quiesce:     clock.Millisecond, Deadline: 50 * clock.Millisecond,
	}
}

// newRack makes a testbed, after change.
func newRack(t *testing.T, change func(*rack, *remote.Machines, *testbeds.Spec)) *rack {
	t.Helper()
	r := &rack{hosts: [2]*machine{newMachine(), newMachine()}, dumper: newMachine(), sw: &sw{}}
	r.dumper.shards["dumper-1-0.pcap"] = []byte("copies")
	m := remote.Machines{Kind: "lab", Run: "run-1", Close: func() error { r.closed = true; return nil }}
	for i, x := range []*machine{r.hosts[0], r.hosts[1], r.dumper} {
		g, conn := serve(t, func(g *grpc.Server) {
			agentpb.RegisterAgentServer(g, x)
			agentpb.RegisterHostServer(g, x)
			agentpb.RegisterDumperServer(g, x)
		})
		x.server = g
		machine := remote.Machine{Name: []string{"requester", "responder", "dumper-1"}[i], Conn: conn, Interface: "eth1",
			Port: uint16(i)}
		if i < len(m.Hosts) {
			m.Hosts[i] = machine
		} else {
			m.Dumpers = append(m.Dumpers, machine)
		}
	}
	g, conn := serve(t, func(g *grpc.Server) { injectorpb.RegisterStatusServer(g, r.sw) })
	r.sw.server = g
	m.Switch = remote.Switch{Name: "switch", Conn: conn, DeviceID: 1, Status: true}
	s := spec()
	if change != nil {
		change(r, &m, &s)
	}
	bed, err := remote.New(s, m)
	if err != nil {
		t.Fatal(err)
	}
	r.Testbed = bed
	return r
}

// run runs all steps of a run, up to the first failure.
func (r *rack) run(ctx context.Context, dir string) (testbeds.Dump, error) {
	var dump testbeds.Dump
	for _, step := range []func() error{
		func() error { _, err := r.Prepare(ctx); return err },
		func() error { _, err := r.Environment(ctx); return err },
		func() error { return r.StartDumpers(ctx, dir) },
		func() error { _, err := r.Run(ctx); return err },
		func() (err error) { dump, err = r.StopDumpers(ctx); return err },
		func() error { _, err := r.Counters(ctx); return err },
	} {
		if err := step(); err != nil {
			return dump, err
		}
	}
	return dump, nil
}

// free reports machines that were not released.
func (r *rack) free(t *testing.T) {
	t.Helper()
	for i, m := range []*machine{r.hosts[0], r.hosts[1], r.dumper} {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			m.mu.Lock()
			held, ended := m.leases, m.ended
			m.mu.Unlock()
			if held == 0 && ended > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("machine %d: %d leases are held, %d were given back", i, held, ended)
				break
			}
		}
	}
	if !r.closed {
		t.Error("the connections are open")
	}
}

// refusal is an error of an agent.
func refusal(text string) error { return status.Error(codes.Internal, fmt.Sprint(text)) }
