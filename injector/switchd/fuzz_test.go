package switchd

import (
	"testing"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
)

// FuzzWrite decodes arbitrary bytes as a WriteRequest. The server must not panic, and an atomic batch that fails must
// leave no trace in what can be read.
func FuzzWrite(f *testing.F) {
	event := &p4pb.TableEntry{TableId: p4.TableEvent, Match: p4.Base().Table(p4.TableEvent).Match(p4.KeyOf(0, 0, 1, 1)),
		Action: p4.Base().TableAction(p4.NewAction(p4.ActionTrim, 64))}
	open := &p4pb.TableEntry{TableId: p4.TableMirror, IsDefaultAction: true,
		Action: p4.Base().TableAction(p4.NewAction(p4.ActionOpen, 2))}
	session := &p4pb.PacketReplicationEngineEntry{Type: &p4pb.PacketReplicationEngineEntry_CloneSessionEntry{
		CloneSessionEntry: &p4pb.CloneSessionEntry{SessionId: 1, Replicas: []*p4pb.Replica{{Instance: 1}}}}}
	entities := []*p4pb.Entity{
		{Entity: &p4pb.Entity_TableEntry{TableEntry: event}}, {Entity: &p4pb.Entity_TableEntry{TableEntry: open}},
		{Entity: &p4pb.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: session}},
		{Entity: &p4pb.Entity_DirectCounterEntry{DirectCounterEntry: &p4pb.DirectCounterEntry{TableEntry: event}}},
		{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{CounterId: p4.CounterRoCERx,
			Index: &p4pb.Index{Index: 3}, Data: &p4pb.CounterData{PacketCount: 1}}}},
	}
	for _, op := range []p4pb.Update_Type{p4pb.Update_INSERT, p4pb.Update_MODIFY, p4pb.Update_DELETE} {
		req := &p4pb.WriteRequest{Atomicity: p4pb.WriteRequest_ROLLBACK_ON_ERROR}
		for _, e := range entities {
			req.Updates = append(req.Updates, &p4pb.Update{Type: op, Entity: e})
		}
		seed, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	server := fuzzServer(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		req := &p4pb.WriteRequest{}
		if proto.Unmarshal(raw, req) != nil {
			return
		}
		server.reset(server.active)
		req.DeviceId, req.Role, req.ElectionId = 1, "", &p4pb.Uint128{Low: 1}
		before := readEverything(t, server)
		_, err := server.Write(t.Context(), req)
		after := readEverything(t, server)
		if err != nil && req.GetAtomicity() != p4pb.WriteRequest_CONTINUE_ON_ERROR && !proto.Equal(before, after) {
			t.Errorf("a failed atomic batch left %v, before there was %v", after, before)
		}
	})
}

// fuzzServer returns a server with a primary and a pipeline, without gRPC.
func fuzzServer(tb testing.TB) *Server {
	tb.Helper()
	pipe, err := pipeline.New(pipeline.Config{Ports: 4})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := New(Config{DeviceID: 1, Datapath: pipe})
	if err != nil {
		tb.Fatal(err)
	}
	s.arb.primary = &controller{election: &electionID{low: 1}}
	s.reset(&pipelineConfig{pb: &p4pb.ForwardingPipelineConfig{P4Info: p4.Base().Proto()}, info: p4.Base()})
	return s
}

func readEverything(t *testing.T, s *Server) *p4pb.ReadResponse {
	t.Helper()
	req := &p4pb.ReadRequest{DeviceId: 1, Entities: []*p4pb.Entity{
		{Entity: &p4pb.Entity_TableEntry{TableEntry: &p4pb.TableEntry{}}},
		{Entity: &p4pb.Entity_TableEntry{TableEntry: &p4pb.TableEntry{TableId: p4.TableMirror, IsDefaultAction: true}}},
		{Entity: &p4pb.Entity_DirectCounterEntry{DirectCounterEntry: &p4pb.DirectCounterEntry{}}},
		{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{CounterId: p4.CounterRoCERx}}},
		{Entity: &p4pb.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4pb.PacketReplicationEngineEntry{
			Type: &p4pb.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4pb.CloneSessionEntry{}}}}},
		{Entity: &p4pb.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4pb.PacketReplicationEngineEntry{
			Type: &p4pb.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4pb.MulticastGroupEntry{}}}}},
	}}
	entities, err := s.collect(req)
	if err != nil {
		t.Fatal(err)
	}
	return &p4pb.ReadResponse{Entities: entities}
}
