package switchd

import (
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
)

func checkCounterData(d *p4pb.CounterData) error {
	if d.GetPacketCount() < 0 || d.GetByteCount() < 0 {
		return invalid("a counter can't be negative")
	}
	return nil
}

func (s *Server) writeDirectCounter(op p4pb.Update_Type, d *p4pb.DirectCounterEntry, undo *undoLog) error {
	if op != p4pb.Update_MODIFY {
		return invalid("direct counters can only be modified")
	}
	t, k, err := s.directCounter(d.GetTableEntry())
	if err != nil {
		return err
	}
	if err := checkCounterData(d.GetData()); err != nil {
		return err
	}
	before := s.cfg.Datapath.Hits(t.info.ID, k)
	s.setHits(t, k, d.GetData())
	undo.add(func() { s.cfg.Datapath.SetHits(t.info.ID, k, before) })
	return nil
}

// directCounter finds the existing entry whose direct counter te names.
func (s *Server) directCounter(te *p4pb.TableEntry) (*tableState, p4.Key, error) {
	t, err := s.table(te.GetTableId())
	if err != nil {
		return nil, p4.Key{}, err
	}
	if t.info.DirectCounter == 0 {
		return nil, p4.Key{}, invalid("table %q has no direct counter", t.info.Name)
	}
	k, err := t.info.ParseMatch(te.GetMatch())
	if err != nil {
		return nil, k, err
	}
	if t.entries[k] == nil {
		return nil, k, status.Errorf(codes.NotFound, "table %q has no such entry", t.info.Name)
	}
	return t, k, nil
}

func (s *Server) writeCounter(op p4pb.Update_Type, c *p4pb.CounterEntry, undo *undoLog) error {
	if op != p4pb.Update_MODIFY {
		return invalid("counters can only be modified")
	}
	info, first, last, err := s.counterCells(c)
	if err != nil {
		return err
	}
	if err := checkCounterData(c.GetData()); err != nil {
		return err
	}
	if c.GetData() == nil {
		return nil
	}
	for i := first; i <= last; i++ {
		packets, bytes := s.cfg.Datapath.Counter(info.ID, i)
		undo.add(func() { s.cfg.Datapath.SetCounter(info.ID, i, packets, bytes) })
		s.cfg.Datapath.SetCounter(info.ID, i, uint64(c.GetData().GetPacketCount()), uint64(c.GetData().GetByteCount()))
	}
	return nil
}

// counterCells returns the cells that c names: one, or all if it has no index.
func (s *Server) counterCells(c *p4pb.CounterEntry) (info *p4.Counter, first, last int, err error) {
	info = s.active.info.Counter(c.GetCounterId())
	switch {
	case info == nil:
		return nil, 0, 0, invalid("there is no counter with id %d", c.GetCounterId())
	case c.GetIndex() == nil:
		return info, 0, info.Size - 1, nil
	case c.GetIndex().GetIndex() < 0:
		return nil, 0, 0, invalid("counter %q: index %d is negative", info.Name, c.GetIndex().GetIndex())
	case c.GetIndex().GetIndex() >= int64(info.Size):
		return nil, 0, 0, status.Errorf(codes.OutOfRange, "counter %q: index %d is past the last (%d)", info.Name,
			c.GetIndex().GetIndex(), info.Size-1)
	}
	i := int(c.GetIndex().GetIndex())
	return info, i, i, nil
}
