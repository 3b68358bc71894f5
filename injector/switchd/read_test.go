package switchd_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
)

// everything reads all the state that the server serves.
func (r *rig) everything(t *testing.T) []*p4pb.Entity {
	t.Helper()
	defaults := []*p4pb.Entity{}
	for _, table := range p4.Base().Tables() {
		defaults = append(defaults, tableEntity(&p4pb.TableEntry{TableId: table.ID, IsDefaultAction: true}))
	}
	out, err := r.readAll(t, append(defaults, tableEntity(&p4pb.TableEntry{}), clone(0, nil), group(0),
		&p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{}}},
		&p4pb.Entity{Entity: &p4pb.Entity_DirectCounterEntry{DirectCounterEntry: &p4pb.DirectCounterEntry{}}})...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func equalEntities(t *testing.T, got, want []*p4pb.Entity) {
	t.Helper()
	if proto.Equal(&p4pb.ReadResponse{Entities: got}, &p4pb.ReadResponse{Entities: want}) {
		return // fast path; protocmp takes seconds for thousands of counters
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("entities (-want +got):\n%s", diff)
	}
}

func TestReadsSelectAndReturnWhatWasWritten(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	r.commit(t)
	first, second := eventEntry(1, p4.ActionDrop), eventEntry(2, p4.ActionMarkECN)
	first.Metadata, second.ControllerMetadata = []byte("mine"), 77
	deflt := &p4pb.TableEntry{TableId: p4.TableL2Forward, IsDefaultAction: true,
		Action: p4.Base().TableAction(p4.NewAction(p4.ActionForward, 2))}
	err := r.write(t, 0, update(insert, tableEntity(second)), update(insert, tableEntity(first)),
		update(modify, tableEntity(deflt)),
		update(insert, clone(9, nil)), update(insert, clone(3, nil)), update(insert, group(1, 4, 5)),
		update(modify, directCounter(2, 6)),
		update(modify, counter(p4.CounterMirrored, 9, &p4pb.CounterData{PacketCount: 2, ByteCount: 300})))
	if err != nil {
		t.Fatal(err)
	}
	ofEvent := func(edit func(*p4pb.TableEntry)) *p4pb.Entity {
		te := &p4pb.TableEntry{TableId: p4.TableEvent}
		edit(te)
		return tableEntity(te)
	}
	counted := &p4pb.TableEntry{TableId: p4.TableEvent, Match: second.Match, Action: second.Action, ControllerMetadata: 77,
		CounterData: &p4pb.CounterData{PacketCount: 6}}
	tests := []struct {
		name string
		ask  *p4pb.Entity
		want []*p4pb.Entity
	}{
		{"all tables, in the order of insertion", tableEntity(&p4pb.TableEntry{}),
			[]*p4pb.Entity{tableEntity(second), tableEntity(first)}},
		{"one table", ofEvent(func(*p4pb.TableEntry) {}), []*p4pb.Entity{tableEntity(second), tableEntity(first)}},
		{"another table", tableEntity(&p4pb.TableEntry{TableId: p4.TableWatch}), nil},
		{"one key, with its counter", ofEvent(func(te *p4pb.TableEntry) {
			te.Match, te.CounterData = second.Match, &p4pb.CounterData{}
		}), []*p4pb.Entity{tableEntity(counted)}},
		{"one action", ofEvent(func(te *p4pb.TableEntry) { te.Action = first.Action }), []*p4pb.Entity{tableEntity(first)}},
		{"one cookie", ofEvent(func(te *p4pb.TableEntry) { te.ControllerMetadata = 77 }),
			[]*p4pb.Entity{tableEntity(second)}},
		{"one metadata", ofEvent(func(te *p4pb.TableEntry) { te.Metadata = []byte("mine") }),
			[]*p4pb.Entity{tableEntity(first)}},
		{"a priority, which none has", ofEvent(func(te *p4pb.TableEntry) { te.Priority = 1 }), nil},
		{"a default entry", tableEntity(&p4pb.TableEntry{TableId: p4.TableL2Forward, IsDefaultAction: true}),
			[]*p4pb.Entity{tableEntity(deflt)}},
		{"all clone sessions, by id", clone(0, nil), []*p4pb.Entity{clone(3, nil), clone(9, nil)}},
		{"one clone session", clone(9, nil), []*p4pb.Entity{clone(9, nil)}},
		{"no such clone session", clone(4, nil), nil},
		{"all multicast groups", group(0), []*p4pb.Entity{group(1, 4, 5)}},
		{"one counter cell", counter(p4.CounterMirrored, 9, nil),
			[]*p4pb.Entity{counter(p4.CounterMirrored, 9, &p4pb.CounterData{PacketCount: 2, ByteCount: 300})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.readAll(t, tt.ask)
			if err != nil {
				t.Fatal(err)
			}
			equalEntities(t, got, tt.want)
		})
	}
	if got := len(r.everything(t)); got != 11+2+2+1+512*3+1024+2 {
		t.Errorf("reading everything returns %d entities", got)
	}
}

func TestBadReadsAreReportedBesideTheGoodOnes(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	if _, err := r.readAll(t, tableEntity(&p4pb.TableEntry{})); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("before the first config: %v", err)
	}
	r.commit(t)
	if err := r.write(t, 0, insertEvent(1)); err != nil {
		t.Fatal(err)
	}
	direct := func(te *p4pb.TableEntry) *p4pb.Entity {
		entry := &p4pb.DirectCounterEntry{TableEntry: te}
		return &p4pb.Entity{Entity: &p4pb.Entity_DirectCounterEntry{DirectCounterEntry: entry}}
	}
	got, err := r.readAll(t, tableEntity(&p4pb.TableEntry{TableId: 5}),
		tableEntity(&p4pb.TableEntry{TableId: p4.TableEvent}),
		&p4pb.Entity{}, &p4pb.Entity{Entity: &p4pb.Entity_RegisterEntry{}}, counter(p4.CounterRoCERx, 512, nil),
		direct(eventEntry(7, 0)), direct(&p4pb.TableEntry{TableId: p4.TableWatch}),
		direct(&p4pb.TableEntry{TableId: p4.TableEvent}),
		direct(&p4pb.TableEntry{TableId: 5}))
	want := []codes.Code{codes.InvalidArgument, codes.OK, codes.InvalidArgument, codes.Unimplemented, codes.OutOfRange,
		codes.NotFound, codes.InvalidArgument, codes.OK, codes.InvalidArgument}
	if codes := codesOf(t, err); !slices.Equal(codes, want) {
		t.Errorf("codes %v, want %v", codes, want)
	}
	if len(got) != 2 {
		t.Errorf("%d entities, want the entry and its counter", len(got))
	}
}

func TestHitsAreReadBack(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	r.commit(t)
	if err := r.write(t, 0, insertEvent(1)); err != nil {
		t.Fatal(err)
	}
	r.server.Do(func() { r.pipe.SetHits(p4.TableEvent, p4.KeyOf(0, 0, 1, 1), 12) })
	got, err := r.readAll(t, directCounter(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	want := directCounter(1, 12)
	want.GetDirectCounterEntry().TableEntry.Action = nil
	equalEntities(t, got, []*p4pb.Entity{want})
}

var _ switchd.Datapath = (*pipeline.Pipeline)(nil)

// A wildcard takes four bytes and selects thousands of counters: a request of 4 MiB could exhaust memory, and viewers
// may read.
func TestOneRequestReadsEverythingAFewTimesAtMost(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	r.commit(t)
	all := &p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{}}}
	one := &p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{CounterId: p4.CounterMirrored,
		Index: &p4pb.Index{Index: 1}}}}
	if _, err := r.readAll(t, all, all); err != nil {
		t.Errorf("twice: %v", err)
	}
	if out, err := r.readAll(t, slices.Repeat([]*p4pb.Entity{one}, 20_000)...); err != nil || len(out) != 20_000 {
		t.Errorf("one cell, many times: %d, %v", len(out), err)
	}
	if out, err := r.readAll(t, slices.Repeat([]*p4pb.Entity{all}, 50)...); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("fifty times: %d entities, %v", len(out), err)
	}
}
