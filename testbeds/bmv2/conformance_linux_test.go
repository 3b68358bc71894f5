package bmv2_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/testbeds/bmv2"
)

const deviceID = 1

// controlled is a datapath controlled by P4Runtime.
type controlled struct {
	t    testing.TB
	conn grpc.ClientConnInterface
	rpc  p4pb.P4RuntimeClient

	program []byte         // what Reset pushes
	copies  []*p4pb.Entity // of the replication engine
}

// controller makes a primary controller of the switch at conn.
func controller(t testing.TB, conn grpc.ClientConnInterface) *controlled {
	t.Helper()
	c := &controlled{t: t, rpc: p4pb.NewP4RuntimeClient(conn), program: p4.BMv2()}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := c.rpc.StreamChannel(ctx)
	if err == nil {
		err = stream.Send(&p4pb.StreamMessageRequest{Update: &p4pb.StreamMessageRequest_Arbitration{
			Arbitration: &p4pb.MasterArbitrationUpdate{DeviceId: deviceID, ElectionId: election()}}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func election() *p4pb.Uint128 { return &p4pb.Uint128{Low: 1} }

// Reset pushes the pipeline. This clears everything except bmv2's replication engine, so old copies are deleted first.
func (c *controlled) Reset() {
	c.t.Helper()
	for _, e := range c.copies {
		if err := c.write(p4pb.Update_DELETE, e); err != nil {
			c.t.Fatal(err)
		}
	}
	c.copies = nil
	_, err := c.rpc.SetForwardingPipelineConfig(c.t.Context(), &p4pb.SetForwardingPipelineConfigRequest{
		DeviceId: deviceID, ElectionId: election(), Action: p4pb.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4pb.ForwardingPipelineConfig{P4Info: p4.Base().Proto(), P4DeviceConfig: c.program}})
	if err != nil {
		c.t.Fatal(err)
	}
}

// write writes one update; an insert of an existing entity becomes a modification.
func (c *controlled) write(op p4pb.Update_Type, e *p4pb.Entity) error {
	_, err := c.rpc.Write(c.t.Context(), &p4pb.WriteRequest{DeviceId: deviceID, ElectionId: election(),
		Updates: []*p4pb.Update{{Type: op, Entity: e}}})
	code := status.Code(err)
	for _, d := range status.Convert(err).Details() {
		if d, ok := d.(*p4pb.Error); ok {
			code = codes.Code(d.GetCanonicalCode())
			err = fmt.Errorf("%v: %s", code, d.GetMessage())
		}
	}
	if op == p4pb.Update_INSERT && code == codes.AlreadyExists {
		return c.write(p4pb.Update_MODIFY, e)
	}
	return err
}

func entry(te *p4pb.TableEntry) *p4pb.Entity {
	return &p4pb.Entity{Entity: &p4pb.Entity_TableEntry{TableEntry: te}}
}

func (c *controlled) Set(table uint32, k p4.Key, a p4.Action) error {
	return c.write(p4pb.Update_INSERT, entry(&p4pb.TableEntry{TableId: table, Match: p4.Base().Table(table).Match(k),
		Action: p4.Base().TableAction(a)}))
}

func (c *controlled) Unset(table uint32, k p4.Key) {
	e := entry(&p4pb.TableEntry{TableId: table, Match: p4.Base().Table(table).Match(k)})
	if err := c.write(p4pb.Update_DELETE, e); err != nil && !strings.Contains(err.Error(), "NotFound") {
		c.t.Errorf("delete from table %d: %v", table, err)
	}
}

func (c *controlled) SetDefault(table uint32, a p4.Action) error {
	return c.write(p4pb.Update_MODIFY, entry(&p4pb.TableEntry{TableId: table, IsDefaultAction: true,
		Action: p4.Base().TableAction(a)}))
}

func replicas(ports []uint16) (list []*p4pb.Replica) {
	for i, port := range ports {
		list = append(list, &p4pb.Replica{
			//nolint:staticcheck // the field that bmv2 takes port 0 in
			PortKind: &p4pb.Replica_EgressPort{EgressPort: uint32(port)},
			Instance: uint32(i + 1)})
	}
	return list
}

func (c *controlled) replication(e *p4pb.PacketReplicationEngineEntry) error {
	entity := &p4pb.Entity{Entity: &p4pb.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: e}}
	c.copies = append(c.copies, entity)
	return c.write(p4pb.Update_INSERT, entity)
}

func (c *controlled) SetCloneSession(id uint32, ports []uint16) error {
	return c.replication(&p4pb.PacketReplicationEngineEntry{Type: &p4pb.PacketReplicationEngineEntry_CloneSessionEntry{
		CloneSessionEntry: &p4pb.CloneSessionEntry{SessionId: id, Replicas: replicas(ports)}}})
}

func (c *controlled) SetMulticastGroup(id uint32, ports []uint16) error {
	return c.replication(&p4pb.PacketReplicationEngineEntry{Type: &p4pb.PacketReplicationEngineEntry_MulticastGroupEntry{
		MulticastGroupEntry: &p4pb.MulticastGroupEntry{MulticastGroupId: id, Replicas: replicas(ports)}}})
}

// read returns the first entity of a read; nil: none.
func (c *controlled) read(e *p4pb.Entity) *p4pb.Entity {
	c.t.Helper()
	stream, err := c.rpc.Read(c.t.Context(), &p4pb.ReadRequest{DeviceId: deviceID, Entities: []*p4pb.Entity{e}})
	if err != nil {
		c.t.Fatal(err)
	}
	var first *p4pb.Entity
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return first
		}
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range answer.GetEntities() {
			if first == nil {
				first = e
			}
		}
	}
}

func (c *controlled) Hits(table uint32, k p4.Key) uint64 {
	e := c.read(entry(&p4pb.TableEntry{TableId: table, Match: p4.Base().Table(table).Match(k),
		CounterData: &p4pb.CounterData{}}))
	return uint64(e.GetTableEntry().GetCounterData().GetPacketCount())
}

func (c *controlled) Counter(id uint32, index int) (packets, bytes uint64) {
	e := c.read(&p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{CounterId: id,
		Index: &p4pb.Index{Index: int64(index)}}}}).GetCounterEntry().GetData()
	return uint64(e.GetPacketCount()), uint64(e.GetByteCount())
}

func (c *controlled) SetHits(uint32, p4.Key, uint64)         { c.t.Fatal("the suite sets no hits") }
func (c *controlled) SetCounter(uint32, int, uint64, uint64) { c.t.Fatal("the suite sets no counters") }

// openSwitch starts bmv2 with its proxy in the current namespace, and attaches to its ports.
func openSwitch(t testing.TB) (*controlled, *datapathtest.Wire) {
	t.Helper()
	if _, err := bmv2.Find(); err != nil {
		t.Skip("SKIP-bmv2: " + err.Error())
	}
	w := datapathtest.NewWire(t)
	ports := datapathtest.NearPorts()
	s, err := bmv2.Open(t.Context(), bmv2.Config{Ports: ports[:2], Mirrors: ports[2:], DeviceID: deviceID})
	if err != nil {
		t.Fatal(err)
	}
	lis, options, err := transport.Listen("unix:"+t.TempDir()+"/s", transport.ServerConfig{Policy: transport.SwitchPolicy})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, lis, options...) }()
	conn, err := transport.Dial("unix:"+lis.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := errors.Join(<-served, s.Close()); err != nil {
			t.Error(err)
		}
	})
	c := controller(t, conn)
	c.conn = conn
	c.Reset()
	w.Listen(t)
	w.Differences = datapathtest.Differences{CopyPorts: true, TxBytes: true, Turns: true}
	return c, w
}

// randomSequences is a sample that takes some seconds.
const randomSequences = 20

// offered reports whether the contract offers all actions of a sequence in their tables; the Go pipeline accepts
// others, too.
func offered(s datapathtest.Sequence) bool {
	for _, step := range s.Steps {
		for _, e := range step.Entries {
			if p4.Base().Table(e.Table).Offers(e.Action.ID) == nil {
				return false
			}
		}
	}
	return true
}

func TestBMv2DecidesAsThePipelineDoes(t *testing.T) {
	linktest.Namespace(t, func() {
		c, w := openSwitch(t)
		do := func(f func(switchd.Datapath) error) error { return f(c) }
		started := time.Now()
		w.Check(t, do)
		for seed := uint64(1); seed <= randomSequences; seed++ {
			if offered(datapathtest.Random(seed)) {
				w.CheckRandom(t, seed, 1, do)
			}
		}
		t.Logf("suite: %v", time.Since(started).Round(time.Millisecond))
	})
}

// TestThePassesOfHardwareDecideOnBMv2AsThePipelineDoes runs the suite on the program for bmv2 with the passes of the
// one for Tofino, which it compiles.
func TestThePassesOfHardwareDecideOnBMv2AsThePipelineDoes(t *testing.T) {
	compiler, err := exec.LookPath("p4c-bm2-ss")
	if err != nil {
		t.Skipf("SKIP-p4: %v", err)
	}
	object := filepath.Join(t.TempDir(), "passes.json")
	command := exec.Command(compiler, "-DPASSES", "-DWITH_IPV4_OPTIONS", "--Wdisable", "-o", object, "injector_v1model.p4")
	command.Dir = "../../injector/p4"
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	program, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	linktest.Namespace(t, func() {
		c, w := openSwitch(t)
		c.program = program
		c.Reset()
		w.Check(t, func(f func(switchd.Datapath) error) error { return f(c) })
	})
}

// bmv2 keeps its replication engine when another pipeline is pushed; copies left by our client would add to the new
// ones.
func TestAPushOfAnotherPipelineLeavesNoCopiesOfTheOneBefore(t *testing.T) {
	linktest.Namespace(t, func() {
		c, w := openSwitch(t)
		other := proto.CloneOf(p4.Base().Proto())
		other.PkgInfo = &configpb.PkgInfo{Name: "another"}
		info, err := p4.New(other)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []*p4.Info{p4.Base(), info} {
			session, err := injector.Connect(t.Context(), c.conn,
				injector.Config{Target: "bmv2", DeviceID: deviceID, ElectionLow: 2,
					Pipeline: injector.Pipeline{Info: i, DeviceConfig: p4.BMv2()}})
			if err != nil {
				t.Fatal(err)
			}
			if _, pushed := session.Cookie(); !pushed {
				t.Error("no pipeline was pushed")
			}
			setup := injector.Setup{FloodPorts: []uint16{0, 1},
				Mirrors: []injector.Mirror{{Port: 2, Weight: 1}, {Port: 3, Weight: 1}}}
			if i == info {
				session.Close()
				break // pushed; the earlier setup must be gone
			}
			if _, err := session.Program(t.Context(), setup, nil, nil); err != nil {
				t.Fatal(err)
			}
			session.Close()
		}
		// wait until we are the primary controller again
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			group := &p4pb.MulticastGroupEntry{MulticastGroupId: 77}
			err := c.write(p4pb.Update_DELETE,
				&p4pb.Entity{Entity: &p4pb.Entity_PacketReplicationEngineEntry{
					PacketReplicationEngineEntry: &p4pb.PacketReplicationEngineEntry{
						Type: &p4pb.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: group}}}})
			if err != nil && strings.Contains(err.Error(), "NotFound") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		w.Check(t, func(f func(switchd.Datapath) error) error { return f(c) })
	})
}

func TestBMv2IsProgrammedWithAThousandEntriesInTime(t *testing.T) {
	linktest.Namespace(t, func() {
		c, _ := openSwitch(t)
		var updates []*p4pb.Update
		for _, e := range datapathtest.Crowd(500) {
			updates = append(updates, &p4pb.Update{Type: p4pb.Update_INSERT, Entity: entry(&p4pb.TableEntry{TableId: e.Table,
				Match: p4.Base().Table(e.Table).Match(e.Key), Action: p4.Base().TableAction(e.Action)})})
		}
		started := time.Now()
		_, err := c.rpc.Write(t.Context(), &p4pb.WriteRequest{DeviceId: deviceID, ElectionId: election(), Updates: updates})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d entries: %v (target 2 s)", len(updates), time.Since(started).Round(time.Millisecond))
	})
}
