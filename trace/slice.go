package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// SliceOptions select frames that meet all given limits. Zero limits do not limit.
type SliceOptions struct {
	Format      Format       // FormatAuto detects
	Connections *Connections // needed to select by connection
	FirstID     uint64       // records from this id on, in file order
	LastID      uint64       // up to and with the record of this id
	FromNS      int64        // earliest time, from the first packet of the trace
	ToNS        int64        // latest time
	Connection  int
	// Renumber gives the mirror copies of the slice consecutive sequence numbers. Without it a slice by connection has
	// holes and is found incomplete.
	Renumber bool
}

// Slice copies the selected RoCE frames of src, byte for byte, to a pcap on out, and returns how many. Selecting
// nothing is an error.
func Slice(ctx context.Context, src Source, out io.Writer, name string, o SliceOptions) (int64, error) {
	if o.Connection != 0 && (o.Connection < 0 || o.Connection > o.Connections.Len()) {
		return 0, fmt.Errorf("connection %d is out of range (1 to %d)", o.Connection, o.Connections.Len())
	}
	if o.Format == FormatAuto {
		d, err := Detect(ctx, src)
		if err != nil {
			return 0, err
		}
		o.Format = d.Format
	}
	s := &slicer{o: o, dec: NewDecoder(o.Format, o.Connections, false), w: NewPcapWriter(out, name, 0),
		inside: o.FirstID == 0}
	err := src.ForEachFrame(ctx, s.frame)
	if errors.Is(err, errStop) {
		err = nil
	}
	if ferr := s.w.Flush(); err == nil {
		err = ferr
	}
	n := int64(s.w.Packets())
	if err == nil && n == 0 {
		err = fmt.Errorf("%s: no packet matches the selection", src.Name)
	}
	return n, err
}

type slicer struct {
	o      SliceOptions
	dec    *Decoder
	w      *PcapWriter
	inside bool // FirstID was met
	start  int64
	seen   bool
	seq    uint64
}

func (s *slicer) frame(f *Frame) error {
	var r Record
	if s.dec.Decode(f, &r) != nil {
		return nil
	}
	if !s.seen {
		s.seen, s.start = true, r.TimeNS
	}
	s.inside = s.inside || r.ID == s.o.FirstID
	if !s.selects(&r) {
		return nil
	}
	record, err := s.w.Reserve(f.TimeNS, len(f.Data), f.OrigLen)
	if err != nil {
		return err
	}
	copy(record, f.Data)
	if s.o.Renumber && s.o.Format != FormatPlain {
		s.seq++
		putUint48(record[6:12], s.seq)
	}
	if s.o.LastID != 0 && r.ID == s.o.LastID {
		return errStop
	}
	return nil
}

func (s *slicer) selects(r *Record) bool {
	at := r.TimeNS - s.start
	return s.inside &&
		(s.o.FromNS == 0 || at >= s.o.FromNS) && (s.o.ToNS == 0 || at <= s.o.ToNS) &&
		(s.o.Connection == 0 || r.Flow.Connection() == s.o.Connection)
}
