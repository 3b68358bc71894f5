package trace

import "context"

// Incomplete returns a mirror trace without integrity for display only: as a plain capture, whose gaps and events prove
// nothing. Packets keep their mirror sequence numbers.
func Incomplete(ctx context.Context, src Source, o Options) (*Checked, error) {
	if o.Format == FormatAuto {
		d, err := Detect(ctx, src)
		if err != nil {
			return nil, err
		}
		o.Format = d.Format
	}
	s := newScan(src, o)
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	meta, err := s.meta()
	if err != nil {
		return nil, err
	}
	meta.Kind, meta.EventsKnown = KindPlain, false
	meta.Notes = append(meta.Notes, "mirror copies are missing: nothing can be concluded from what is not there")
	return &Checked{meta: meta, stream: s.stream(meta), payloads: s.payloads(meta)}, nil
}
