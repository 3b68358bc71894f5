package switchd

import (
	"maps"
	"slices"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector/p4"
)

// portBits is the width of port numbers in the contract.
const portBits = 9

func (s *Server) writeReplication(op p4pb.Update_Type, e *p4pb.PacketReplicationEngineEntry, undo *undoLog) error {
	switch t := e.GetType().(type) {
	case *p4pb.PacketReplicationEngineEntry_CloneSessionEntry:
		if t.CloneSessionEntry.GetSessionId() == 0 {
			return invalid("clone session 0 is reserved for reads")
		}
		return writeReplicas(s.clones, s.cfg.Datapath.SetCloneSession, replicaWrite[*p4pb.CloneSessionEntry]{
			op: op, id: t.CloneSessionEntry.GetSessionId(), what: "clone session", entry: t.CloneSessionEntry, check: checkClone,
		}, undo)
	case *p4pb.PacketReplicationEngineEntry_MulticastGroupEntry:
		if t.MulticastGroupEntry.GetMulticastGroupId() == 0 {
			return invalid("multicast group 0 is reserved for reads")
		}
		return writeReplicas(s.groups, s.cfg.Datapath.SetMulticastGroup, replicaWrite[*p4pb.MulticastGroupEntry]{
			op: op, id: t.MulticastGroupEntry.GetMulticastGroupId(), what: "multicast group", entry: t.MulticastGroupEntry,
			check: func(*p4pb.MulticastGroupEntry) error { return nil },
		}, undo)
	}
	return invalid("the packet replication engine entry is empty")
}

// maxReplicators bounds groups and sessions each; it is far above what the contract uses.
const maxReplicators = 1024

// replicated is a clone session or a multicast group.
type replicated interface {
	proto.Message
	GetReplicas() []*p4pb.Replica
}

// replicaWrite is one update of a replicated entity.
type replicaWrite[E replicated] struct {
	op    p4pb.Update_Type
	id    uint32
	what  string
	entry E
	check func(E) error
}

// writeReplicas applies w to entries and, through program, to the datapath.
func writeReplicas[E replicated](entries map[uint32]E, program func(uint32, []uint16) error, w replicaWrite[E],
	undo *undoLog) error {
	before, exists := entries[w.id]
	switch {
	case w.op == p4pb.Update_INSERT && exists:
		return status.Errorf(codes.AlreadyExists, "%s %d already exists", w.what, w.id)
	case w.op != p4pb.Update_INSERT && !exists:
		return status.Errorf(codes.NotFound, "there is no %s %d", w.what, w.id)
	case w.op == p4pb.Update_INSERT && len(entries) >= maxReplicators:
		return status.Errorf(codes.ResourceExhausted, "%d %ss exist, no more are served", len(entries), w.what)
	}
	var ports []uint16
	if w.op != p4pb.Update_DELETE {
		var err error
		if ports, err = replicaPorts(w.entry.GetReplicas()); err != nil {
			return err
		}
		if err := w.check(w.entry); err != nil {
			return err
		}
	}
	if err := program(w.id, ports); err != nil {
		return invalid("%v", err)
	}
	undo.add(func() { restoreReplicas(entries, program, w.id, before, exists) })
	if w.op == p4pb.Update_DELETE {
		delete(entries, w.id)
	} else {
		entries[w.id] = proto.Clone(w.entry).(E)
	}
	return nil
}

// restoreReplicas undoes a write. The datapath had the former ports before, so programming cannot fail.
func restoreReplicas[E replicated](entries map[uint32]E, program func(uint32, []uint16) error, id uint32, before E,
	existed bool) {
	var ports []uint16
	if existed {
		ports, _ = replicaPorts(before.GetReplicas())
		entries[id] = before
	} else {
		delete(entries, id)
	}
	_ = program(id, ports)
}

func checkClone(e *p4pb.CloneSessionEntry) error {
	switch {
	case e.GetPacketLengthBytes() != 0:
		return unimplemented("clone sessions don't truncate: use set_snap of table mirror_egress")
	case e.GetClassOfService() != 0:
		return unimplemented("clone sessions have no class of service")
	}
	return nil
}

// replicaPorts returns the egress ports of replicas, whose (port, instance) pairs must be unique.
func replicaPorts(replicas []*p4pb.Replica) ([]uint16, error) {
	type replica struct{ port, instance uint32 }
	seen := make(map[replica]bool, len(replicas))
	var ports []uint16
	for _, r := range replicas {
		if len(r.GetBackupReplicas()) > 0 {
			return nil, unimplemented("backup replicas are not served")
		}
		port := uint64(r.GetEgressPort())
		if _, ok := r.GetPortKind().(*p4pb.Replica_Port); ok {
			v, err := p4.ParseValue(r.GetPort(), portBits)
			if err != nil {
				return nil, status.Errorf(codes.OutOfRange, "replica port: %v", status.Convert(err).Message())
			}
			port = v.Lo
		}
		if port >= 1<<portBits {
			return nil, status.Errorf(codes.OutOfRange, "replica port %d needs more than %d bits", port, portBits)
		}
		key := replica{uint32(port), r.GetInstance()}
		if seen[key] {
			return nil, invalid("replica (port %d, instance %d) is given twice", port, r.GetInstance())
		}
		seen[key] = true
		ports = append(ports, uint16(port))
	}
	return ports, nil
}

// readReplication returns the sessions or groups of a request, all of them for id 0.
func (s *Server) readReplication(e *p4pb.PacketReplicationEngineEntry) ([]*p4pb.Entity, error) {
	var out []*p4pb.Entity
	add := func(e *p4pb.PacketReplicationEngineEntry) {
		out = append(out, &p4pb.Entity{Entity: &p4pb.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: e}})
	}
	switch t := e.GetType().(type) {
	case *p4pb.PacketReplicationEngineEntry_CloneSessionEntry:
		for _, c := range selected(s.clones, t.CloneSessionEntry.GetSessionId()) {
			add(&p4pb.PacketReplicationEngineEntry{
				Type: &p4pb.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: c},
			})
		}
	case *p4pb.PacketReplicationEngineEntry_MulticastGroupEntry:
		for _, g := range selected(s.groups, t.MulticastGroupEntry.GetMulticastGroupId()) {
			add(&p4pb.PacketReplicationEngineEntry{
				Type: &p4pb.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: g},
			})
		}
	default:
		return nil, invalid("the packet replication engine entry is empty")
	}
	return out, nil
}

// selected returns the entry with an id, or for id 0 all in the order of their ids. Entries are never changed in place,
// so they may be sent after the lock is released.
func selected[E any](entries map[uint32]E, id uint32) []E {
	if e, ok := entries[id]; ok {
		return []E{e}
	}
	var out []E
	if id == 0 {
		for _, id := range slices.Sorted(maps.Keys(entries)) {
			out = append(out, entries[id])
		}
	}
	return out
}
