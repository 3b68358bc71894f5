package main

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/bmv2"
	"candela.dev/candela/testbeds/virtual"
)

// A front is a P4Runtime proxy on a TCP port that injects faults.
type front struct {
	t       *testing.T
	address string
	server  *grpc.Server
	serving sync.WaitGroup
	pumps   sync.WaitGroup
	write   func(*p4pb.WriteRequest) error // called before each write; an error is the response
}

// serve starts or restarts the front. A restart keeps the port.
func (f *front) serve(to grpc.ClientConnInterface) {
	f.t.Helper()
	if f.address == "" {
		f.address = "127.0.0.1:0"
	}
	lis, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.address = lis.Addr().String()
	server := grpc.NewServer(grpc.ForceServerCodecV2(bmv2.NewVerbatim()),
		grpc.UnknownServiceHandler(bmv2.PassThrough(to, &f.pumps)),
		grpc.WaitForHandlers(true), grpc.StreamInterceptor(f.intercept))
	f.server = server
	f.serving.Go(func() { _ = server.Serve(lis) })
}

func (f *front) stop() {
	f.server.Stop()
	f.serving.Wait()
	f.pumps.Wait()
}

func (f *front) intercept(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	if info.FullMethod != p4pb.P4Runtime_Write_FullMethodName || f.write == nil {
		return handler(srv, stream)
	}
	return handler(srv, &writing{stream, f.write})
}

// writing passes write requests to write before the server handles them.
type writing struct {
	grpc.ServerStream
	write func(*p4pb.WriteRequest) error
}

func (w *writing) RecvMsg(m any) error {
	if err := w.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	req := new(p4pb.WriteRequest)
	if err := bmv2.Decode(m, req); err != nil {
		return err
	}
	return w.write(req)
}

// distant is a virtual testbed whose injector is reached over TCP through a front.
type distant struct {
	orchestrator.Testbed
	front  *front
	conn   *grpc.ClientConn
	inside grpc.ClientConnInterface
	during func(*distant) // called during the traffic
}

func (d *distant) Injector(ctx context.Context) (testbeds.Access, error) {
	a, err := d.Testbed.Injector(ctx)
	if err != nil {
		return a, err
	}
	d.inside = a.Conn
	d.front.serve(a.Conn)
	d.conn, err = transport.DialForeign(d.front.address, nil)
	a.Conn = d.conn
	return a, err
}

func (d *distant) Run(ctx context.Context) (generator.Report, error) {
	report, err := d.Testbed.Run(ctx)
	if d.during != nil {
		d.during(d)
	}
	return report, err
}

func (d *distant) Close() error {
	if d.conn != nil {
		_ = d.conn.Close()
		d.front.stop()
	}
	return d.Testbed.Close()
}

const twoDrops = `name: distant-injector
requester: {nic: {profile: spec, ip-list: [10.0.0.2/24]}}
responder: {nic: {profile: spec, ip-list: [10.0.0.1/24]}}
traffic:
  num-connections: 1
  rdma-verb: write
  num-msgs-per-qp: 4
  mtu: 1024
  message-size: 10240
  min-retransmit-timeout: 14
  data-pkt-events: [{qpn: 1, psn: 5, iter: 1, type: drop}, {qpn: 1, psn: 15, iter: any, type: ecn}]
`

// runDistant runs a test with two events on the virtual testbed, with a front before its injector.
func runDistant(t *testing.T, write func(*p4pb.WriteRequest) error, during func(*distant)) orchestrator.Verdict {
	t.Helper()
	test, err := config.Parse("distant.yml", []byte(twoDrops), configOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	out, err := orchestrator.Run(t.Context(), p, func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		bed, err := virtual.New(spec)
		return &distant{Testbed: bed, front: &front{t: t, write: write}, during: during}, err
	}, orchestrator.Options{Out: t.TempDir(), ID: "distant", Wall: noTime, NoReports: true})
	if err != nil {
		t.Fatal(err)
	}
	return out.Verdict
}

func noTime() time.Time { return time.Unix(0, 0) }

// expectFailure checks that a run ended in an infrastructure failure with the reason.
func expectFailure(t *testing.T, v orchestrator.Verdict, reason string) {
	t.Helper()
	if v.Exit != orchestrator.ExitInfrastructure || !strings.Contains(strings.Join(v.Reasons, "\n"), reason) {
		t.Errorf("exit status %v, reasons %q; want %v and a reason with %q", v.Exit, v.Reasons,
			orchestrator.ExitInfrastructure, reason)
	}
}

func TestAnInjectorBehindTCPIsAsGoodAsOneInside(t *testing.T) {
	if v := runDistant(t, nil, nil); v.Exit != orchestrator.ExitPass {
		t.Errorf("exit status %v: %q", v.Exit, v.Reasons)
	}
}

func TestSlowWritesDoNotChangeTheVerdict(t *testing.T) {
	writes := 0
	v := runDistant(t, func(*p4pb.WriteRequest) error {
		writes++
		time.Sleep(20 * time.Millisecond)
		return nil
	}, nil)
	if v.Exit != orchestrator.ExitPass || writes == 0 {
		t.Errorf("exit status %v after %d writes: %q", v.Exit, writes, v.Reasons)
	}
}

func TestAFullTableEndsTheRunBeforeTraffic(t *testing.T) {
	v := runDistant(t, func(req *p4pb.WriteRequest) error {
		st := status.New(codes.Unknown, "batch failed")
		full := false
		for _, u := range req.GetUpdates() {
			e := &p4pb.Error{CanonicalCode: int32(codes.OK)}
			if u.GetEntity().GetTableEntry().GetTableId() == p4.TableEventAny && u.GetType() == p4pb.Update_INSERT {
				full, e = true, &p4pb.Error{CanonicalCode: int32(codes.ResourceExhausted), Message: "table full"}
			}
			st, _ = st.WithDetails(e)
		}
		if !full {
			return nil
		}
		return st.Err()
	}, func(*distant) { t.Error("there was traffic") })
	expectFailure(t, v, "event_any entry (flow 0")
	expectFailure(t, v, "table full")
}

func TestASwitchThatRestartsInTheMiddleEndsTheRun(t *testing.T) {
	pipe, err := pipeline.New(pipeline.Config{Ports: 4})
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := switchd.New(switchd.Config{DeviceID: 1, Datapath: pipe, Info: p4.Software()})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = fresh.Serve(ctx, lis) })
	defer serving.Wait()
	defer cancel()
	conn, err := transport.DialForeign(lis.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The front restarts on its port and forwards to an injector with empty tables.
	expectFailure(t, runDistant(t, nil, func(d *distant) { d.front.stop(); d.front.serve(conn) }), "run traffic")
}

func TestABrokenConnectionInTheMiddleEndsTheRun(t *testing.T) {
	// The switch kept running. But for a while no controller was primary, and another one may have become primary.
	expectFailure(t, runDistant(t, nil, func(d *distant) { d.front.stop(); d.front.serve(d.inside) }), "run traffic")
}

func TestASwitchThatGoesAwayEndsTheRun(t *testing.T) {
	expectFailure(t, runDistant(t, nil, func(d *distant) { d.front.stop() }), "run traffic")
}

// usurp connects a second controller and makes it primary.
func usurp(t *testing.T, d *distant) (*injector.Client, func()) {
	t.Helper()
	conn, err := transport.DialForeign(d.front.address, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Testbed.Injector(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := injector.Connect(t.Context(), conn, injector.Config{Target: "usurper", DeviceID: a.DeviceID, ElectionLow: 9,
		Pipeline: injector.Pipeline{Info: a.Info}})
	if err != nil {
		t.Fatal(err)
	}
	return c, func() { c.Close(); conn.Close() }
}

func TestASecondControllerThatBecomesPrimaryEndsTheRun(t *testing.T) {
	expectFailure(t, runDistant(t, nil, func(d *distant) {
		_, leave := usurp(t, d)
		t.Cleanup(leave)
	}), "run traffic")
}

func TestASecondControllerThatCameAndWentEndsTheRun(t *testing.T) {
	expectFailure(t, runDistant(t, nil, func(d *distant) {
		_, leave := usurp(t, d)
		leave()
	}), "run traffic")
}
