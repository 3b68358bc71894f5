package trace

import (
	"context"
	"slices"
)

// Kind says how a trace was made and so what it can prove.
type Kind uint8

// Kinds of traces.
const (
	// KindMirror is a reconstructed trace of mirror copies: complete, in the switch's order, events known.
	KindMirror Kind = iota + 1
	// KindPlain is one capture at a tap: file order and file times; injected events and later losses are unknown.
	KindPlain
	// KindPair is two captures around the injector: the first yields Sent records, the second Passed ones.
	KindPair
)

// String returns the kind in the words of the command line.
func (k Kind) String() string {
	switch k {
	case KindMirror:
		return "mirror"
	case KindPlain:
		return "plain"
	case KindPair:
		return "pair"
	}
	return "unknown"
}

// What Record.ID and the packets of findings are.
const (
	PacketIDsMirror = "mirror" // mirror sequence numbers
	PacketIDsFrame  = "frame"  // 1-based frame numbers of the (first) capture file
)

// Meta is what is known about a trace as a whole.
type Meta struct {
	Kind      Kind
	PacketIDs string // PacketIDsMirror or PacketIDsFrame
	Name      string // of the file, for messages

	Connections *Connections
	// ICRCCheckable says that the trace holds frames whose iCRC was checked; otherwise every Record.ICRC is not checkable.
	ICRCCheckable bool
	// EventsKnown says that Record.Event is what happened to each packet. In a plain capture EventNone means "unknown".
	EventsKnown bool

	// TrimReactions is what a test says about its hosts, see [Checked.WithTrims].
	TrimReactions TrimReactions

	// MayMiss says that taps may have missed frames, so that what is not in the trace may have happened. Otherwise a plain
	// capture is assumed to hold what passed its tap unless its packets contradict that.
	MayMiss bool
	// Complete says that the user declared the captures to hold every frame that was sent.
	Complete bool
	// TapHost is the address of the host at whose port a single capture was taken, if known. Vouched: the capture holds
	// every frame that this host sent or received.
	TapHost string
	Vouched bool
	// AtHosts says that the captures of a pair were taken at the two hosts: nothing happens to packets after the
	// downstream one.
	AtHosts bool
	// HostsInferred says that the user named no places: one of the captures may have been taken at a switch port instead,
	// so that frames of the host on its side may be lost before both.
	HostsInferred bool
	// Agreed says that two captures confirm each other: nothing in them shows that a tap missed frames. Complete is set,
	// too.
	Agreed bool
	// MarkedLater says that a plain capture holds frames twice, and that the second copies, which are left out, have CE
	// marks that the first ones lack.
	MarkedLater bool
	// Unread is how many frames of a plain capture could not be decoded, mostly because they were cut off.
	Unread int64

	// ClockUncertaintyNS is how much later than stamped packets may have reached their receivers, because two clocks were
	// used.
	ClockUncertaintyNS int64

	// Packets is the number of records. StartNS and EndNS are the TimeNS of the earliest and latest.
	Packets        int64
	StartNS, EndNS int64

	// Interfaces are those that the (first) capture was recorded on, with the frames that it missed, if the file says so.
	Interfaces []Interface

	// FlowLabels are the IPv6 flow labels of the flows, by packet; of a pair of captures none are listed.
	FlowLabels []FlowLabel

	// Notes are what a reader of results must know, such as ambiguous inference or a capture that starts in the middle.
	Notes []string
}

// Checked is a trace that may be analysed. Only this package makes one: from a mirror trace that passed the four
// integrity conditions, from captures (which have no conditions; see Meta), or for tests from records
// ([CheckedRecords]).
type Checked struct {
	meta   Meta
	stream func(ctx context.Context, fn func(*Record) error) error
	// batches is the same pass in batches; nil: there is only stream.
	batches func(ctx context.Context, b *batcher) error
	// others are the readings of a pair that the packets do not exclude: other places of the taps, or, if packets passed
	// one tap while the other did not record, the first capture alone.
	others []*Checked
	// payloads streams records with the hashes of their payloads, at least those at the wanted times. nil: use stream.
	payloads func(ctx context.Context, wanted *wantedPackets, fn func(*Record) error) error
}

// Meta returns what is known about the trace as a whole.
func (c *Checked) Meta() Meta { return c.meta }

// ForEach calls fn for every record in trace order. The record is valid during the call only. ForEach stops when ctx
// ends and at the first error of fn, which it returns unchanged. It may be called any number of times, also
// concurrently: each call reads the whole trace in bounded memory.
func (c *Checked) ForEach(ctx context.Context, fn func(*Record) error) error {
	return c.stream(ctx, fn)
}

// ForEachBatch is ForEach by batches: it asks buffer, which must not return an empty slice, where to put records, and
// calls fn with what it has put there, until the trace ends. A batch belongs to fn. The last one may be short.
func (c *Checked) ForEachBatch(ctx context.Context, buffer func() []Record, fn func([]Record) error) error {
	b := &batcher{buffer: buffer, fn: fn}
	pass := c.batches
	if pass == nil {
		pass = func(ctx context.Context, b *batcher) error { return c.stream(ctx, b.add) }
	}
	if err := pass(ctx, b); err != nil {
		return err
	}
	return b.finish()
}

// batcher puts records into batches.
type batcher struct {
	buffer func() []Record
	fn     func([]Record) error
	batch  []Record
	n      int
}

// next returns the place of the next record.
func (b *batcher) next() (*Record, error) {
	if b.n == len(b.batch) {
		if err := b.finish(); err != nil {
			return nil, err
		}
		b.batch = b.buffer()
	}
	b.n++
	return &b.batch[b.n-1], nil
}

// discard takes back the latest place.
func (b *batcher) discard() { b.n-- }

func (b *batcher) add(r *Record) error {
	place, err := b.next()
	if err != nil {
		return err
	}
	*place = *r
	return nil
}

// finish hands over what there is.
func (b *batcher) finish() error {
	batch := b.batch[:b.n]
	b.batch, b.n = nil, 0
	if len(batch) == 0 {
		return nil
	}
	return b.fn(batch)
}

// CountedUnseen returns how many frames are known to be missing from a capture: those that could not be decoded, and
// those that the file counts as dropped.
func (m *Meta) CountedUnseen() int64 {
	n := m.Unread
	for i := range m.Interfaces {
		n += int64(min(m.Interfaces[i].Dropped, 1<<32))
	}
	return n
}

// WithUnseenFrames returns the trace in the reading that its taps may have missed frames, or false if that is excluded:
// a mirror trace with integrity is complete, and the user may declare captures complete. Two taps that agree confirm
// each other (Meta.Agreed), unless this reading shows a frame that both lack. Of a pair the upstream capture is used,
// as it is unknown where a frame that is missing downstream was lost.
func (c *Checked) WithUnseenFrames() (*Checked, bool) {
	if c.meta.Kind == KindMirror || c.meta.Complete && !c.meta.Agreed || c.meta.MayMiss {
		return nil, false
	}
	meta := c.meta
	meta.MayMiss, meta.Complete, meta.Agreed = true, false, false
	if meta.Kind == KindPlain {
		return &Checked{meta: meta, stream: c.stream, batches: c.batches, payloads: c.payloads}, true
	}
	meta.Kind, meta.EventsKnown = KindPlain, false
	return &Checked{meta: meta, payloads: c.payloads, stream: func(ctx context.Context, fn func(*Record) error) error {
		return c.stream(ctx, func(r *Record) error {
			if !r.Has(Sent) {
				return nil
			}
			seen := *r
			seen.Flags |= Passed
			seen.Event = EventNone
			return fn(&seen)
		})
	}}, true
}

// OtherReadings returns the trace as if the taps of a pair were at other places, as far as the packets do not exclude
// that.
func (c *Checked) OtherReadings() []*Checked { return c.others }

// CheckedRecords makes a trace of records in memory, for tests of analyzers. Zero fields of meta are completed: a
// mirror trace with mirror ids and known events.
func CheckedRecords(meta Meta, records []Record) *Checked {
	if meta.Kind == 0 {
		meta.Kind = KindMirror
	}
	if meta.PacketIDs == "" {
		meta.PacketIDs = PacketIDsFrame
		if meta.Kind == KindMirror {
			meta.PacketIDs = PacketIDsMirror
		}
	}
	meta.EventsKnown = meta.EventsKnown || meta.Kind != KindPlain
	meta.Packets = int64(len(records))
	for i := range records {
		if t := records[i].TimeNS; i == 0 {
			meta.StartNS, meta.EndNS = t, t
		} else {
			meta.StartNS, meta.EndNS = min(meta.StartNS, t), max(meta.EndNS, t)
		}
	}
	records = slices.Clone(records)
	return &Checked{meta: meta, stream: func(ctx context.Context, fn func(*Record) error) error {
		for i := range records {
			if i%cancelEvery == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r := records[i] // a copy: fn must not change what later calls see
			if err := fn(&r); err != nil {
				return err
			}
		}
		return nil
	}}
}

// cancelEvery is how many records are processed between two checks of the context: less than a millisecond of work.
const cancelEvery = 4096
