package injector_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// recorded returns the ids that the compiler for Tofino 2 gave, by kind and name.
func recorded(t *testing.T) func(kind, name string) uint32 {
	t.Helper()
	text, err := os.ReadFile("p4/tofino2-p4info.txt")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]uint32{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		id, err := strconv.ParseUint(f[1], 0, 32)
		if err != nil {
			t.Fatal(err)
		}
		ids[f[0]+" "+f[2]] = uint32(id)
	}
	return func(kind, name string) uint32 {
		t.Helper()
		id, ok := ids[kind+" "+name]
		if !ok {
			t.Fatalf("the compiler's P4Info has no %s %s", kind, name)
		}
		return id
	}
}

// compiled returns info as the compiler for Tofino 2 serves it, with the ids that it gave: those of counters are its
// own, and each event table has actions of its own, with its name in front of theirs.
func compiled(t *testing.T, info *p4.Info) *p4.Info {
	t.Helper()
	id := recorded(t)
	pb := proto.Clone(info.Proto()).(*configpb.P4Info)
	for _, c := range pb.GetCounters() {
		c.Preamble.Id = id("counter", c.GetPreamble().GetName())
	}
	direct := map[uint32]uint32{}
	for _, c := range pb.GetDirectCounters() {
		made := id("direct-counter", c.GetPreamble().GetName())
		direct[c.GetPreamble().GetId()] = made
		c.Preamble.Id = made
	}
	for _, table := range pb.GetTables() {
		if got := id("table", table.GetPreamble().GetName()); got != table.GetPreamble().GetId() {
			t.Errorf("table %s has id %d, the contract %d", table.GetPreamble().GetName(), got, table.GetPreamble().GetId())
		}
		for i, old := range table.GetDirectResourceIds() {
			if made, ok := direct[old]; ok {
				table.DirectResourceIds[i] = made
			}
		}
	}
	shared := map[uint32]*configpb.Action{}
	for _, a := range pb.GetActions() {
		shared[a.GetPreamble().GetId()] = a
	}
	gone := map[uint32]bool{}
	for _, table := range pb.GetTables() {
		if info.Table(table.GetPreamble().GetId()).DirectCounter == 0 {
			continue
		}
		for _, ref := range table.GetActionRefs() {
			if ref.GetId() == p4.ActionNoAction {
				continue
			}
			own := proto.Clone(shared[ref.GetId()]).(*configpb.Action)
			gone[ref.GetId()] = true
			own.Preamble.Name = table.GetPreamble().GetName() + "." + own.GetPreamble().GetName()
			own.Preamble.Id = id("action", own.GetPreamble().GetName())
			ref.Id = own.GetPreamble().GetId()
			pb.Actions = append(pb.Actions, own)
		}
	}
	pb.Actions = slices.DeleteFunc(pb.Actions, func(a *configpb.Action) bool { return gone[a.GetPreamble().GetId()] })
	out, err := p4.New(pb)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// asContract makes a datapath of the contract's counters one of other ids.
type asContract struct {
	datapath
	info *p4.Info
}

func (d asContract) Counter(id uint32, index int) (packets, bytes uint64) {
	return d.datapath.Counter(p4.Base().CounterNamed(d.info.Counter(id).Name).ID, index)
}

func TestCountersAndActionsAreFoundByName(t *testing.T) {
	info := compiled(t, p4.Base())
	tg := startTargetOf(t, info, func(d datapath) datapath { return asContract{d, info} })
	c := tg.connect(t, injector.Config{Pipeline: injector.Pipeline{Info: info}})
	for range 2 { // the second run finds the entries of the first
		program, err := c.Program(t.Context(), twoHosts(), oneConnection(), manyEvents(2))
		if err != nil {
			t.Fatal(err)
		}
		before, err := c.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.OpenGate(t.Context()); err != nil {
			t.Fatal(err)
		}
		tg.server.Do(func() {
			for _, psn := range []int{1, 2, 3} {
				var r pipeline.Result
				tg.pipe.Process(0, 0, write(oneConnection()[0], psn), &r)
			}
		})
		hits, err := c.Hits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "hits", hits, []uint64{1, 1})
		equal(t, "action", program.Document(hits).Events[1].Action, "drop")
		after, err := c.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		counters := after.Since(before)
		equal(t, "RoCE packets received", counters.RoCERx().Packets, 3)
		equal(t, "mirrored", counters.Mirrored().Packets, 3)
		received, err := c.Received(t.Context())
		if err != nil || received[0] != after.RoCERx().Packets {
			t.Errorf("received: %v, %v", received, err)
		}
	}
}

func TestATargetWhoseCountersAreOthersIsRefused(t *testing.T) {
	change := func(f func(*configpb.P4Info)) *p4.Info {
		pb := proto.Clone(p4.Base().Proto()).(*configpb.P4Info)
		f(pb)
		info, err := p4.New(pb)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	for name, info := range map[string]*p4.Info{
		`counter "roce_tx"`: change(func(pb *configpb.P4Info) {
			for _, c := range pb.GetCounters() {
				if c.GetPreamble().GetName() == "roce_tx" {
					c.Preamble.Name = "tx"
				}
			}
		}),
		`counter "mirrored" of 1024 cells`: change(func(pb *configpb.P4Info) {
			for _, c := range pb.GetCounters() {
				if c.GetPreamble().GetName() == "mirrored" {
					c.Size = 512
				}
			}
		}),
		`table "event" does not count`: change(func(pb *configpb.P4Info) {
			pb.DirectCounters = pb.GetDirectCounters()[1:]
		}),
	} {
		tg := startTarget(t, info)
		_, err := injector.Connect(t.Context(), tg.conn, injector.Config{Target: "tofino", DeviceID: deviceID,
			Pipeline: injector.Pipeline{Info: info}})
		if !errors.Is(err, injector.ErrUnsupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("connect: %v; want %s", err, name)
		}
	}
}

// snapper notes the lengths of clone sessions, and takes them off for a server that knows none.
type snapper struct {
	grpc.ClientConnInterface
	lengths []int32
}

func (s *snapper) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	if w, ok := req.(*p4pb.WriteRequest); ok {
		w = proto.Clone(w).(*p4pb.WriteRequest)
		req = w
		for _, u := range w.GetUpdates() {
			if e := u.GetEntity().GetPacketReplicationEngineEntry().GetCloneSessionEntry(); e != nil {
				s.lengths = append(s.lengths, e.GetPacketLengthBytes())
				e.PacketLengthBytes = 0
			}
		}
	}
	return s.ClientConnInterface.Invoke(ctx, method, req, resp, opts...)
}

func TestCloneSessionsCutWhereEgressCannot(t *testing.T) {
	for name, tt := range map[string]struct {
		info *p4.Info
		snap uint32
		want int32
	}{
		"egress cuts":                  {p4.Base(), 128, 0},
		"sessions cut":                 {p4.Tofino1(), 128, 128 + p4.CopyHeader},
		"sessions leave copies whole":  {p4.Tofino1(), 0, 0},
		"jumbo copies, cut in session": {p4.Tofino1(), 4096, 4096 + p4.CopyHeader},
	} {
		tg := startTarget(t, tt.info)
		conn := &snapper{ClientConnInterface: tg.conn}
		c, err := injector.Connect(t.Context(), conn, injector.Config{Target: name, DeviceID: deviceID,
			Pipeline: injector.Pipeline{Info: tt.info}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		setup := twoHosts()
		setup.Snap = tt.snap
		for range 2 { // each run rewrites its sessions
			if _, err := c.Program(t.Context(), setup, oneConnection(), manyEvents(1)); err != nil {
				t.Fatal(err)
			}
		}
		if len(conn.lengths) < 4 {
			t.Errorf("%s: only %d sessions were written", name, len(conn.lengths))
		}
		for _, length := range conn.lengths {
			equal(t, name, length, tt.want)
		}
	}
}

func TestWhatTofino1LacksIsRefusedByNameBeforeTraffic(t *testing.T) {
	tg := startTarget(t, p4.Tofino1())
	c := tg.connect(t, injector.Config{Target: "tofino", Pipeline: injector.Pipeline{Info: p4.Tofino1()}})
	if _, err := c.Program(t.Context(), twoHosts(), oneConnection(), manyEvents(1)); err != nil {
		t.Errorf("drop by PSN and ITER: %v", err)
	}
	trim := injector.Intent{RelPSN: 1, Nth: 1, Action: injector.Action{Type: trace.EventTrim, Params: []uint64{100, 1, 0}}}
	if _, err := c.Program(t.Context(), twoHosts(), oneConnection(), []injector.Intent{trim}); !errors.Is(err,
		injector.ErrUnsupported) || !strings.Contains(err.Error(), `target "tofino" offers no "trim"`) {
		t.Errorf("trim: %v", err)
	}
}

func TestATargetWithoutTablesRefusesWhatNeedsThem(t *testing.T) {
	ip6 := oneConnection()
	ip6[0].Requester.IP, ip6[0].Responder.IP = netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::1")
	drop := injector.Action{Type: trace.EventDrop}
	for _, tt := range []struct {
		table  string
		conns  []injector.Connection
		intent injector.Intent
	}{
		{"connection_v6", ip6, injector.Intent{RelPSN: 1, Nth: 1, Action: drop}},
		{"event_any", oneConnection(), injector.Intent{RelPSN: 1, Nth: injector.Any, Action: drop}},
		{"control_event", oneConnection(), injector.Intent{Flow: 1, Class: packet.ClassAck, Space: packet.Responses, Nth: 1,
			Action: drop}},
		{"watch", oneConnection(), injector.Intent{RelPSN: 1, Nth: 2, Scope: injector.IterPacket, Action: drop}},
	} {
		info := p4.Base().WithoutTables(tt.table)
		tg := startTarget(t, info)
		c := tg.connect(t, injector.Config{Target: "small", Pipeline: injector.Pipeline{Info: info}})
		_, err := c.Program(t.Context(), twoHosts(), tt.conns, []injector.Intent{tt.intent})
		if !errors.Is(err, injector.ErrUnsupported) || !strings.Contains(err.Error(), `"`+tt.table+`"`) {
			t.Errorf("%s: %v", tt.table, err)
		}
		if _, err := c.Program(t.Context(), twoHosts(), oneConnection(), manyEvents(1)); err != nil {
			t.Errorf("without %s: drop by PSN and ITER: %v", tt.table, err)
		}
		if err := c.Clear(t.Context()); err != nil {
			t.Errorf("without %s: %v", tt.table, err)
		}
	}
}
