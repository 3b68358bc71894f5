package trace

import (
	"context"
	"errors"
)

// Around returns, for each id in ids that the trace has, the lines that Show prints for the record with that id and its
// context neighbours on either side. It takes one pass, which ends behind the last id, and memory for what it returns.
func Around(ctx context.Context, c *Checked, ids []uint64, context int) (map[uint64][]string, error) {
	a := &surroundings{p: NewPrinter(c.Meta()), context: context, wanted: map[uint64]bool{}, lines: map[uint64][]string{}}
	for _, id := range ids {
		a.wanted[id] = true
	}
	a.missing = len(a.wanted)
	err := c.ForEach(ctx, a.record)
	if errors.Is(err, errStop) {
		err = nil
	}
	return a.lines, err
}

// surroundings is the pass of Around.
type surroundings struct {
	p       *Printer
	context int
	wanted  map[uint64]bool
	missing int // wanted ids not met yet
	before  []shownRec
	open    []opened
	lines   map[uint64][]string
}

// opened is a wanted record whose later neighbours are still to come.
type opened struct {
	id   uint64
	left int
}

func (a *surroundings) record(r *Record) error {
	iter, rel := a.p.iter.Observe(r)
	rec := shownRec{*r, iter, rel}
	line := ""
	kept := a.open[:0]
	for _, o := range a.open {
		if line == "" {
			line = a.line(&rec)
		}
		a.lines[o.id] = append(a.lines[o.id], line)
		if o.left--; o.left > 0 {
			kept = append(kept, o)
		}
	}
	a.open = kept
	if a.wanted[r.ID] && a.lines[r.ID] == nil {
		a.missing--
		for i := range a.before {
			a.lines[r.ID] = append(a.lines[r.ID], a.line(&a.before[i]))
		}
		a.lines[r.ID] = append(a.lines[r.ID], a.line(&rec))
		if a.context > 0 {
			a.open = append(a.open, opened{r.ID, a.context})
		}
	}
	if a.missing == 0 && len(a.open) == 0 {
		return errStop
	}
	if a.context > 0 {
		if len(a.before) == a.context {
			a.before = append(a.before[:0], a.before[1:]...)
		}
		a.before = append(a.before, rec)
	}
	return nil
}

func (a *surroundings) line(r *shownRec) string { return string(a.p.append(nil, &r.r, r.iter, r.rel)) }
