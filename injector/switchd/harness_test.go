package switchd_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const device = 1

// rig is a server over bufconn with a P4Runtime client that speaks for itself.
type rig struct {
	p4pb.P4RuntimeClient
	pipe   *pipeline.Pipeline
	server *switchd.Server
}

func start(tb testing.TB, cfg switchd.Config) *rig {
	tb.Helper()
	pipe, err := pipeline.New(pipeline.Config{Ports: 8})
	if err != nil {
		tb.Fatal(err)
	}
	cfg.DeviceID, cfg.Datapath = device, pipe
	server, err := switchd.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	lis := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, lis) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			tb.Errorf("serve: %v", err)
		}
		conn.Close()
	})
	return &rig{p4pb.NewP4RuntimeClient(conn), pipe, server}
}

// stream is a controller's session.
type stream struct {
	tb testing.TB
	p4pb.P4Runtime_StreamChannelClient
}

func (r *rig) open(tb testing.TB) *stream {
	tb.Helper()
	s, err := r.StreamChannel(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return &stream{tb, s}
}

func (s *stream) arbitrate(m *p4pb.MasterArbitrationUpdate) {
	s.tb.Helper()
	err := s.Send(&p4pb.StreamMessageRequest{Update: &p4pb.StreamMessageRequest_Arbitration{Arbitration: m}})
	if err != nil && !errors.Is(err, io.EOF) {
		s.tb.Fatal(err)
	}
}

// bid asks for an election id, 0 for an unset one.
func (s *stream) bid(low uint64) {
	s.tb.Helper()
	m := &p4pb.MasterArbitrationUpdate{DeviceId: device}
	if low != 0 {
		m.ElectionId = &p4pb.Uint128{Low: low}
	}
	s.arbitrate(m)
}

// expect waits for an arbitration message.
func (s *stream) expect(code codes.Code, highest uint64) {
	s.tb.Helper()
	m, err := s.Recv()
	if err != nil {
		s.tb.Fatal(err)
	}
	a := m.GetArbitration()
	if codes.Code(a.GetStatus().GetCode()) != code || a.GetElectionId().GetLow() != highest {
		s.tb.Errorf("told %v with highest election id %d, want %v with %d", codes.Code(a.GetStatus().GetCode()),
			a.GetElectionId().GetLow(), code, highest)
	}
}

// expectEnd waits for the server to end the stream.
func (s *stream) expectEnd(code codes.Code) {
	s.tb.Helper()
	if m, err := s.Recv(); status.Code(err) != code {
		s.tb.Errorf("stream goes on with %v, %v, want %v", m, err, code)
	}
}

// primary makes the rig's client primary with election id 1.
func (r *rig) primary(tb testing.TB) {
	tb.Helper()
	s := r.open(tb)
	s.bid(1)
	s.expect(codes.OK, 1)
}

// commit pushes the base pipeline.
func (r *rig) commit(tb testing.TB) {
	tb.Helper()
	if err := r.push(tb, p4pb.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, config(p4.Base(), 42)); err != nil {
		tb.Fatal(err)
	}
}

func config(info *p4.Info, cookie uint64) *p4pb.ForwardingPipelineConfig {
	return &p4pb.ForwardingPipelineConfig{P4Info: info.Proto(), P4DeviceConfig: []byte("program"),
		Cookie: &p4pb.ForwardingPipelineConfig_Cookie{Cookie: cookie}}
}

func (r *rig) push(tb testing.TB, action p4pb.SetForwardingPipelineConfigRequest_Action,
	c *p4pb.ForwardingPipelineConfig) error {
	tb.Helper()
	_, err := r.SetForwardingPipelineConfig(tb.Context(), &p4pb.SetForwardingPipelineConfigRequest{
		DeviceId: device, ElectionId: &p4pb.Uint128{Low: 1}, Action: action, Config: c})
	return err
}

func (r *rig) write(tb testing.TB, atomicity p4pb.WriteRequest_Atomicity, updates ...*p4pb.Update) error {
	tb.Helper()
	_, err := r.Write(tb.Context(),
		&p4pb.WriteRequest{DeviceId: device, ElectionId: &p4pb.Uint128{Low: 1}, Updates: updates,
			Atomicity: atomicity})
	return err
}

// codesOf returns the codes of a batch's p4.v1.Error details.
func codesOf(tb testing.TB, err error) []codes.Code {
	tb.Helper()
	st := status.Convert(err)
	if st.Code() != codes.Unknown {
		tb.Errorf("batch status %v, want UNKNOWN with details", err)
	}
	var out []codes.Code
	for _, d := range st.Details() {
		e, ok := d.(*p4pb.Error)
		if !ok {
			tb.Fatalf("a detail is %T", d)
		}
		if e.GetCanonicalCode() != 0 && e.GetMessage() == "" {
			tb.Error("an error without message")
		}
		out = append(out, codes.Code(e.GetCanonicalCode()))
	}
	return out
}

func (r *rig) readAll(tb testing.TB, requests ...*p4pb.Entity) ([]*p4pb.Entity, error) {
	tb.Helper()
	s, err := r.Read(tb.Context(), &p4pb.ReadRequest{DeviceId: device, Entities: requests})
	if err != nil {
		tb.Fatal(err)
	}
	var out []*p4pb.Entity
	for {
		resp, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, err
		}
		out = append(out, resp.GetEntities()...)
	}
}

func tableEntity(te *p4pb.TableEntry) *p4pb.Entity {
	return &p4pb.Entity{Entity: &p4pb.Entity_TableEntry{TableEntry: te}}
}

// eventEntry returns an entry of table event.
func eventEntry(psn uint64, action uint32) *p4pb.TableEntry {
	return &p4pb.TableEntry{TableId: p4.TableEvent, Match: p4.Base().Table(p4.TableEvent).Match(p4.KeyOf(0, 0, psn, 1)),
		Action: p4.Base().TableAction(p4.NewAction(action))}
}

func update(op p4pb.Update_Type, e *p4pb.Entity) *p4pb.Update {
	return &p4pb.Update{Type: op, Entity: e}
}

func insertEvent(psn uint64) *p4pb.Update {
	return update(p4pb.Update_INSERT, tableEntity(eventEntry(psn, p4.ActionDrop)))
}

func clone(id uint32, edit func(*p4pb.CloneSessionEntry)) *p4pb.Entity {
	e := &p4pb.CloneSessionEntry{SessionId: id, Replicas: []*p4pb.Replica{{PortKind: &p4pb.Replica_Port{Port: []byte{3}}}}}
	if edit != nil {
		edit(e)
	}
	return &p4pb.Entity{Entity: &p4pb.Entity_PacketReplicationEngineEntry{
		PacketReplicationEngineEntry: &p4pb.PacketReplicationEngineEntry{
			Type: &p4pb.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: e}}}}
}

func group(id uint32, ports ...byte) *p4pb.Entity {
	e := &p4pb.MulticastGroupEntry{MulticastGroupId: id}
	for i, p := range ports {
		e.Replicas = append(e.Replicas, &p4pb.Replica{PortKind: &p4pb.Replica_Port{Port: []byte{p}}, Instance: uint32(i)})
	}
	return &p4pb.Entity{Entity: &p4pb.Entity_PacketReplicationEngineEntry{
		PacketReplicationEngineEntry: &p4pb.PacketReplicationEngineEntry{
			Type: &p4pb.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: e}}}}
}

func counter(id uint32, index int64, data *p4pb.CounterData) *p4pb.Entity {
	return &p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{CounterId: id,
		Index: &p4pb.Index{Index: index}, Data: data}}}
}
