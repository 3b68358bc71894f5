package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"candela.dev/candela/packet"
)

// Options say how to read a trace.
type Options struct {
	Format      Format       // FormatAuto detects
	Connections *Connections // nil: inferred from the packets
	Counters    Counters     // of the switch, for a mirror trace
	SkipICRC    bool         // saves a CRC per whole frame
	MTU         int          // path MTU of inferred connections whose manager says nothing; 0: what their packets show
	// TimeDisorderNS is how far stamps of different flows in a mirror trace may be out of order, for a switch that
	// receives with several queues. Stamps of one flow must be in order. 0: all stamps must.
	TimeDisorderNS int64
	// Vouched says that every copy is known to be as its sender made it: the caller compared a mirror trace with what
	// hosts recorded, or nothing can damage it. A wrong iCRC is then its sender's fault.
	Vouched bool
	// KeepTruncated makes a partial last record of a plain capture a note instead of an error, for captures of a tcpdump
	// that was killed. In a mirror trace it always means a lost packet.
	KeepTruncated bool

	// Workers is how many processors may be used; with more than one, a capture is read by one while another decodes it.
	// 0: one.
	Workers int

	// Complete says that the captures hold every frame that was sent or, if their places are known, that passed their
	// taps.
	Complete bool

	// Place is that of a single capture.
	Place Place

	// About pairs of captures: where they were taken, whether one clock stamped both, and whether the caller says that the
	// first is upstream of the second, so that packets that contradict it are an error.
	Placement Placement
	SameClock bool
	Ordered   bool
}

// Check makes one streaming pass over src. A mirror trace that meets the four integrity conditions (spec §4), and every
// readable plain capture, is returned as Checked. If a condition is violated the report says which and the error is an
// *IntegrityError. Any other error is about the file; the report then covers what was read before it, or is nil if
// nothing was.
func Check(ctx context.Context, src Source, o Options) (*Checked, *IntegrityReport, error) {
	if o.Format == FormatAuto {
		d, err := Detect(ctx, src)
		if err != nil {
			return nil, nil, err
		}
		o.Format = d.Format
	}
	var notes []string
	if o.Format == FormatPlain {
		once, note, err := src.withoutTwins(ctx)
		if err != nil {
			return nil, nil, err
		}
		if src = once; note != "" {
			notes = append(notes, note)
		}
	}
	src.ahead = o.Workers > 1
	s := newScan(src, o)
	s.notes = notes
	s.recording, s.index = &recording{limit: recordingLimit}, newFileIndex()
	err := s.run(ctx)
	if err != nil && o.KeepTruncated && o.Format == FormatPlain && errors.Is(err, ErrTruncatedFile) {
		s.notes = append(s.notes, err.Error())
		err = nil
	}
	report := s.report()
	if err != nil {
		report.Valid = false
		return nil, report, err
	}
	if !report.Valid {
		return nil, report, &IntegrityError{Name: src.Name, Report: report}
	}
	meta, err := s.meta()
	if err != nil {
		return nil, report, err
	}
	if s.recording != nil {
		s.recording.finish(s.dec, meta.Connections)
	}
	return &Checked{meta: meta, stream: s.stream(meta), batches: s.batches(meta), payloads: s.payloads(meta)}, report, nil
}

// scan is the pass of Check.
type scan struct {
	src       Source
	o         Options
	dec       *Decoder
	inference *Inference // nil if connections were given
	recording *recording // nil: not wanted
	index     *fileIndex // nil: not wanted
	general   bool       // without the fast path, for tests

	seq    sequenceCheck
	time   *timeCheck
	copies copyCheck

	packets, other int64
	bad            int64
	badList        []string
	icrc           icrcSample
	startNS, endNS int64
	unknown        int64 // records of no connection
	notes          []string
	interfaces     []Interface
}

func newScan(src Source, o Options) *scan {
	s := &scan{src: src, o: o, time: newTimeCheck(o.Format, o.TimeDisorderNS)}
	s.seq.modulus = o.Format
	s.copies = copyCheck{vouched: o.Vouched, injected: len(o.Counters.Mirrored) > 0}
	if o.Connections == nil {
		s.inference = NewInference()
		s.inference.MTU = o.MTU
	}
	s.dec = NewDecoder(o.Format, o.Connections, !o.SkipICRC)
	s.dec.wantsKey = s.dec.wantsKey || s.time.perWay != nil
	return s
}

// icrcSample looks whether a trace has iCRCs: tools that generate packets often leave them out, and then no packet must
// be considered damaged.
type icrcSample struct{ looked, valid int64 }

// icrcSampleLimit is how many whole frames decide.
const icrcSampleLimit = 256

// add observes a verdict and reports whether more are wanted.
func (c *icrcSample) add(status packet.ICRCStatus) bool {
	switch status {
	case packet.ICRCValid:
		c.valid++
		c.looked++
	case packet.ICRCInvalid:
		c.looked++
	case packet.ICRCNotCheckable:
	}
	return c.looked < icrcSampleLimit
}

// trusted reports whether iCRCs can be relied on.
func (c *icrcSample) trusted() bool { return c.valid > 0 }

func (s *scan) run(ctx context.Context) error {
	var r Record
	p := passage{fn: func(f *Frame) error {
		switch err := s.dec.Decode(f, &r); {
		case err == nil:
			s.add(&r, f)
		case errors.Is(err, ErrNotRoCE):
			s.other++
		default:
			s.undecodable(f, err)
		}
		return nil
	}, done: func(file *FrameFile) {
		s.notes, s.interfaces = append(s.notes, file.notes()...), file.Interfaces()
		if len(file.stamps.clocks) > 0 {
			s.index = nil // the times of records depend on those before
		}
	}}
	if !s.general && s.takesTemplated() {
		p.skim = s.templated
	}
	return s.src.forEachFrame(ctx, p)
}

func (s *scan) undecodable(f *Frame, err error) {
	s.bad++
	s.badList = appendBounded(s.badList, fmt.Sprintf("frame %d: %v", f.Number, err))
}

func (s *scan) add(r *Record, f *Frame) {
	s.packets++
	if s.recording != nil {
		s.recording.add(r, s.dec, f.Number)
	}
	if s.o.Format == FormatMirror &&
		(s.dec.template < 0 || !s.copies.templated(r, &s.dec.templates.list[s.dec.template], f.Data)) {
		s.copies.add(r, f.Data, f.Number)
	}
	// Inference needs every verdict, as a damaged packet may name a QP that does not exist, and so do analyses; the
	// conditions need those of mirror copies only.
	if !s.icrc.add(r.ICRC) && s.inference == nil &&
		(!s.icrc.trusted() || s.o.Format != FormatMirror && (s.recording == nil || s.recording.full)) {
		s.dec.withICRC = false
	}
	if !s.icrc.trusted() {
		r.ICRC = packet.ICRCNotCheckable
	}
	if s.index != nil {
		s.index.add(f.Number, f.Offset, r.TimeNS)
	}
	if s.packets == 1 {
		s.startNS, s.endNS = r.TimeNS, r.TimeNS
	}
	s.startNS, s.endNS = min(s.startNS, r.TimeNS), max(s.endNS, r.TimeNS)
	if s.inference != nil {
		s.inference.add(s.dec.key, r)
	} else if r.Flow == NoFlow {
		s.unknown++
	}
	if s.o.Format != FormatPlain {
		s.seq.add(r.ID, f.Number)
		s.time.add(r, &s.dec.key, s.dec.srcPort, f.Number)
	}
}

func (s *scan) report() *IntegrityReport {
	report := &IntegrityReport{
		Schema: IntegritySchema, Format: s.o.Format.String(), Packets: s.packets, OtherFrames: s.other,
		FirstSeq: s.seq.first, LastSeq: s.seq.last, StartNS: s.startNS, EndNS: s.endNS,
	}
	if s.o.Format == FormatPlain {
		report.Conditions = plainConditions()
	} else {
		report.Conditions = []Condition{
			s.seq.condition(), s.time.condition(),
			countCondition(ConditionMirrored, "mirrored", s.o.Counters.Mirrored, s.packets),
			countCondition(ConditionRoCERx, "received", s.o.Counters.RoCERx, s.packets),
		}
	}
	if s.o.Format == FormatMirror {
		report.Conditions = append(report.Conditions, s.copies.condition(s.icrc.trusted()))
		report.Events = s.copies.events
	}
	report.Conditions = append(report.Conditions, s.decodable())
	report.Valid = len(report.Violations()) == 0
	return report
}

func plainConditions() []Condition {
	const why = "a plain capture has no mirror metadata"
	names := []string{ConditionSequence, ConditionTime, ConditionMirrored, ConditionRoCERx}
	out := make([]Condition, len(names))
	for i, n := range names {
		out[i] = Condition{Name: n, Status: StatusNotChecked, Message: why}
	}
	return out
}

// decodable is violated by any undecodable RoCE frame in a mirror trace, where analyzers would take it for a lost
// packet. In a plain capture, where port 4791 may have other traffic, it becomes a note.
func (s *scan) decodable() Condition {
	c := Condition{Name: ConditionDecodable, Status: StatusOK, Message: "every RoCE frame was decoded",
		UndecodableCount: s.bad, Undecodable: s.badList}
	if s.bad == 0 {
		return c
	}
	c.Message = fmt.Sprintf("%d RoCE frames can't be decoded, first %s", s.bad, s.badList[0])
	if s.o.Format != FormatPlain {
		c.Status = StatusViolated
	}
	return c
}

// ErrNothingToAnalyse matches Check's error when a readable file holds no RoCE packet: a pass would mean nothing.
var ErrNothingToAnalyse = errors.New("nothing to analyse")

// An UnjudgedError says why a file with RoCE packets cannot be judged, and what helps.
type UnjudgedError struct {
	Name   string
	Reason string
	Advice string
}

// Error returns the file, the reason and the advice.
func (e *UnjudgedError) Error() string { return e.Name + ": " + e.Text() }

// Text returns the reason and the advice.
func (e *UnjudgedError) Text() string { return e.Reason + "; " + e.Advice }

// empty says why there is nothing to analyse, if so.
func (s *scan) empty() error {
	switch {
	case s.packets == 0 && s.bad > 0:
		return fmt.Errorf("%s: %w: no frame to UDP port %d can be decoded, first %s", s.src.Name, ErrNothingToAnalyse,
			packet.Port, s.badList[0])
	case s.packets == 0:
		return fmt.Errorf("%s: %w: none of its %d frames is RoCEv2 (UDP port %d)", s.src.Name, ErrNothingToAnalyse, s.other,
			packet.Port)
	}
	return nil
}

func (s *scan) meta() (Meta, error) {
	if err := s.empty(); err != nil {
		return Meta{}, err
	}
	m := Meta{
		Kind: KindMirror, PacketIDs: PacketIDsMirror, Name: s.src.Name, Connections: s.o.Connections, EventsKnown: true,
		ICRCCheckable: s.icrc.trusted(), Unread: s.bad,
		Packets: s.packets, StartNS: s.startNS, EndNS: s.endNS, Notes: s.notes,
		Interfaces: s.interfaces, MarkedLater: s.src.twins != nil && s.src.twins.marked,
	}
	if s.o.Format == FormatPlain {
		m.Kind, m.PacketIDs, m.EventsKnown = KindPlain, PacketIDsFrame, false
	}
	if s.bad > 0 {
		m.Notes = append(m.Notes, s.badNote())
	}
	if s.icrc.looked > 0 && !s.icrc.trusted() {
		m.Notes = append(m.Notes, fmt.Sprintf("none of the first %d whole packets has a right iCRC: iCRCs are ignored",
			s.icrc.looked))
	}
	if s.unknown > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("%d of %d packets belong to none of the %d connections given", s.unknown,
			s.packets, s.o.Connections.Len()))
	}
	if s.inference != nil {
		if s.inference.tooMany {
			return m, &UnjudgedError{Name: s.src.Name,
				Reason: fmt.Sprintf("the capture has more than %d flows, which is the most that Candela infers", maxHalves),
				Advice: "name the connections to judge in a document (--connections), or keep only their hosts: tcpdump -r IN -w " +
					"OUT host ADDRESS"}
		}
		connections, notes, err := s.inference.Connections()
		if err != nil {
			return m, fmt.Errorf("%s: infer connections: %w", s.src.Name, err)
		}
		m.Connections, m.Notes = connections, append(m.Notes, notes...)
	}
	m.FlowLabels = s.dec.labels.of(m.Connections)
	return m, s.vouch(&m)
}

// countedNone reports whether a capture's own counts say that it missed no frame.
func countedNone(interfaces []Interface) bool {
	return len(interfaces) > 0 && !slices.ContainsFunc(interfaces,
		func(i Interface) bool { return !i.Counted || i.Dropped > 0 })
}

func (s *scan) badNote() string {
	return fmt.Sprintf("%d frames to UDP port %d can't be decoded and were skipped, first %s", s.bad, packet.Port,
		s.badList[0])
}

// stream returns the ForEach of the checked trace.
func (s *scan) stream(meta Meta) func(context.Context, func(*Record) error) error {
	src, o, start := s.src, s.o, s.recording
	return func(ctx context.Context, fn func(*Record) error) error {
		dec := NewDecoder(o.Format, meta.Connections, meta.ICRCCheckable)
		known := uint64(0)
		if start != nil {
			if err := start.forEach(ctx, meta.ICRCCheckable, fn); err != nil || !start.full {
				return err
			}
			known, dec.clock = start.lastFrame, start.clock
		}
		var r Record
		err := src.ForEachFrame(ctx, func(f *Frame) error {
			if f.Number <= known || dec.Decode(f, &r) != nil {
				return nil // counted by the check
			}
			return fn(&r)
		})
		return o.bearable(err)
	}
}

// batches is stream by batches.
func (s *scan) batches(meta Meta) func(context.Context, *batcher) error {
	src, o, start := s.src, s.o, s.recording
	return func(ctx context.Context, b *batcher) error {
		dec := NewDecoder(o.Format, meta.Connections, meta.ICRCCheckable)
		known := uint64(0)
		if start != nil {
			if err := start.forEachBatch(ctx, meta.ICRCCheckable, b); err != nil || !start.full {
				return err
			}
			known, dec.clock = start.lastFrame, start.clock
		}
		err := src.ForEachFrame(ctx, func(f *Frame) error {
			if f.Number <= known {
				return nil
			}
			r, err := b.next()
			if err == nil && dec.Decode(f, r) != nil {
				b.discard() // counted by the check
			}
			return err
		})
		return o.bearable(err)
	}
}

// bearable returns err unless it is the end of a capture that may end in the middle of a packet.
func (o *Options) bearable(err error) error {
	if o.KeepTruncated && o.Format == FormatPlain && errors.Is(err, ErrTruncatedFile) {
		return nil
	}
	return err
}
