package trace

import (
	"context"
	"errors"
	"fmt"
	"io"

	"candela.dev/candela/packet"
)

// PairSecond is added to the frame number of a packet that only the second capture of a pair has, to make its Record.ID.
// All other packets of a pair have their frame number in the first capture.
const PairSecond = 1 << 40

// PairReport is what comparing two captures around an injector showed.
type PairReport struct {
	Sent      int64 `json:"sent"`   // RoCE packets in the first capture
	Passed    int64 `json:"passed"` // RoCE packets in the second
	Dropped   int64 `json:"dropped"`
	Marked    int64 `json:"marked"`    // CE appeared
	Corrupted int64 `json:"corrupted"` // iCRC broke
	Trimmed   int64 `json:"trimmed"`   // announced or real length shrank
	Reordered int64 `json:"reordered"` // passed behind a packet of its flow that was sent later
	Extra     int64 `json:"extra"`     // in the second capture only
	// Transit times of matched packets. A negative one means that the clocks of the captures disagree.
	MinTransitNS int64 `json:"min_transit_ns"`
	MaxTransitNS int64 `json:"max_transit_ns"`
	// Events lists what happened to packets, by frame of the first capture.
	Events []PairEvent `json:"events"`
}

// PairEvent is one packet that did not pass unchanged.
type PairEvent struct {
	Frame uint64 `json:"frame"`
	Event string `json:"event"` // in the words of the configuration
}

// CheckPair compares a capture before the injector with one behind it, both with clocks that agree. The first yields Sent
// records, whose Event says what became of them (drop, ecn, corrupt, trim or reorder), the second Passed ones, merged by
// time; at equal times a packet passes as soon as it was sent. Connections are inferred from the first capture unless
// given. Mirror traces are refused: they know their events already.
func CheckPair(ctx context.Context, before, after Source, o Options) (*Checked, *PairReport, error) {
	for _, src := range []Source{before, after} {
		if err := refuseMirror(ctx, src, o.Format); err != nil {
			return nil, nil, err
		}
	}
	o.Format = FormatPlain
	first, err := scanPlain(ctx, before, o)
	if err != nil {
		return nil, nil, err
	}
	meta, err := first.meta()
	if err != nil {
		return nil, nil, err
	}
	meta.Kind, meta.EventsKnown = KindPair, true
	o.SkipICRC = !meta.ICRCCheckable
	p := &pairSource{before: before, after: after, o: o, connections: meta.Connections}
	report, err := p.run(ctx, func(r *Record) error {
		meta.Packets++
		meta.StartNS, meta.EndNS = min(meta.StartNS, r.TimeNS), max(meta.EndNS, r.TimeNS)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if report.Passed == 0 {
		return nil, nil, fmt.Errorf("%s: %w: no frame in it is a RoCEv2 packet (UDP port %d) that can be decoded", after.Name, ErrNothingToAnalyse, packet.Port)
	}
	meta.Packets = report.Sent + report.Passed
	meta.Notes = append(meta.Notes, report.notes(after.Name)...)
	stream := func(ctx context.Context, fn func(*Record) error) error {
		_, err := p.run(ctx, fn)
		return err
	}
	return &Checked{meta: meta, stream: stream}, report, nil
}

func refuseMirror(ctx context.Context, src Source, format Format) error {
	d := Detection{Format: format, Reason: "as requested"}
	if format == FormatAuto {
		var err error
		if d, err = Detect(ctx, src); err != nil {
			return err
		}
	}
	if d.Format != FormatPlain {
		return fmt.Errorf("%s: only plain captures can be compared, and this is a %v trace (%s)", src.Name, d.Format, d.Reason)
	}
	return nil
}

func scanPlain(ctx context.Context, src Source, o Options) (*scan, error) {
	s := newScan(src, o)
	err := s.run(ctx)
	if err != nil && o.KeepTruncated && errors.Is(err, ErrTruncatedFile) {
		s.notes = append(s.notes, err.Error())
		err = nil
	}
	return s, err
}

func (r *PairReport) notes(second string) []string {
	var out []string
	if r.Extra > 0 {
		out = append(out, fmt.Sprintf("%d packets are only in %s; their ids are frame numbers there plus 2^40", r.Extra, second))
	}
	if 2*r.Extra > r.Passed {
		out = append(out, "most packets of the captures do not match: are they of the same run, and do their clocks agree?")
	}
	if r.Sent > 0 && r.Passed > 0 && r.MinTransitNS < 0 {
		out = append(out, fmt.Sprintf("packets reach %s up to %d ns before they were sent: the clocks of the captures disagree", second, -r.MinTransitNS))
	}
	return out
}

// pairSource holds what every pass over a pair needs.
type pairSource struct {
	before, after Source
	o             Options
	connections   *Connections
}

// run streams the pair through a matcher and hands every record to fn.
func (p *pairSource) run(ctx context.Context, fn func(*Record) error) (report *PairReport, err error) {
	a, err := p.before.OpenFrames()
	if err != nil {
		return nil, err
	}
	defer func() { err = alsoClose(err, a) }()
	b, err := p.after.OpenFrames()
	if err != nil {
		return nil, err
	}
	defer func() { err = alsoClose(err, b) }()
	m := newMatcher(
		recordStream{frames: a, dec: NewDecoder(FormatPlain, p.connections, !p.o.SkipICRC), keepTruncated: p.o.KeepTruncated},
		recordStream{frames: b, dec: NewDecoder(FormatPlain, p.connections, !p.o.SkipICRC), keepTruncated: p.o.KeepTruncated},
	)
	for i := 0; ; i++ {
		if i%cancelEvery == 0 && ctx.Err() != nil {
			return &m.report, context.Cause(ctx)
		}
		r, err := m.next()
		if errors.Is(err, io.EOF) {
			return &m.report, nil
		}
		if err != nil {
			return &m.report, err
		}
		if err := fn(r); err != nil {
			return &m.report, err
		}
	}
}

// recordStream pulls records out of a capture.
type recordStream struct {
	frames        frameReader
	dec           *Decoder
	keepTruncated bool
	ended         bool
	frame         Frame
}

// observation is a record with what the matcher needs beside it.
type observation struct {
	rec Record
	way flowKey // source and destination
	// short: the packet ended on the wire before the length that its IP header announces.
	short bool
	port  uint16 // UDP source port
}

// read fills o with the next RoCE packet; io.EOF ends the stream.
func (s *recordStream) read(o *observation) error {
	if s.ended {
		return io.EOF
	}
	f := &s.frame
	for {
		if err := s.frames.Next(f); err != nil {
			s.ended = true
			if s.keepTruncated && errors.Is(err, ErrTruncatedFile) {
				return io.EOF
			}
			return err
		}
		if s.dec.Decode(f, &o.rec) != nil {
			continue // counted by the scan, as in a plain capture
		}
		o.way = s.dec.key
		o.way.qpn &^= maxUint24
		o.short = o.rec.Flags&Truncated != 0 && f.OrigLen <= len(f.Data)
		o.look(f)
		return nil
	}
}

// look takes from a frame what its record lacks: the source port, and of a packet that may have been cut whether its IPv4 header
// checksum holds.
func (o *observation) look(f *Frame) {
	at, ok, _ := locateRoCE(f.Data, packet.Port)
	if !ok {
		return
	}
	o.port = be16(f.Data[at.l4:])
	damaged := o.rec.Flags&Truncated != 0 || o.rec.ICRC == packet.ICRCInvalid
	if o.short && at.ipStale {
		o.rec.Flags |= IPLengthStale
	}
	if damaged && f.Data[at.l3]>>4 == 4 && packet.HeaderChecksum(f.Data[at.l3:at.l4]) != be16(f.Data[at.l3+10:]) {
		o.rec.Flags |= IPChecksumBad
	}
}
