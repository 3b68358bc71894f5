package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// Printer turns records, given in trace order, into lines in the words of the configuration: 1-based connections and
// PSNs, rounds, classes and events. Time starts at the first packet of the trace; it is followed by the time since the
// line before.
type Printer struct {
	meta Meta
	iter *IterTracker

	printed bool  // there is a line before
	lastNS  int64 // the time of its packet
}

// NewPrinter returns a printer for the trace that meta describes.
func NewPrinter(meta Meta) *Printer {
	return &Printer{meta: meta, iter: NewIterTracker(meta.Connections)}
}

// AppendLine appends the line of r without a newline to b. It needs every record of the trace, also those whose lines
// are not used, as rounds depend on earlier packets.
func (p *Printer) AppendLine(b []byte, r *Record) []byte {
	iter, rel := p.iter.Observe(r)
	return p.append(b, r, iter, rel)
}

func (p *Printer) append(b []byte, r *Record, iter, rel int64) []byte {
	b = append(b, '#')
	id := r.ID
	if p.meta.Kind == KindPair && id >= PairSecond {
		b = append(b, '+') // a frame of the second capture
		id -= PairSecond
	}
	b = strconv.AppendUint(b, id, 10)
	b = append(b, "  t="...)
	b = appendPadded(b, clock.TextNS(r.TimeNS-p.meta.StartNS))
	b = appendPadded(append(b, ' '), p.step(r))
	if p.meta.Kind == KindPair {
		b = append(b, tapName(r)...)
	}
	b = p.appendFlow(b, r)
	b = append(b, "  "...)
	b = append(b, r.Class().String()...)
	if rel != 0 || r.Flow != NoFlow && r.Opcode != packet.CNP {
		b = append(b, " psn "...)
		b = strconv.AppendInt(b, rel, 10)
	} else if r.Flow == NoFlow {
		b = append(b, " psn_abs "...)
		b = strconv.AppendUint(b, uint64(r.PSN), 10)
	}
	if iter > 0 {
		b = append(b, " iter "...)
		b = strconv.AppendInt(b, iter, 10)
	}
	b = append(b, "  "...)
	if c, ok := r.CM(); ok {
		return append(append(b, "CM "...), c.String()...)
	}
	b = append(b, r.Opcode.String()...)
	return appendDetails(b, r)
}

// step returns the time since the packet of the line before: packets close together have equal times in three digits.
func (p *Printer) step(r *Record) string {
	step := r.TimeNS - p.lastNS
	first := !p.printed
	p.printed, p.lastNS = true, r.TimeNS
	switch {
	case first:
		return ""
	case step < 0:
		return clock.TextNS(step)
	}
	return "+" + clock.TextNS(step)
}

// appendPadded appends a time, filled up so that what follows is aligned.
func appendPadded(b []byte, text string) []byte {
	const longest = len("+1.23 us")
	b = append(b, text...)
	for range longest - len(text) {
		b = append(b, ' ')
	}
	return b
}

func tapName(r *Record) string {
	if r.Has(Sent) {
		return "  before"
	}
	return "  after "
}

// appendFlow names connection and direction; an arrow to the right leads from requester to responder.
func (p *Printer) appendFlow(b []byte, r *Record) []byte {
	if r.Flow == NoFlow {
		b = append(b, "  qpn ? (to QP "...)
		b = strconv.AppendUint(b, uint64(r.DestQP), 10)
		return append(b, ')')
	}
	b = append(b, "  qpn "...)
	b = strconv.AppendInt(b, int64(r.Flow.Connection()), 10)
	if r.Flow.Reverse() {
		return append(b, " <-"...)
	}
	return append(b, " ->"...)
}

func appendDetails(b []byte, r *Record) []byte {
	if r.PayloadLen > 0 && r.Opcode != packet.CNP {
		b = append(b, ' ')
		b = strconv.AppendUint(b, uint64(r.PayloadLen), 10)
		b = append(b, " B"...)
	}
	if r.Has(HasRETH) && r.Opcode == packet.ReadRequest {
		b = append(b, " of "...)
		b = strconv.AppendUint(b, uint64(r.DMALen), 10)
		b = append(b, " B"...)
	}
	if r.Has(HasAETH) {
		b = append(b, " msn "...)
		b = strconv.AppendUint(b, uint64(r.MSN), 10)
	}
	if r.Has(AckReq) {
		b = append(b, " ackreq"...)
	}
	if r.ECN == packet.CE {
		b = append(b, " CE"...)
	}
	if r.ICRC == packet.ICRCInvalid {
		b = append(b, " bad-icrc"...)
	}
	if r.Event != EventNone {
		b = append(b, "  ["...)
		b = append(b, r.Event.String()...)
		b = append(b, ']')
	}
	return b
}

// ShowOptions select what Show prints. The zero value prints everything.
type ShowOptions struct {
	Around     uint64 // only the record with this id and its neighbours; 0: no such limit
	Context    int    // how many neighbours on each side; 0 means 10
	Connection int    // only this connection; 0: all
	Limit      int64  // at most so many lines; 0: no limit
}

// defaultContext is how many neighbours fill a terminal without scrolling.
const defaultContext = 10

// Show prints one line per record to w. It returns an error if Around names no record of the trace.
func Show(ctx context.Context, c *Checked, w io.Writer, o ShowOptions) error {
	s := &shower{o: o, w: w, p: NewPrinter(c.Meta())}
	s.pick = newPicker(o, s.print)
	err := c.ForEach(ctx, s.record)
	return s.pick.ended(err, c.Meta().Name)
}

type shower struct {
	o    ShowOptions
	w    io.Writer
	p    *Printer
	pick *picker[shownRec]
	line []byte
}

type shownRec struct {
	r         Record
	iter, rel int64
}

func (s *shower) record(r *Record) error {
	iter, rel := s.p.iter.Observe(r)
	if s.o.Connection != 0 && r.Flow.Connection() != s.o.Connection {
		return nil
	}
	return s.pick.take(r.ID, shownRec{*r, iter, rel})
}

func (s *shower) print(r *shownRec, prefix string) error {
	s.line = s.p.append(append(s.line[:0], prefix...), &r.r, r.iter, r.rel)
	_, err := s.w.Write(append(s.line, '\n'))
	return err
}

// picker prints the items that ShowOptions select.
type picker[T any] struct {
	o     ShowOptions
	print func(item *T, prefix string) error
	lines int64

	found  bool
	after  int // lines still to print after the one selected
	before []T // the last ones, oldest first
}

func newPicker[T any](o ShowOptions, print func(item *T, prefix string) error) *picker[T] {
	if o.Context == 0 {
		o.Context = defaultContext
	}
	return &picker[T]{o: o, print: print, found: o.Around == 0}
}

// take prints an item or not. errStop: nothing that comes later will be printed.
func (p *picker[T]) take(id uint64, item T) error {
	switch {
	case p.o.Around == 0:
		return p.show(&item, "")
	case !p.found && id == p.o.Around:
		p.found, p.after = true, p.o.Context
		for i := range p.before {
			if err := p.show(&p.before[i], "  "); err != nil {
				return err
			}
		}
		return p.show(&item, "> ")
	case p.found:
		if p.after == 0 {
			return errStop
		}
		p.after--
		return p.show(&item, "  ")
	}
	if len(p.before) == p.o.Context {
		p.before = append(p.before[:0], p.before[1:]...)
	}
	p.before = append(p.before, item)
	return nil
}

func (p *picker[T]) show(item *T, prefix string) error {
	if p.o.Limit > 0 && p.lines == p.o.Limit {
		return errStop
	}
	p.lines++
	return p.print(item, prefix)
}

// ended returns the error of a trace whose reading ended with err.
func (p *picker[T]) ended(err error, name string) error {
	if errors.Is(err, errStop) {
		err = nil
	}
	if err == nil && !p.found {
		err = fmt.Errorf("%s: no packet has the id %d (first and last ids are printed by `candela trace stats`)", name,
			p.o.Around)
	}
	return err
}
