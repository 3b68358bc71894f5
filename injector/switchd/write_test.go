package switchd_test

import (
	"slices"
	"testing"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/switchd"
)

const (
	insert = p4pb.Update_INSERT
	modify = p4pb.Update_MODIFY
	remove = p4pb.Update_DELETE
)

// edited returns an entry of table event, changed.
func edited(edit func(*p4pb.TableEntry)) *p4pb.Entity {
	te := eventEntry(1000, p4.ActionDrop)
	edit(te)
	return tableEntity(te)
}

func defaultEntry(table uint32, a p4.Action) *p4pb.Entity {
	return tableEntity(&p4pb.TableEntry{TableId: table, IsDefaultAction: true, Action: p4.Base().TableAction(a)})
}

func directCounter(psn uint64, packets int64) *p4pb.Entity {
	return &p4pb.Entity{Entity: &p4pb.Entity_DirectCounterEntry{DirectCounterEntry: &p4pb.DirectCounterEntry{
		TableEntry: eventEntry(psn, p4.ActionDrop), Data: &p4pb.CounterData{PacketCount: packets}}}}
}

func TestUpdatesAreJudgedOneByOne(t *testing.T) {
	backup := func(e *p4pb.CloneSessionEntry) {
		e.Replicas[0].BackupReplicas = []*p4pb.BackupReplica{{Port: []byte{1}}}
	}
	flow := func(id uint64) *p4pb.Entity {
		return tableEntity(&p4pb.TableEntry{TableId: p4.TableConnectionV4,
			Match:  p4.Base().Table(p4.TableConnectionV4).Match(p4.KeyOf(1, 2, 3)),
			Action: p4.Base().TableAction(p4.NewAction(p4.ActionSetFlow, id, 1, 1, 1))})
	}
	tests := []struct {
		name   string
		update *p4pb.Update
		want   codes.Code
	}{
		{"insert", insertEvent(1), codes.OK},
		{"insert again", insertEvent(1), codes.AlreadyExists},
		{"modify", update(modify, tableEntity(eventEntry(1, p4.ActionMarkECN))), codes.OK},
		{"modify without action", update(modify,
			tableEntity(&p4pb.TableEntry{TableId: p4.TableEvent, Match: eventEntry(1, 0).Match})), codes.OK},
		{"modify what is not there", update(modify, tableEntity(eventEntry(2, p4.ActionDrop))), codes.NotFound},
		{"delete what is not there", update(remove, tableEntity(eventEntry(2, p4.ActionDrop))), codes.NotFound},
		{"delete ignores all but the key", update(remove, tableEntity(&p4pb.TableEntry{TableId: p4.TableEvent,
			Match: eventEntry(1, 0).Match, Priority: 7, Action: &p4pb.TableAction{}})), codes.OK},
		{"no update type", update(0, tableEntity(eventEntry(3, p4.ActionDrop))), codes.InvalidArgument},
		{"no entity", update(insert, nil), codes.InvalidArgument},
		{"a register", update(modify, &p4pb.Entity{Entity: &p4pb.Entity_RegisterEntry{}}), codes.Unimplemented},
		{"an unknown table", update(insert, edited(func(te *p4pb.TableEntry) { te.TableId = 5 })), codes.InvalidArgument},
		{"a priority", update(insert, edited(func(te *p4pb.TableEntry) { te.Priority = 1 })), codes.InvalidArgument},
		{"a constant entry", update(insert, edited(func(te *p4pb.TableEntry) { te.IsConst = true })), codes.InvalidArgument},
		{"an idle timeout", update(insert, edited(func(te *p4pb.TableEntry) { te.IdleTimeoutNs = 1 })),
			codes.InvalidArgument},
		{"a meter", update(insert, edited(func(te *p4pb.TableEntry) { te.MeterConfig = &p4pb.MeterConfig{} })),
			codes.InvalidArgument},
		{"no action", update(insert, edited(func(te *p4pb.TableEntry) { te.Action = nil })), codes.InvalidArgument},
		{"a negative counter", update(insert, edited(func(te *p4pb.TableEntry) {
			te.CounterData = &p4pb.CounterData{PacketCount: -1}
		})), codes.InvalidArgument},
		{"a flow without registers", update(insert, flow(4096)), codes.InvalidArgument},
		{"a flow", update(insert, flow(4095)), codes.OK},
		{"insert of a default entry", update(insert, defaultEntry(p4.TableMirror, p4.NewAction(p4.ActionOpen, 1))),
			codes.InvalidArgument},
		{"a default entry", update(modify, defaultEntry(p4.TableMirror, p4.NewAction(p4.ActionOpen, 1))), codes.OK},
		{"a default that the datapath refuses", update(modify, defaultEntry(p4.TableMirror, p4.NewAction(p4.ActionOpen, 0))),
			codes.InvalidArgument},
		{"an entry of a keyless table", update(insert, tableEntity(&p4pb.TableEntry{TableId: p4.TableMirror,
			Action: p4.Base().TableAction(p4.NewAction(p4.ActionOpen, 1))})), codes.InvalidArgument},
		{"a clone session", update(insert, clone(4, nil)), codes.OK},
		{"the clone session again", update(insert, clone(4, nil)), codes.AlreadyExists},
		{"clone session 0", update(insert, clone(0, nil)), codes.InvalidArgument},
		{"a truncating clone session",
			update(insert, clone(5, func(e *p4pb.CloneSessionEntry) { e.PacketLengthBytes = 128 })), codes.Unimplemented},
		{"a class of service", update(insert, clone(5, func(e *p4pb.CloneSessionEntry) { e.ClassOfService = 1 })),
			codes.Unimplemented},
		{"backup replicas", update(insert, clone(5, backup)), codes.Unimplemented},
		{"a clone session past the counters", update(insert, clone(1024, nil)), codes.InvalidArgument},
		{"a deleted clone session", update(remove, clone(6, nil)), codes.NotFound},
		{"a replica port too wide", update(insert, clone(5, func(e *p4pb.CloneSessionEntry) {
			e.Replicas[0].PortKind = &p4pb.Replica_EgressPort{EgressPort: 512}
		})), codes.OutOfRange},
		{"a multicast group", update(insert, group(1, 0, 1)), codes.OK},
		{"a group on a port that does not exist", update(modify, group(1, 9)), codes.InvalidArgument},
		{"a changed multicast group", update(modify, group(1, 0, 1, 2)), codes.OK},
		{"a multicast group that does not exist", update(modify, group(2, 0)), codes.NotFound},
		{"an empty replication entry", update(insert, &p4pb.Entity{Entity: &p4pb.Entity_PacketReplicationEngineEntry{}}),
			codes.InvalidArgument},
		{"a counter", update(modify, counter(p4.CounterRoCERx, 3, &p4pb.CounterData{PacketCount: 7})), codes.OK},
		{"insert of a counter", update(insert, counter(p4.CounterRoCERx, 3, nil)), codes.InvalidArgument},
		{"a counter past the last", update(modify, counter(p4.CounterRoCERx, 512, nil)), codes.OutOfRange},
		{"a negative index", update(modify, counter(p4.CounterRoCERx, -1, nil)), codes.InvalidArgument},
		{"an unknown counter", update(modify, counter(77, 0, nil)), codes.InvalidArgument},
		{"the direct counter of no entry", update(modify, directCounter(1, 5)), codes.NotFound},
		{"insert of a direct counter", update(insert, directCounter(1, 5)), codes.InvalidArgument},
	}
	r := start(t, switchd.Config{})
	r.primary(t)
	r.commit(t)
	var updates []*p4pb.Update
	for _, tt := range tests {
		updates = append(updates, tt.update)
	}
	got := codesOf(t, r.write(t, p4pb.WriteRequest_CONTINUE_ON_ERROR, updates...))
	if len(got) != len(tests) {
		t.Fatalf("%d details for %d updates", len(got), len(tests))
	}
	for i, tt := range tests {
		if got[i] != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got[i], tt.want)
		}
	}
}

func TestAFullTableSaysSo(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	r.commit(t)
	size := p4.Base().Table(p4.TableEvent).Size
	var updates []*p4pb.Update
	for psn := range size {
		updates = append(updates, insertEvent(uint64(psn)))
	}
	if err := r.write(t, 0, updates...); err != nil {
		t.Fatal(err)
	}
	if got := codesOf(t, r.write(t, 0, insertEvent(uint64(size)))); got[0] != codes.ResourceExhausted {
		t.Errorf("one more: %v", got)
	}
	if n := r.events(t); n != size {
		t.Errorf("%d entries are read back, want %d", n, size)
	}
}

func TestAnAtomicBatchIsAppliedAsAWholeOrNotAtAll(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	r.commit(t)
	setUp := []*p4pb.Update{insertEvent(1), insertEvent(2), update(insert, clone(1, nil)), update(insert, group(1, 0)),
		update(modify, directCounter(2, 9)), update(modify, counter(p4.CounterRoCETx, 1, &p4pb.CounterData{PacketCount: 4}))}
	if err := r.write(t, p4pb.WriteRequest_ROLLBACK_ON_ERROR, setUp...); err != nil {
		t.Fatal(err)
	}
	before := r.everything(t)
	batch := []*p4pb.Update{
		insertEvent(3), update(remove, tableEntity(eventEntry(2, 0))),
		update(modify, tableEntity(eventEntry(1, p4.ActionMarkECN))),
		update(modify,
			clone(1, func(e *p4pb.CloneSessionEntry) { e.Replicas[0].PortKind = &p4pb.Replica_Port{Port: []byte{5}} })),
		update(remove, group(1)), update(insert, clone(2, nil)), insertEvent(2), update(modify, directCounter(1, 3)),
		update(modify, counter(p4.CounterRoCETx, 1, &p4pb.CounterData{})),
		update(modify, defaultEntry(p4.TableMirror, p4.NewAction(p4.ActionOpen, 1))),
		insertEvent(1), // fails
		insertEvent(4),
	}
	for _, atomicity := range []p4pb.WriteRequest_Atomicity{p4pb.WriteRequest_ROLLBACK_ON_ERROR,
		p4pb.WriteRequest_DATAPLANE_ATOMIC} {
		got := codesOf(t, r.write(t, atomicity, batch...))
		want := slices.Repeat([]codes.Code{codes.Aborted}, len(batch))
		want[10] = codes.AlreadyExists
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", atomicity, got, want)
		}
		equalEntities(t, r.everything(t), before)
	}
	if err := r.write(t, 7, insertEvent(9)); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown atomicity: %v", err)
	}
}
