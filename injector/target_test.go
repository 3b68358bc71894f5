package injector_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// hardTarget is a connection to a target with the observed limits of bmv2: it has no Capabilities, refuses registers,
// stronger atomicities and truncating sessions, and cannot read its replication engine. Calls that exceed a limit fail
// the test.
type hardTarget struct {
	grpc.ClientConnInterface
	t      *testing.T
	writes atomic.Int64                   // two batches may be in flight
	sabot  func(*p4pb.WriteRequest) error // instead of a write, if it returns an error
}

func (h *hardTarget) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	switch req := req.(type) {
	case *p4pb.CapabilitiesRequest:
		return status.Error(codes.Unimplemented, "unknown method Capabilities")
	case *p4pb.WriteRequest:
		h.writes.Add(1)
		if h.sabot != nil {
			if err := h.sabot(req); err != nil {
				return err
			}
		}
		h.checkWrite(req)
	}
	return h.ClientConnInterface.Invoke(ctx, method, req, resp, opts...)
}

func (h *hardTarget) checkWrite(req *p4pb.WriteRequest) {
	if req.GetAtomicity() != p4pb.WriteRequest_CONTINUE_ON_ERROR {
		h.t.Errorf("a write with atomicity %v", req.GetAtomicity())
	}
	if len(req.GetUpdates()) > 1000 {
		h.t.Errorf("a batch of %d updates", len(req.GetUpdates()))
	}
	for _, u := range req.GetUpdates() {
		if u.GetEntity().GetRegisterEntry() != nil {
			h.t.Error("a register is written")
		}
		if u.GetEntity().GetPacketReplicationEngineEntry().GetCloneSessionEntry().GetPacketLengthBytes() != 0 {
			h.t.Error("a clone session truncates")
		}
	}
}

// readGuard fails the test when something is read that not every target can read.
type readGuard struct {
	grpc.ClientStream
	t *testing.T
}

func (g readGuard) SendMsg(m any) error {
	if req, ok := m.(*p4pb.ReadRequest); ok {
		for _, e := range req.GetEntities() {
			if e.GetRegisterEntry() != nil || e.GetPacketReplicationEngineEntry() != nil {
				g.t.Errorf("read of %T", e.GetEntity())
			}
		}
	}
	return g.ClientStream.SendMsg(m)
}

func (h *hardTarget) NewStream(ctx context.Context, d *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := h.ClientConnInterface.NewStream(ctx, d, method, opts...)
	if err != nil {
		return nil, err
	}
	return readGuard{s, h.t}, nil
}

func connectHard(t *testing.T, tg *target) (*injector.Client, *hardTarget) {
	t.Helper()
	h := &hardTarget{ClientConnInterface: tg.conn, t: t}
	c, err := injector.Connect(t.Context(), h, injector.Config{Target: "bmv2", DeviceID: deviceID})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, h
}

func manyEvents(n int) (out []injector.Intent) {
	for i := range n {
		out = append(out, injector.Intent{Index: i, RelPSN: int64(i + 1), Nth: 1,
			Action: injector.Action{Type: trace.EventDrop}})
	}
	return out
}

func TestTheClientNeedsNothingThatRealTargetsLack(t *testing.T) {
	c, h := connectHard(t, startTarget(t, nil))
	setup := twoHosts()
	setup.Snap = 128
	for range 2 {
		if _, err := c.Program(t.Context(), setup, oneConnection(), manyEvents(3500)); err != nil {
			t.Fatal(err)
		}
	}
	for name, step := range map[string]func(context.Context) error{
		"open": c.OpenGate, "close": c.CloseGate,
		"hits":     func(ctx context.Context) error { _, err := c.Hits(ctx); return err },
		"counters": func(ctx context.Context) error { _, err := c.Counters(ctx); return err },
	} {
		if err := step(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Clear(t.Context()); err != nil {
		t.Error(err)
	}
	equal(t, "API version", c.APIVersion(), "1.0")
	if h.writes.Load() < 15 {
		t.Errorf("%d writes for 3 × 3500 entries: the batches are not bounded", h.writes.Load())
	}
}

func TestARefusedUpdateIsNamed(t *testing.T) {
	tg := startTarget(t, nil)
	c, h := connectHard(t, tg)
	h.sabot = func(req *p4pb.WriteRequest) error { // make the third event of a batch one that exists already
		for i, u := range req.GetUpdates() {
			if u.GetEntity().GetTableEntry().GetTableId() == p4.TableEvent && i > 2 && u.GetType() == p4pb.Update_INSERT {
				req.Updates[i] = req.GetUpdates()[i-1]
				return nil
			}
		}
		return nil
	}
	_, err := c.Program(t.Context(), twoHosts(), oneConnection(), manyEvents(5))
	const want = `injector "bmv2": program events: event entry (flow 0 space requests psn 16777215 iter 1): AlreadyExists: table "event" already has this entry`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	refused, ok := errors.AsType[*injector.WriteError](err)
	if !ok || len(refused.Failed) != 1 || refused.Total != 7 {
		t.Errorf("got %+v", refused)
	}
	if _, err := c.Hits(t.Context()); err == nil {
		t.Error("hits of a run that was not programmed")
	}
}

func TestAStatusWithoutDetailsStaysWhatItIs(t *testing.T) {
	c, h := connectHard(t, startTarget(t, nil))
	h.sabot = func(*p4pb.WriteRequest) error { return status.Error(codes.Unknown, "out of luck") }
	_, err := c.Program(t.Context(), twoHosts(), oneConnection(), nil)
	if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("got %v", err)
	}
}

func TestEventsThatTheTargetLacksAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	tg := startTarget(t, p4.Base().Without("trim"))
	c := tg.connect(t, injector.Config{Target: "tofino-a", Pipeline: injector.Pipeline{Info: p4.Base().Without("trim")}})
	intents := []injector.Intent{{RelPSN: 1, Nth: 1, Action: injector.NewAction(trace.EventTrim, 64, 0, 0)}}
	_, err := c.Program(t.Context(), twoHosts(), oneConnection(), intents)
	if !errors.Is(err, injector.ErrUnsupported) || !strings.Contains(err.Error(), `target "tofino-a" offers no "trim"`) {
		t.Errorf("got %v", err)
	}
	var r pipeline.Result
	tg.server.Do(func() { tg.pipe.Process(0, 0, write(oneConnection()[0], 1), &r) })
	if !r.Forward.Flood || r.Flow != trace.NoFlow {
		t.Errorf("the target was programmed: %+v", r)
	}
}

func TestThePipelineIsPushedOnlyIfItsCookieDiffers(t *testing.T) {
	tg := startTarget(t, nil)
	connect := func(p injector.Pipeline) (pushed bool) {
		c, err := injector.Connect(t.Context(), tg.conn, injector.Config{DeviceID: deviceID, Pipeline: p})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, pushed = c.Cookie()
		return pushed
	}
	newer := injector.Pipeline{DeviceConfig: []byte("a new build")}
	got := []bool{connect(injector.Pipeline{}), connect(injector.Pipeline{}), connect(newer), connect(newer),
		connect(injector.Pipeline{})}
	equal(t, "pushed", got, []bool{true, false, true, false, true})
}

func TestAnotherClientContinuesTheEpochs(t *testing.T) {
	tg := startTarget(t, nil)
	program := func(hint uint16) uint16 {
		c, err := injector.Connect(t.Context(), tg.conn, injector.Config{DeviceID: deviceID, EpochHint: hint})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p, err := c.Program(t.Context(), twoHosts(), oneConnection(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p.Epoch
	}
	equal(t, "epochs", []uint16{program(65534), program(7), program(7), program(7)}, []uint16{65534, 65535, 1, 2})
}

func TestClearKeepsForwarding(t *testing.T) {
	tg := startTarget(t, nil)
	c := tg.connect(t, injector.Config{})
	conns := oneConnection()
	if _, err := c.Program(t.Context(), twoHosts(), conns, manyEvents(1)); err != nil {
		t.Fatal(err)
	}
	if err := c.OpenGate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	var r pipeline.Result
	tg.server.Do(func() { tg.pipe.Process(0, 0, write(conns[0], 1), &r) })
	if r.Event != trace.EventNone || r.Mirror.Active || r.Forward.Port != 1 || r.Forward.Flood {
		t.Errorf("after clear: %+v", r)
	}
	if err := c.OpenGate(t.Context()); err == nil {
		t.Error("the gate opens with nothing programmed")
	}
}

func TestForwardingFollowsTheSetup(t *testing.T) {
	tg := startTarget(t, nil)
	c := tg.connect(t, injector.Config{})
	setup := twoHosts()
	for _, port := range []uint16{1, 0} { // host B moves to another port
		setup.Forwarding[1].Port = port
		if _, err := c.Program(t.Context(), setup, nil, nil); err != nil {
			t.Fatal(err)
		}
		var r pipeline.Result
		tg.server.Do(func() {
			tg.pipe.Process(0, 0, &packet.Packet{Eth: packet.Ethernet{Dst: hostB}}, &r)
		})
		equal(t, "port of host B", r.Forward, pipeline.Forward{Port: port})
	}
}

func TestASecondClientWithALowerElectionIDIsNotLetIn(t *testing.T) {
	tg := startTarget(t, nil)
	first := tg.connect(t, injector.Config{ElectionLow: 5})
	_, err := injector.Connect(t.Context(), tg.conn,
		injector.Config{Target: "embedded", DeviceID: deviceID, ElectionLow: 4})
	if status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), `injector "embedded": become primary`) {
		t.Errorf("got %v", err)
	}
	if err := first.Primary(); err != nil {
		t.Errorf("the first client: %v", err)
	}
	second := tg.connect(t, injector.Config{ElectionLow: 6})
	if err := second.Primary(); err != nil {
		t.Errorf("the second client: %v", err)
	}
	if _, err := first.Program(t.Context(), twoHosts(), nil, nil); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the deposed client programs: %v", err)
	}
}

func TestConnectReportsWhatWentWrong(t *testing.T) {
	tg := startTarget(t, nil)
	_, err := injector.Connect(t.Context(), tg.conn, injector.Config{Target: "x", DeviceID: 99})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), `injector "x": capabilities: `) {
		t.Errorf("wrong device: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := injector.Connect(ctx, tg.conn, injector.Config{DeviceID: deviceID}); status.Code(err) != codes.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

func TestARPCThatHangsEndsAtItsDeadline(t *testing.T) {
	tg := startTarget(t, nil)
	// On a busy machine becoming primary takes longer than what hangs shall take.
	var c *injector.Client
	err := context.DeadlineExceeded
	for timeout := 100 * time.Millisecond; err != nil && timeout < time.Minute; timeout *= 3 {
		c, err = injector.Connect(t.Context(), tg.conn,
			injector.Config{Target: "embedded", DeviceID: deviceID, Timeout: timeout})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	release := make(chan struct{})
	held := make(chan struct{})
	go tg.server.Do(func() { close(held); <-release })
	<-held
	err = c.CloseGate(t.Context())
	close(release)
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
}

func TestATargetThatIsNotOurInjectorIsRefused(t *testing.T) {
	tests := []struct {
		name string
		edit func(*configpb.P4Info)
		want string
	}{
		{"a table is missing", func(p *configpb.P4Info) { p.Tables = p.Tables[:len(p.Tables)-2] },
			`no table "mirror"`},
		{"a table cannot do its job", func(p *configpb.P4Info) { p.Tables[0].ActionRefs = p.Tables[0].ActionRefs[1:] },
			`table "connection_v4" has no action "set_flow"`},
		{"a counter is missing", func(p *configpb.P4Info) { p.Counters = p.Counters[1:] }, `no counter "roce_rx"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pb := proto.Clone(p4.Base().Proto()).(*configpb.P4Info)
			tt.edit(pb)
			info, err := p4.New(pb)
			if err != nil {
				t.Fatal(err)
			}
			_, err = injector.Connect(t.Context(), startTarget(t, info).conn,
				injector.Config{Target: "router", DeviceID: deviceID,
					Pipeline: injector.Pipeline{Info: info}})
			if !errors.Is(err, injector.ErrUnsupported) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
