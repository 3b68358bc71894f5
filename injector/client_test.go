package injector_test

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestMain checks that servers and clients leave no goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deviceID = 7

// target is an embedded switch over bufconn.
type target struct {
	pipe   *pipeline.Pipeline
	server *switchd.Server
	conn   *grpc.ClientConn
}

// datapath is what the embedded switch programs.
type datapath = switchd.Datapath

// startTarget serves a pipeline of four ports that offers info.
func startTarget(t testing.TB, info *p4.Info) *target {
	t.Helper()
	return startTargetOf(t, info, func(d datapath) datapath { return d })
}

// startTargetOf serves what wrap makes of a pipeline of four ports.
func startTargetOf(t testing.TB, info *p4.Info, wrap func(datapath) datapath) *target {
	t.Helper()
	pipe, err := pipeline.New(pipeline.Config{Ports: 4, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	server, err := switchd.New(switchd.Config{DeviceID: deviceID, Datapath: wrap(pipe), Info: info})
	if err != nil {
		t.Fatal(err)
	}
	lis := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, lis) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &target{pipe, server, conn}
}

// connect returns a primary client of the target, which is closed with the test.
func (tg *target) connect(t testing.TB, cfg injector.Config) *injector.Client {
	t.Helper()
	if cfg.Target == "" {
		cfg.Target = "embedded"
	}
	cfg.DeviceID, cfg.Timeout = deviceID, cmp.Or(cfg.Timeout, time.Minute)
	c, err := injector.Connect(t.Context(), tg.conn, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var (
	hostA = packet.MAC{2, 0, 0, 0, 0, 1}
	hostB = packet.MAC{2, 0, 0, 0, 0, 2}
)

func twoHosts() injector.Setup {
	return injector.Setup{
		Forwarding: []injector.Forwarding{{MAC: hostA, Port: 0}, {MAC: hostB, Port: 1}},
		FloodPorts: []uint16{0, 1},
		Mirrors:    []injector.Mirror{{Port: 2, Weight: 1}, {Port: 3, Weight: 1}},
	}
}

func oneConnection() []injector.Connection {
	return []injector.Connection{{
		Requester: injector.Endpoint{IP: netip.MustParseAddr("10.0.0.2"), QPN: 0x11, IPSN: 0xfffffe},
		Responder: injector.Endpoint{IP: netip.MustParseAddr("10.0.0.1"), QPN: 0x22, IPSN: 500},
	}}
}

// write returns a WRITE packet of the first connection with a relative PSN.
func write(c injector.Connection, relPSN int) *packet.Packet {
	return &packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH, Payload: make([]byte, 1024),
		Eth: packet.Ethernet{Src: hostA, Dst: hostB, Type: packet.EtherTypeIPv4},
		IP:  packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP, Src: c.Requester.IP, Dst: c.Responder.IP},
		UDP: packet.UDP{SrcPort: 50000, DstPort: packet.Port},
		BTH: packet.BTH{Opcode: packet.WriteMiddle, DestQP: c.Responder.QPN, PSN: c.Requester.IPSN.Add(relPSN - 1)},
	}
}

func TestEventsProgrammedOverP4RuntimeHitTheirPackets(t *testing.T) {
	tg := startTarget(t, nil)
	client := tg.connect(t, injector.Config{})
	conns := oneConnection()
	intents := []injector.Intent{
		{Index: 0, Flow: 0, RelPSN: 2, Nth: 1, Action: injector.Action{Type: trace.EventECN}},
		{Index: 1, Flow: 0, RelPSN: 4, Nth: 1, Action: injector.Action{Type: trace.EventDrop}},
		{Index: 2, Flow: 0, RelPSN: 4, Nth: 2, Action: injector.Action{Type: trace.EventDrop}},
		{Index: 3, Flow: 0, RelPSN: 5, Nth: 9, Action: injector.Action{Type: trace.EventDrop}},
	}
	for runNumber := range 3 { // the second and third find the registers and entries of the one before
		program, err := client.Program(t.Context(), twoHosts(), conns, intents)
		if err != nil {
			t.Fatal(err)
		}
		if want := uint16(runNumber + 1); program.Epoch != want {
			t.Errorf("epoch %d, want %d", program.Epoch, want)
		}
		base, err := client.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := client.OpenGate(t.Context()); err != nil {
			t.Fatal(err)
		}
		var events []trace.EventType
		var ports []uint16
		tg.server.Do(func() {
			for i, psn := range []int{1, 2, 3, 4, 5, 4, 5, 4, 5} {
				var r pipeline.Result
				tg.pipe.Process(int64(i), 0, write(conns[0], psn), &r)
				events = append(events, r.Event)
				ports = append(ports, r.Mirror.Ports...)
				if r.Forward.Port != 1 && !r.Forward.Drop {
					t.Errorf("packet %d goes to port %d, want 1", i, r.Forward.Port)
				}
			}
		})
		if err := client.CloseGate(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, "events", events, []trace.EventType{0, trace.EventECN, 0, trace.EventDrop, 0, trace.EventDrop, 0, 0, 0})
		equal(t, "mirror ports", ports, []uint16{2, 3, 2, 3, 2, 3, 2, 3, 2})
		hits, err := client.Hits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "hits", hits, []uint64{1, 1, 1, 0})
		counters, err := client.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		delta := counters.Since(base)
		equal(t, "received", delta.RoCERx().Packets, uint64(9))
		equal(t, "mirrored", delta.Mirrored().Packets, uint64(9))
		equal(t, "first mirror", delta.Mirrors[0].Packets, uint64(5))
		equal(t, "sent to host B", delta.Ports[1].RoCETx.Packets, uint64(7))
	}
}

func TestConnectionsThatComeLaterJoinTheProgram(t *testing.T) {
	tg := startTarget(t, nil)
	client := tg.connect(t, injector.Config{})
	conns := oneConnection()
	intents := []injector.Intent{{Flow: 0, RelPSN: 2, Nth: 1, Action: injector.Action{Type: trace.EventDrop}}}
	if _, err := client.Extend(t.Context(), conns, intents); err == nil {
		t.Fatal("a program was extended before there was one")
	}
	if _, err := client.Program(t.Context(), twoHosts(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := client.OpenGate(t.Context()); err != nil {
		t.Fatal(err)
	}
	send := func(psn int) (r pipeline.Result) {
		tg.server.Do(func() { tg.pipe.Process(int64(psn), 0, write(conns[0], psn), &r) })
		return r
	}
	if before := send(2); before.Forward.Port != 1 || len(before.Mirror.Ports) != 1 || before.Event != 0 {
		t.Errorf("before: %+v", before)
	}
	if _, err := client.Extend(t.Context(), conns, intents); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Extend(t.Context(), conns, intents); err == nil {
		t.Error("a program with connections was extended")
	}
	if after := send(2); after.Event != trace.EventDrop || len(after.Mirror.Ports) != 1 {
		t.Errorf("the gate is open and the event programmed: %+v", after)
	}
	if hits, err := client.Hits(t.Context()); err != nil || len(hits) != 1 || hits[0] != 1 {
		t.Errorf("hits %v, %v", hits, err)
	}
}
