//go:build linux

package agent_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/link/linktest"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
)

// serve runs an agent on one end of a veth pair and calls f with a connection to it.
func serve(t *testing.T, cfg agent.Config, f func(conn *grpc.ClientConn)) {
	t.Helper()
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		cfg.Interfaces, cfg.Dir = []string{"b"}, filepath.Join(t.TempDir(), "captures")
		s, err := agent.Open(cfg)
		if err != nil {
			t.Error(err)
			return
		}
		socket := filepath.Join(t.TempDir(), "s")
		lis, err := net.Listen("unix", socket)
		if err != nil {
			t.Error(err)
			return
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		// Only this goroutine is in the namespace of its thread, so calls that need the namespace cannot be made over gRPC
		// here; cmd/candela tests those. Calls that are checked before any interface is used can.
		go func() { ended <- s.Serve(ctx, lis) }()
		conn, err := transport.Dial("unix:"+socket, nil)
		if err != nil {
			t.Error(err)
		} else {
			f(conn)
			conn.Close()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("agent.(*Server).next")) {
			t.Errorf("who receives a lease's messages outlives Serve:\n%s", stacks)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestOneRunAtATimeHoldsTheMachine(t *testing.T) {
	serve(t, agent.Config{Handover: 20 * time.Millisecond}, func(conn *grpc.ClientConn) {
		first := agent.NewClient("m", conn, "first")
		lease, err := first.Hold(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agent.NewClient("m", conn, "second").Hold(within(t)); err == nil ||
			!strings.Contains(err.Error(), `held by run "first"`) {
			t.Errorf("a second run: %v", err)
		}
		lease.Close()
		second, err := agent.NewClient("m", conn, "second").Hold(within(t))
		if err != nil {
			t.Fatalf("after the first has finished: %v", err)
		}
		second.Close()
	})
}

func TestARunWhoseOrchestratorIsGoneIsReleasedByItsLease(t *testing.T) {
	serve(t, agent.Config{Lease: 50 * time.Millisecond}, func(conn *grpc.ClientConn) {
		ctx, cut := context.WithCancel(t.Context())
		stream, err := agentpb.NewAgentClient(conn).Lease(ctx)
		if err == nil {
			err = stream.Send(&agentpb.LeaseRequest{Run: "lost"})
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		cut()
		host := agentpb.NewHostClient(conn)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			_, err := host.Release(within(t), &agentpb.ReleaseRequest{Run: "lost"})
			if status.Code(err) == codes.FailedPrecondition {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("still held: %v", err)
			}
		}
	})
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	serve(t, agent.Config{Limits: agent.Limits{CaptureBytes: 1 << 20, Connections: 1}}, func(conn *grpc.ClientConn) {
		c := agent.NewClient("m", conn, "r")
		lease, err := c.Hold(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Close()
		host, dumper := agentpb.NewHostClient(conn), agentpb.NewDumperClient(conn)
		for name, tc := range map[string]struct {
			want codes.Code
			call func(context.Context) error
		}{
			"another run": {codes.FailedPrecondition, func(ctx context.Context) error {
				_, err := host.Start(ctx, &agentpb.StartRequest{Run: "other"})
				return err
			}},
			"a run id with a path": {codes.InvalidArgument, func(ctx context.Context) error {
				_, err := host.Start(ctx, &agentpb.StartRequest{Run: "../x"})
				return err
			}},
			"an interface of others": {codes.InvalidArgument, func(ctx context.Context) error {
				_, err := dumper.Record(ctx, &agentpb.RecordRequest{Run: "r", Name: "d", Interface: "lo"})
				return err
			}},
			"a name with a path": {codes.InvalidArgument, func(ctx context.Context) error {
				_, err := dumper.Record(ctx, &agentpb.RecordRequest{Run: "r", Name: "../d", Interface: "b"})
				return err
			}},
			"more bytes than the quota": {codes.ResourceExhausted, func(ctx context.Context) error {
				_, err := dumper.Record(ctx, &agentpb.RecordRequest{Run: "r", Name: "d", Interface: "b", Bytes: 1 << 21})
				return err
			}},
			"a step out of order": {codes.FailedPrecondition, func(ctx context.Context) error {
				_, err := dumper.Finish(ctx, &agentpb.FinishRequest{Run: "r"})
				return err
			}},
			"a call without deadline": {codes.InvalidArgument, func(context.Context) error {
				_, err := host.Start(context.Background(), &agentpb.StartRequest{Run: "r"})
				return err
			}},
			"a host without a NIC": {codes.InvalidArgument, func(ctx context.Context) error {
				_, err := host.Prepare(ctx, &agentpb.PrepareRequest{Run: "r", Interface: "b"})
				return err
			}},
		} {
			if err := tc.call(within(t)); status.Code(err) != tc.want {
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		}
		ip := netip.MustParseAddr("10.0.0.1")
		two := testbeds.Spec{Connections: []testbeds.Connection{{IPs: [2]netip.Addr{ip, ip}}, {IPs: [2]netip.Addr{ip, ip}}}}
		_, err = c.Prepare(within(t), agent.Host{Interface: "b", Side: generator.Requester, Spec: &two,
			NIC: testbeds.Host{Name: "h", Profile: "spec", CNPPacing: "per-port"}})
		if err == nil || !strings.Contains(err.Error(), "2 connections") {
			t.Errorf("too many connections: %v", err)
		}
		if err := c.Fetch(within(t), &agentpb.Shard{Name: "../../etc/passwd"}, new(bytes.Buffer)); err == nil ||
			!strings.Contains(err.Error(), "no shard") {
			t.Errorf("a shard with a path: %v", err)
		}
	})
}

func TestViewersOnlyLook(t *testing.T) {
	for method, want := range map[string]int{
		agentpb.Agent_Describe_FullMethodName: 2, agentpb.Host_Start_FullMethodName: 1,
		agentpb.Dumper_Fetch_FullMethodName: 1, "/x/Y": 1,
	} {
		if got := agent.Policy(method); len(got) != want || got[0] != transport.Orchestrator {
			t.Errorf("%s: %v", method, got)
		}
	}
}

func TestAnAgentDescribesItsInterfacesDriver(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		s, err := agent.Open(agent.Config{Interfaces: []string{"b"}, Dir: t.TempDir()})
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		d, err := s.Describe(within(t), &agentpb.DescribeRequest{})
		if err != nil {
			t.Error(err)
			return
		}
		got := map[string]string{}
		for _, p := range d.GetProperties() {
			got[p.GetName()] = p.GetValue()
		}
		for name, want := range map[string]string{"b/driver": "veth", "b/nic-driver": "virtual", "b/link-state": "up"} {
			if got[name] != want {
				t.Errorf("%s is %q, want %q (of %v)", name, got[name], want, got)
			}
		}
	})
}
