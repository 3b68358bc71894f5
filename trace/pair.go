package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"candela.dev/candela/packet"
)

// PairSecond is added to the frame number of a packet that only the second capture of a pair has, to make its
// Record.ID. All other packets of a pair have their frame number in the first capture.
const PairSecond = 1 << 40

// PairReport is what comparing two captures around an injector showed.
type PairReport struct {
	Sent      int64 `json:"sent"`   // RoCE packets in the upstream capture
	Passed    int64 `json:"passed"` // RoCE packets in the downstream capture
	Dropped   int64 `json:"dropped"`
	Marked    int64 `json:"marked"`    // CE appeared
	Corrupted int64 `json:"corrupted"` // iCRC broke
	Trimmed   int64 `json:"trimmed"`   // announced or real length shrank
	Reordered int64 `json:"reordered"` // passed after a packet of its flow that was sent later
	Missed    int64 `json:"missed"`    // in the downstream capture only: the upstream tap missed them
	// Copied counts frames that passed a second time, with the same IPv4 identification: copies made in between.
	Copied int64 `json:"copied,omitempty"`
	// Outside counts packets that one capture has before the other one starts, or after it ends.
	Outside int64 `json:"outside,omitempty"`
	// Uncheckable counts frames that the downstream capture cut: damage in transit does not show.
	Uncheckable int64 `json:"uncheckable,omitempty"`
	// Transit times of matched packets, with the second capture's clock corrected.
	MinTransitNS int64       `json:"min_transit_ns"`
	MaxTransitNS int64       `json:"max_transit_ns"`
	Clock        ClockReport `json:"clock"`
	Ways         []WayReport `json:"ways"`
	// Events lists what happened to packets, by frame of the first capture.
	Events []PairEvent `json:"events"`
}

// PairEvent is one packet that did not pass unchanged.
type PairEvent struct {
	Frame uint64 `json:"frame"`
	Event string `json:"event"` // in the words of the configuration
}

// CheckPair compares two captures of the same traffic that were taken at different places: before and after an injector
// or switch, or at the two hosts. For each direction it finds out which capture is upstream, and it corrects the second
// one's clock by what the packets show, unless o specifies otherwise. Upstream frames become Sent records, whose Event
// is what happened to the packet (drop, ecn, corrupt, trim or reorder), downstream ones Passed records, merged by time;
// at equal times a packet passes when it was sent. The upstream tap missed a frame that only the downstream capture
// has: it becomes a Sent record, too. Connections are inferred from the first capture unless given, and from the second
// if the first shows one direction only. Mirror traces are refused: they already have events. Captures that contradict
// each other are an *UnjudgedError.
func CheckPair(ctx context.Context, first, second Source, o Options) (*Checked, *PairReport, error) {
	for _, src := range []Source{first, second} {
		if err := refuseMirror(ctx, src, o.Format); err != nil {
			return nil, nil, err
		}
	}
	o.Format = FormatPlain
	var notes []string
	for _, src := range []*Source{&first, &second} {
		once, note, err := src.withoutTwins(ctx)
		if err != nil {
			return nil, nil, err
		}
		if *src = once; note != "" {
			notes = append(notes, src.Name+": "+note)
		}
	}
	scanned, err := scanPlain(ctx, first, o)
	if err != nil {
		return nil, nil, err
	}
	meta, err := scanned.meta()
	if err != nil {
		return nil, nil, err
	}
	if scanned.inference != nil && scanned.inference.assumed {
		if err := scanned.learnMTU(ctx, second); err != nil {
			return nil, nil, err
		}
		if meta, err = scanned.meta(); err != nil {
			return nil, nil, err
		}
	}
	if scanned.inference != nil && scanned.inference.lacking(meta.Connections) {
		if err := scanned.learnPartners(ctx, second); err != nil {
			return nil, nil, err
		}
		if meta, err = scanned.meta(); err != nil {
			return nil, nil, err
		}
	}
	meta.Kind, meta.EventsKnown = KindPair, true
	o.SkipICRC = !meta.ICRCCheckable
	v := &tapView{first: first, second: second, o: o, connections: meta.Connections}
	places, err := v.locate(ctx)
	if err != nil {
		return nil, nil, err
	}
	report, err := v.compare(ctx, &meta)
	if err != nil {
		return nil, nil, err
	}
	report.Clock, report.Ways = v.clock.report, places
	meta.AtHosts = v.mixed()
	meta.HostsInferred = meta.AtHosts && o.Placement != PlacementHosts && !o.Complete
	meta.Packets = report.Sent + report.Passed + report.Missed // those that the upstream tap missed are sent, too
	meta.ClockUncertaintyNS = v.uncertainty()
	meta.Agreed = !o.Complete && v.complete && report.Missed == 0 && report.Outside == 0 && meta.Unread == 0
	meta.Complete = o.Complete && meta.Unread == 0 || meta.Agreed // a frame that cannot be decoded is as good as missing
	meta.Notes = append(append(meta.Notes, notes...), report.notes(first.Name, second.Name)...)
	stream := func(ctx context.Context, fn func(*Record) error) error {
		_, err := v.run(ctx, fn)
		return err
	}
	checked := &Checked{meta: meta, stream: stream, payloads: v.withPayloads, others: v.otherPlaces(meta)}
	// Which of the frames that a tap holds twice is a copy made in between does not show, nor when that passed.
	vague := report.Copied > 0 && (first.twins != nil || second.twins != nil)
	if vague {
		checked.meta.Notes = append(checked.meta.Notes, "the captures hold frames twice, and some were copied in between: "+
			"when the copies passed is not known, so that findings that only the comparison shows are warnings")
	}
	if report.Outside > 0 || vague || report.Uncheckable > 0 && !o.Complete {
		alone, err := scanned.meta()
		if err != nil {
			return nil, nil, err
		}
		alone.MayMiss = !o.Complete
		checked.others = append(checked.others,
			&Checked{meta: alone, stream: scanned.stream(alone), payloads: scanned.payloads(alone)})
	}
	return checked, report, nil
}

// locate finds out how the captures' places and clocks relate.
func (v *tapView) locate(ctx context.Context) ([]WayReport, error) {
	s := newSurvey()
	for _, c := range v.connections.All() {
		s.oneSided[c.Index] = c.Requester.QPN == 0 || c.Responder.QPN == 0
	}
	for tap := range s.taps {
		if err := v.survey(ctx, s, tap); err != nil {
			return nil, err
		}
	}
	if s.taps[1].frames == 0 {
		return nil, fmt.Errorf("%s: %w: no frame in it is a RoCEv2 packet (UDP port %d) that can be decoded", v.second.Name,
			ErrNothingToAnalyse, packet.Port)
	}
	fault := func(reason, advice string) error {
		return &UnjudgedError{Name: v.first.Name + " and " + v.second.Name, Reason: reason, Advice: advice}
	}
	const other = "take two captures of the same run, or analyse each alone"
	if reason := s.disagreement(); reason != "" {
		return nil, fault(reason, other)
	}
	v.identified, v.complete = s.identified(), s.complete()
	if !v.o.SameClock {
		v.tickNS = s.tick()
	}
	places := s.place(v.o.Placement, v.o.Ordered, v.isRequester)
	if v.o.Ordered && !v.complete && swapped(places) != "" {
		// taps that miss frames make others look lost: the caller knows better
		places = s.place(PlacementBracket, true, v.isRequester)
	}
	var err error
	if v.o.SameClock {
		v.clock = &clockEstimate{report: ClockReport{SameClock: true}}
	} else if places, v.clock, v.bounds, err = s.reconcile(places); err != nil {
		return nil, fault(err.Error(), other)
	}
	if why := swapped(places); v.o.Ordered && why != "" {
		return nil, fault(fmt.Sprintf("%s was taken upstream of %s: %s", v.second.Name, v.first.Name, why),
			"name them the other way round")
	}
	v.shared[0] = max(s.taps[0].startNS, v.clock.correct(s.taps[1].startNS))
	v.shared[1] = min(s.taps[0].endNS, v.clock.correct(s.taps[1].endNS))
	v.upstream = s.upstream(places)
	v.assumed = s.assumed(places, v.clock, v.o.SameClock)
	return places, nil
}

// otherPlaces returns the pair with its taps at the other places that the packets allow.
func (v *tapView) otherPlaces(meta Meta) (list []*Checked) {
	for _, a := range v.assumed {
		other := *v
		other.upstream, other.clock, other.assumed = a.upstream, a.clock, nil
		meta.ClockUncertaintyNS = other.uncertainty()
		meta.AtHosts = other.mixed()
		meta.HostsInferred = meta.AtHosts && !v.o.Complete
		list = append(list, &Checked{meta: meta, payloads: other.withPayloads,
			stream: func(ctx context.Context, fn func(*Record) error) error {
				_, err := other.run(ctx, fn)
				return err
			}})
	}
	return list
}

// compare makes a first pass over the captures. All pairs of frames, of which the estimate used a sample, correct the
// clock where a frame would arrive before it was sent; then the pass is repeated.
func (v *tapView) compare(ctx context.Context, meta *Meta) (*PairReport, error) {
	for attempt := 0; ; attempt++ {
		start, end := meta.StartNS, meta.EndNS
		exact := newPairBounds(v.clock, v.bounds.tickNS)
		v.paired = exact.add
		report, err := v.run(ctx, func(r *Record) error {
			start, end = min(start, r.TimeNS), max(end, r.TimeNS)
			return nil
		})
		v.paired = nil
		if err != nil {
			return nil, err
		}
		if report.MinTransitNS < 0 && attempt < 3 && v.refine(exact) {
			continue
		}
		meta.StartNS, meta.EndNS = start, end
		return report, nil
	}
}

// refine corrects the clock by the pairs of a pass, and reports whether that changed it.
func (v *tapView) refine(exact *pairBounds) bool {
	if v.o.SameClock {
		return false
	}
	v.bounds.list = append(v.bounds.list, exact.list()...)
	clock, err := v.bounds.estimate(!v.mixed())
	if err != nil || clock.report.OffsetNS == v.clock.report.OffsetNS && clock.report.DriftPPB == v.clock.report.DriftPPB {
		return false
	}
	v.clock = clock
	return true
}

func (v *tapView) survey(ctx context.Context, s *survey, tap int) (err error) {
	stream, err := v.records(tap == 1)
	if err != nil {
		return err
	}
	defer func() { err = alsoClose(err, stream) }()
	return s.read(ctx, tap, stream)
}

// isRequester reports whether a host sends requests on its first connection.
func (v *tapView) isRequester(host netip.Addr) bool {
	for _, c := range v.connections.All() {
		switch host {
		case c.Requester.IP:
			return true
		case c.Responder.IP:
			return false
		}
	}
	return false
}

// swapped returns the evidence that the second capture is upstream in all directions, if it is.
func swapped(places []WayReport) (why string) {
	for i := range places {
		if places[i].FirstUpstream {
			return ""
		}
		if places[i].certain {
			why = places[i].Reason
		}
	}
	return why
}

// uncertainty returns what analyzers must allow for between the clocks. Captures of two hosts need nothing: what a host
// sent and what reached it have one clock.
func (v *tapView) uncertainty() int64 {
	if v.mixed() {
		return 0
	}
	return max(0, v.clock.report.UncertaintyNS) + 4*v.tickNS
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
		return fmt.Errorf("%s: only plain captures can be compared, and this is a %v trace (%s)", src.Name, d.Format,
			d.Reason)
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

// learnMTU looks for packets that show the path MTU in another capture of the same traffic.
func (s *scan) learnMTU(ctx context.Context, other Source) (err error) {
	v := &tapView{first: other, o: s.o}
	stream, err := v.records(false)
	if err != nil {
		return err
	}
	defer func() { err = alsoClose(err, stream) }()
	return stream.each(ctx, func(o *observation) { s.inference.learn(stream.dec.key, &o.rec) })
}

// learnPartners takes from the other capture which directions belong together, if this one shows only one of them.
func (s *scan) learnPartners(ctx context.Context, other Source) error {
	scanned, err := scanPlain(ctx, other, s.o)
	if err != nil {
		return err
	}
	meta, err := scanned.meta()
	if err != nil || scanned.inference == nil {
		return err
	}
	for _, c := range meta.Connections.All() {
		if c.Requester.QPN != 0 && c.Responder.QPN != 0 {
			s.inference.elsewhere = append(s.inference.elsewhere, c)
		}
	}
	return nil
}

func (r *PairReport) notes(first, second string) []string {
	var out []string
	for i := range r.Ways {
		out = append(out, r.Ways[i].String())
	}
	out = append(out, r.Clock.String())
	if r.Uncheckable > 0 {
		out = append(out, fmt.Sprintf("the downstream capture kept parts of %d frames: damage between the captures does "+
			"not show, so that findings "+
			"that only the comparison shows are warnings (capture whole packets)", r.Uncheckable))
	}
	if r.Outside > 0 {
		out = append(out, fmt.Sprintf("%d packets are in one capture only, from before the other one starts or after it "+
			"ends: findings that only "+
			"the comparison shows are warnings", r.Outside))
	}
	if r.Copied > 0 {
		out = append(out, fmt.Sprintf("%d frames passed twice: a network device between the captures copied them", r.Copied))
	}
	if r.Missed > 0 {
		out = append(out, fmt.Sprintf("%d packets are only in the downstream capture: the upstream tap missed them. "+
			"Those only in %s have their frame number there plus 2^40", r.Missed, second))
	}
	return out
}

// recordStream pulls records out of a capture.
type recordStream struct {
	frames        frameReader
	file          io.Closer
	dec           *Decoder
	clock         *clockEstimate // corrects times; nil: nothing to correct
	second        bool           // it is the second capture of a pair
	keepTruncated bool
	ended         bool
	frame         Frame
}

// observation is a record with what else the matcher needs.
type observation struct {
	rec Record
	way flowKey // source and destination
	// short: the packet ended on the wire before the length that its IP header announces.
	short  bool
	second bool   // it is a frame of the second capture
	rawNS  int64  // on the clock of its capture
	port   uint16 // UDP source port
	ipID   uint16 // IPv4 identification; 0 in IPv6
	ttl    uint8  // or hop limit
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
		o.rawNS = o.rec.TimeNS
		o.rec.TimeNS = s.clock.correct(o.rec.TimeNS)
		o.way, o.second = s.dec.key, s.second
		o.way.qpn &^= maxUint24
		o.look(f)
		return nil
	}
}

// Close closes the capture.
func (s *recordStream) Close() error { return s.file.Close() }

// look takes fields from a frame that its record lacks: source port, identification, TTL, and for a packet that may
// have been cut whether its IPv4 header checksum is right.
func (o *observation) look(f *Frame) {
	at, ok, _ := locateRoCE(f.Data, packet.Port)
	if !ok {
		return
	}
	o.port = be16(f.Data[at.l4:])
	announced := int(be16(f.Data[at.l3+4:])) + packet.IPv6Len
	if f.Data[at.l3]>>4 == 4 {
		announced = int(be16(f.Data[at.l3+2:]))
	}
	o.short = f.OrigLen < at.l3+announced || at.l4-at.l3+int(be16(f.Data[at.l4+4:])) > announced
	o.ipID, o.ttl = 0, f.Data[at.l3+7]
	if f.Data[at.l3]>>4 == 4 {
		o.ipID, o.ttl = be16(f.Data[at.l3+4:]), f.Data[at.l3+8]
	}
	damaged := o.rec.Flags&Truncated != 0 || o.rec.ICRC == packet.ICRCInvalid
	if o.short && at.ipStale {
		o.rec.Flags |= IPLengthStale
	}
	if damaged && f.Data[at.l3]>>4 == 4 && packet.HeaderChecksum(f.Data[at.l3:at.l4]) != be16(f.Data[at.l3+10:]) {
		o.rec.Flags |= IPChecksumBad
	}
}
