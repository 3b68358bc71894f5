package switchd

import (
	"bytes"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
)

// entitiesPerResponse keeps a response far below gRPC's 4 MB.
const entitiesPerResponse = 1000

// Read returns entities (P4Runtime 13). Valid requests of the batch are answered even if others fail.
func (s *Server) Read(req *p4pb.ReadRequest, stream p4pb.P4Runtime_ReadServer) error {
	entities, err := s.collect(req)
	for len(entities) > 0 {
		n := min(len(entities), entitiesPerResponse)
		if err := stream.Send(&p4pb.ReadResponse{Entities: entities[:n]}); err != nil {
			return err
		}
		entities = entities[n:]
	}
	return err
}

// repeats is how often one request may read everything: a wildcard takes a few bytes and selects megabytes.
const repeats = 4

// present is how many entities the server has, from above.
func (s *Server) present() (n int) {
	for _, t := range s.tables {
		n += 1 + 2*len(t.entries) // the default action; entries and their counters
	}
	for _, c := range s.active.info.Counters() {
		n += c.Size
	}
	return n + len(s.clones) + len(s.groups)
}

// collect reads everything under the lock, so that a slow client can't hold it.
func (s *Server) collect(req *p4pb.ReadRequest) ([]*p4pb.Entity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.GetDeviceId() != s.cfg.DeviceID:
		return nil, s.unknownDevice(req.GetDeviceId())
	case req.GetRole() != "":
		return nil, status.Errorf(codes.NotFound, "role %q: only the default role is served", req.GetRole())
	case s.active == nil:
		return nil, status.Error(codes.FailedPrecondition, "no forwarding pipeline config is set")
	}
	var out []*p4pb.Entity
	outcomes := make([]error, len(req.GetEntities()))
	most := repeats*s.present() + len(req.GetEntities())
	for i, e := range req.GetEntities() {
		found, err := s.read(e)
		out, outcomes[i] = append(out, found...), err
		if len(out) > most {
			return nil, status.Errorf(codes.ResourceExhausted,
				"the request selects everything that the switch has more than %d times over "+
					"(%d of %d requests made): ask for each entity once", repeats, i+1, len(outcomes))
		}
	}
	return out, batchError("read: some requests failed", outcomes)
}

func (s *Server) read(e *p4pb.Entity) ([]*p4pb.Entity, error) {
	switch e := e.GetEntity().(type) {
	case *p4pb.Entity_TableEntry:
		return s.readTable(e.TableEntry)
	case *p4pb.Entity_DirectCounterEntry:
		return s.readDirectCounters(e.DirectCounterEntry)
	case *p4pb.Entity_CounterEntry:
		return s.readCounters(e.CounterEntry)
	case *p4pb.Entity_PacketReplicationEngineEntry:
		return s.readReplication(e.PacketReplicationEngineEntry)
	case nil:
		return nil, invalid("the request has no entity")
	default:
		return nil, unimplemented("entities of type %T are not served", e)
	}
}

// readTable selects entries by table, key, action and metadata; zero values are wildcards (P4Runtime 9.1.6).
func (s *Server) readTable(te *p4pb.TableEntry) ([]*p4pb.Entity, error) {
	var out []*p4pb.Entity
	ids := s.tableIDs()
	if te.GetTableId() != 0 {
		if _, err := s.table(te.GetTableId()); err != nil {
			return nil, err
		}
		ids = []uint32{te.GetTableId()}
	}
	for _, id := range ids {
		t := s.tables[id]
		entries, err := t.matching(te)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			found := s.tableEntry(t, e, te.GetIsDefaultAction(), te.GetCounterData() != nil)
			out = append(out, &p4pb.Entity{Entity: &p4pb.Entity_TableEntry{TableEntry: found}})
		}
	}
	return out, nil
}

// matching returns the entries that a read selects.
func (t *tableState) matching(te *p4pb.TableEntry) ([]*entry, error) {
	if te.GetTableId() == 0 {
		return t.inOrder(), nil // no other filter can be used
	}
	var found []*entry
	switch {
	case te.GetIsDefaultAction():
		found = []*entry{&t.def}
	case len(te.GetMatch()) > 0:
		k, err := t.info.ParseMatch(te.GetMatch())
		if err != nil {
			return nil, err
		}
		if e := t.entries[k]; e != nil {
			found = []*entry{e}
		}
	default:
		found = t.inOrder()
	}
	out := found[:0:0]
	for _, e := range found {
		if e.passes(te) {
			out = append(out, e)
		}
	}
	return out, nil
}

func (e *entry) passes(te *p4pb.TableEntry) bool {
	switch action := te.GetAction().GetAction().GetActionId(); {
	case te.GetPriority() != 0, // no entry has one
		action != 0 && action != e.action.ID,
		te.GetControllerMetadata() != 0 && te.GetControllerMetadata() != e.cookie,
		len(te.GetMetadata()) > 0 && !bytes.Equal(te.GetMetadata(), e.metadata):
		return false
	}
	return true
}

func (s *Server) tableEntry(t *tableState, e *entry, isDefault, withCounter bool) *p4pb.TableEntry {
	out := &p4pb.TableEntry{
		TableId: t.info.ID, Action: t.info.Action(e.action), ControllerMetadata: e.cookie, Metadata: e.metadata,
		IsDefaultAction: isDefault,
	}
	if !isDefault {
		out.Match = t.info.Match(e.key)
	}
	if withCounter && t.info.DirectCounter != 0 {
		out.CounterData = s.hits(t, e.key, isDefault)
	}
	return out
}

func (s *Server) hits(t *tableState, k p4.Key, isDefault bool) *p4pb.CounterData {
	if isDefault {
		return &p4pb.CounterData{}
	}
	return &p4pb.CounterData{PacketCount: int64(s.cfg.Datapath.Hits(t.info.ID, k))}
}

// readDirectCounters returns the counter of one entry, of all entries of a table, or of all tables.
func (s *Server) readDirectCounters(d *p4pb.DirectCounterEntry) ([]*p4pb.Entity, error) {
	te := d.GetTableEntry()
	if len(te.GetMatch()) > 0 {
		t, k, err := s.directCounter(te)
		if err != nil {
			return nil, err
		}
		return []*p4pb.Entity{s.directCounterEntity(t, k)}, nil
	}
	var out []*p4pb.Entity
	for _, id := range s.tableIDs() {
		t := s.tables[id]
		switch {
		case te.GetTableId() == id && t.info.DirectCounter == 0:
			return nil, invalid("table %q has no direct counter", t.info.Name)
		case t.info.DirectCounter == 0, te.GetTableId() != 0 && te.GetTableId() != id:
			continue
		}
		for _, e := range t.inOrder() {
			out = append(out, s.directCounterEntity(t, e.key))
		}
	}
	if _, err := s.table(te.GetTableId()); te.GetTableId() != 0 && err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Server) directCounterEntity(t *tableState, k p4.Key) *p4pb.Entity {
	return &p4pb.Entity{Entity: &p4pb.Entity_DirectCounterEntry{DirectCounterEntry: &p4pb.DirectCounterEntry{
		TableEntry: &p4pb.TableEntry{TableId: t.info.ID, Match: t.info.Match(k)},
		Data:       s.hits(t, k, false),
	}}}
}

// readCounters returns cells of one indirect counter or, without an id, of all.
func (s *Server) readCounters(c *p4pb.CounterEntry) ([]*p4pb.Entity, error) {
	if c.GetCounterId() != 0 {
		return s.readCounter(c)
	}
	var out []*p4pb.Entity
	for _, info := range s.active.info.Counters() {
		cells, err := s.readCounter(&p4pb.CounterEntry{CounterId: info.ID})
		if err != nil {
			return nil, err
		}
		out = append(out, cells...)
	}
	return out, nil
}

func (s *Server) readCounter(c *p4pb.CounterEntry) ([]*p4pb.Entity, error) {
	info, first, last, err := s.counterCells(c)
	if err != nil {
		return nil, err
	}
	out := make([]*p4pb.Entity, 0, last-first+1)
	for i := first; i <= last; i++ {
		packets, bytes := s.cfg.Datapath.Counter(info.ID, i)
		out = append(out, &p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{
			CounterId: info.ID, Index: &p4pb.Index{Index: int64(i)},
			Data: &p4pb.CounterData{PacketCount: int64(packets), ByteCount: int64(bytes)},
		}}})
	}
	return out, nil
}
