package switchd

import (
	"cmp"
	"slices"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
)

// entry is a table entry as its controller wrote it.
type entry struct {
	key      p4.Key
	action   p4.Action
	cookie   uint64 // controller_metadata
	metadata []byte
	order    uint64 // of insertion
}

// tableState is a table's contents.
type tableState struct {
	info    *p4.Table
	entries map[p4.Key]*entry
	def     entry // the default entry; its key means nothing
}

func newTableState(t *p4.Table) *tableState {
	return &tableState{info: t, entries: map[p4.Key]*entry{}, def: entry{action: t.InitialDefault}}
}

// inOrder returns the entries as they were inserted, so that reads are deterministic.
func (t *tableState) inOrder() []*entry {
	out := make([]*entry, 0, len(t.entries))
	for _, e := range t.entries {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *entry) int { return cmp.Compare(a.order, b.order) })
	return out
}

// survives reports what of t could not live on under another P4Info.
func (t *tableState) survives(info *p4.Info) error {
	next := info.Table(t.info.ID)
	if next == nil {
		if len(t.entries) > 0 || t.def.action != t.info.InitialDefault {
			return invalid("table %q is in use and not part of the new config", t.info.Name)
		}
		return nil
	}
	if len(t.entries) > next.Size {
		return invalid("table %q holds %d entries, the new config has room for %d", t.info.Name, len(t.entries), next.Size)
	}
	for _, e := range append(t.inOrder(), &t.def) {
		if next.Offers(e.action.ID) == nil {
			return invalid("table %q uses action %d, which is not part of the new config", t.info.Name, e.action.ID)
		}
	}
	return nil
}

// table returns the state of a table of the active config.
func (s *Server) table(id uint32) (*tableState, error) {
	if t := s.tables[id]; t != nil {
		return t, nil
	}
	return nil, invalid("there is no table with id %d", id)
}

// tableIDs returns the ids of the active config's tables in the order of its P4Info.
func (s *Server) tableIDs() []uint32 {
	var ids []uint32
	for _, t := range s.active.info.Tables() {
		ids = append(ids, t.ID)
	}
	return ids
}

func (s *Server) writeTable(op p4pb.Update_Type, te *p4pb.TableEntry, undo *undoLog) error {
	t, err := s.table(te.GetTableId())
	if err != nil {
		return err
	}
	if te.GetIsDefaultAction() {
		return s.writeDefault(t, op, te, undo)
	}
	k, err := t.info.ParseMatch(te.GetMatch())
	if err != nil {
		return err
	}
	if op == p4pb.Update_DELETE {
		return s.deleteEntry(t, k, undo)
	}
	if err := checkEntry(t.info, te); err != nil {
		return err
	}
	if op == p4pb.Update_INSERT {
		return s.insertEntry(t, k, te, undo)
	}
	return s.modifyEntry(t, k, te, undo)
}

// checkEntry refuses what the contract's tables don't have.
func checkEntry(t *p4.Table, te *p4pb.TableEntry) error {
	switch {
	case te.GetPriority() != 0:
		return invalid("table %q has exact matches only: the priority must be 0", t.Name)
	case te.GetIsConst():
		return invalid("is_const may not be written")
	case te.GetIdleTimeoutNs() != 0:
		return invalid("table %q has no idle timeout", t.Name)
	case te.GetMeterConfig() != nil || te.GetMeterCounterData() != nil:
		return invalid("table %q has no direct meter", t.Name)
	case te.GetCounterData() != nil && t.DirectCounter == 0:
		return invalid("table %q has no direct counter", t.Name)
	}
	return checkCounterData(te.GetCounterData())
}

func (s *Server) insertEntry(t *tableState, k p4.Key, te *p4pb.TableEntry, undo *undoLog) error {
	if t.entries[k] != nil {
		return status.Errorf(codes.AlreadyExists, "table %q already has this entry", t.info.Name)
	}
	if len(t.entries) >= t.info.Size {
		return status.Errorf(codes.ResourceExhausted, "table %q is full (%d entries)", t.info.Name, t.info.Size)
	}
	a, err := t.info.ParseAction(te.GetAction(), false)
	if err != nil {
		return err
	}
	if err := s.cfg.Datapath.Set(t.info.ID, k, a); err != nil {
		return invalid("table %q: %v", t.info.Name, err)
	}
	s.entries++
	t.entries[k] = &entry{key: k, action: a, cookie: te.GetControllerMetadata(), metadata: te.GetMetadata(),
		order: s.entries}
	s.setHits(t, k, te.GetCounterData())
	undo.add(func() {
		s.cfg.Datapath.Unset(t.info.ID, k)
		delete(t.entries, k)
	})
	return nil
}

func (s *Server) modifyEntry(t *tableState, k p4.Key, te *p4pb.TableEntry, undo *undoLog) error {
	e := t.entries[k]
	if e == nil {
		return status.Errorf(codes.NotFound, "table %q has no such entry", t.info.Name)
	}
	before, hits := *e, s.cfg.Datapath.Hits(t.info.ID, k)
	if te.GetAction() != nil {
		a, err := t.info.ParseAction(te.GetAction(), false)
		if err != nil {
			return err
		}
		if err := s.cfg.Datapath.Set(t.info.ID, k, a); err != nil {
			return invalid("table %q: %v", t.info.Name, err)
		}
		e.action = a
	}
	e.cookie, e.metadata = te.GetControllerMetadata(), te.GetMetadata()
	s.setHits(t, k, te.GetCounterData())
	undo.add(func() { s.restore(t, e, before, hits) })
	return nil
}

func (s *Server) deleteEntry(t *tableState, k p4.Key, undo *undoLog) error {
	e := t.entries[k]
	if e == nil {
		return status.Errorf(codes.NotFound, "table %q has no such entry", t.info.Name)
	}
	hits := s.cfg.Datapath.Hits(t.info.ID, k)
	s.cfg.Datapath.Unset(t.info.ID, k)
	delete(t.entries, k)
	undo.add(func() { s.restore(t, e, *e, hits) })
	return nil
}

// restore puts an entry back. The datapath had it before, so Set cannot fail.
func (s *Server) restore(t *tableState, e *entry, before entry, hits uint64) {
	*e = before
	t.entries[e.key] = e
	_ = s.cfg.Datapath.Set(t.info.ID, e.key, e.action)
	s.cfg.Datapath.SetHits(t.info.ID, e.key, hits)
}

// writeDefault changes a default entry; without an action it returns to that of the P4 program (P4Runtime 9.1.3).
func (s *Server) writeDefault(t *tableState, op p4pb.Update_Type, te *p4pb.TableEntry, undo *undoLog) error {
	switch {
	case op != p4pb.Update_MODIFY:
		return invalid("the default entry of table %q can only be modified", t.info.Name)
	case len(te.GetMatch()) > 0:
		return invalid("a default entry has no match")
	case te.GetCounterData() != nil:
		return unimplemented("default entries have no direct counter")
	}
	if err := checkEntry(t.info, te); err != nil {
		return err
	}
	next := entry{action: t.info.InitialDefault}
	if te.GetAction() != nil {
		a, err := t.info.ParseAction(te.GetAction(), true)
		if err != nil {
			return err
		}
		next = entry{action: a, cookie: te.GetControllerMetadata(), metadata: te.GetMetadata()}
	}
	if err := s.cfg.Datapath.SetDefault(t.info.ID, next.action); err != nil {
		return invalid("table %q: %v", t.info.Name, err)
	}
	before := t.def
	t.def = next
	undo.add(func() {
		t.def = before
		_ = s.cfg.Datapath.SetDefault(t.info.ID, before.action) // was in force before
	})
	return nil
}

func (s *Server) setHits(t *tableState, k p4.Key, data *p4pb.CounterData) {
	if data != nil {
		s.cfg.Datapath.SetHits(t.info.ID, k, uint64(data.GetPacketCount()))
	}
}

// flushInjection deletes events and closes the mirror gate; forwarding, connections and sessions stay.
func (s *Server) flushInjection() {
	if s.active == nil {
		return
	}
	for _, id := range []uint32{p4.TableEvent, p4.TableEventAny, p4.TableControlEvent, p4.TableWatch, p4.TableWatchedEvent,
		p4.TableMirrorSlot} {
		t := s.tables[id]
		if t == nil {
			continue
		}
		for k := range t.entries {
			s.cfg.Datapath.Unset(id, k)
		}
		clear(t.entries)
	}
	if t := s.tables[p4.TableMirror]; t != nil {
		t.def = entry{action: t.info.InitialDefault}
		_ = s.cfg.Datapath.SetDefault(p4.TableMirror, t.def.action) // the initial state of every datapath
	}
}
