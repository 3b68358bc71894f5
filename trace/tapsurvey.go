package trace

import (
	"context"
	"errors"
	"io"
	"math/bits"

	"candela.dev/candela/packet"
)

// surveyLimit is how many frames of each capture a survey keeps: enough to bound clocks within the jitter of a path, in
// 4 MB.
const surveyLimit = 1 << 14

// A survey is what one pass over each of two captures shows of their clocks and places, before frames are matched one
// by one. Both keep the same sample of packets, chosen by connection and PSN, so that a frame, its repetitions and its
// acknowledgement are kept together.
type survey struct {
	taps [2]tapSurvey
	ways map[flowKey]int // (source, destination) to its number, in order of appearance
	list []flowKey

	acked    map[uint64]packet.PSN // the highest PSN that the responder of a connection has shown to have received
	oneSided map[int]bool          // connections whose other direction is not known: what answers what does not show
	order    []uint64              // what keys returns, once it was asked
}

type tapSurvey struct {
	seen           map[uint64]*glimpse
	mask           uint64 // packets whose hash has one of these bits are not kept
	frames         int64
	startNS, endNS int64
	fine           bool // some stamp is not a whole number of microseconds
}

// A glimpse is what a capture shows of frames with the same content.
type glimpse struct {
	timeNS int64 // of the first
	lastNS int64
	share  uint64 // decides whether it is kept
	place  uint64 // connection, PSN and direction
	// the place of the acknowledgement of a request, or of the request that an acknowledgement answers. 0: none
	answer  uint64
	copies  int32
	way     int32
	id      uint16 // IPv4 identification
	lastID  uint16 // of the latest
	doubled int32  // of copies, those with the identification of the one before: a switch may have made them
	ttl     uint8
	marked  bool
	data    bool // it is retransmitted if it is lost

	cumulative bool // it may answer a duplicate of any earlier request, too
}

func newSurvey() *survey {
	s := &survey{ways: make(map[flowKey]int), acked: make(map[uint64]packet.PSN), oneSided: make(map[int]bool)}
	for i := range s.taps {
		s.taps[i].seen = make(map[uint64]*glimpse)
	}
	return s
}

// read takes a capture in.
func (s *survey) read(ctx context.Context, tap int, stream *recordStream) error {
	return stream.each(ctx, func(o *observation) { s.add(tap, o) })
}

// each calls fn with every record, which is valid during the call.
func (s *recordStream) each(ctx context.Context, fn func(*observation)) error {
	var o observation
	for i := 0; ; i++ {
		if i%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch err := s.read(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		fn(&o)
	}
}

// way returns the number of a (source, destination).
func (s *survey) way(key flowKey) int {
	n, ok := s.ways[key]
	if !ok {
		n = len(s.list)
		s.ways[key] = n
		s.list = append(s.list, key)
	}
	return n
}

func (s *survey) add(tap int, o *observation) {
	t, r := &s.taps[tap], &o.rec
	if t.frames == 0 {
		t.startNS, t.endNS = r.TimeNS, r.TimeNS
	}
	t.frames++
	t.startNS, t.endNS = min(t.startNS, r.TimeNS), max(t.endNS, r.TimeNS)
	t.fine = t.fine || r.TimeNS%1000 != 0
	if r.ICRC == packet.ICRCInvalid || r.Opcode == packet.CNP {
		return // its fields prove nothing, or it looks like all others
	}
	if psn, ok := acknowledges(r); ok {
		connection := uint64(r.Flow.Connection())
		if last, ok := s.acked[connection]; !ok || last.Before(psn) {
			s.acked[connection] = psn
		}
	}
	share := mix(uint64(r.Flow.Connection())<<24|uint64(r.PSN), 0)
	if share&t.mask != 0 {
		return
	}
	way := s.way(o.way)
	key := contentHash(o)
	if g, ok := t.seen[key]; ok {
		g.copies++
		if g.lastID == o.ipID {
			g.doubled++
		}
		g.lastNS, g.lastID = r.TimeNS, o.ipID
		return
	}
	t.seen[key] = &glimpse{
		timeNS: r.TimeNS, lastNS: r.TimeNS, copies: 1, way: int32(way), id: o.ipID, lastID: o.ipID, ttl: o.ttl,
		marked: r.Marked(),
		data:   r.Opcode.IsData(),
		share:  share, place: placeHash(r, r.Opcode.IsRequest()), answer: s.answerPlace(r),
		cumulative: r.Opcode == packet.Acknowledge,
	}
	if len(t.seen) > surveyLimit {
		t.thin()
	}
}

// acknowledges returns the PSN up to which a response shows the SENDs and WRITEs to have been received: requests are
// executed in order. A NAK does not count, as its PSN may be wrong.
func acknowledges(r *Record) (packet.PSN, bool) {
	switch {
	case r.Opcode == packet.Acknowledge && r.Syndrome.IsAck(), r.Opcode == packet.AtomicAcknowledge,
		r.Opcode.IsReadResponse():
		return r.PSN, true
	}
	return 0, false
}

// tick returns the coarser resolution of the two captures' stamps.
func (s *survey) tick() int64 {
	if s.taps[0].fine && s.taps[1].fine {
		return 0
	}
	return 1000
}

// thin halves what is kept.
func (t *tapSurvey) thin() {
	t.mask = t.mask<<1 | 1
	for key, g := range t.seen {
		if g.share&t.mask != 0 {
			delete(t.seen, key)
		}
	}
}

// placeHash names connection, PSN and direction of a packet.
func placeHash(r *Record, request bool) uint64 {
	p := uint64(r.Flow.Connection())<<24 | uint64(r.PSN)
	if request {
		return p<<8 | placeRequest
	}
	return p<<8 | placeAnswer
}

const placeRequest, placeAnswer = 1, 2

// connectionOf returns the connection in a place.
func connectionOf(place uint64) uint64 { return place >> 32 }

// answerPlace names the answer to a request, or the request that an answer shows to have arrived.
func (s *survey) answerPlace(r *Record) uint64 {
	switch {
	case r.Flow == NoFlow || s.oneSided[r.Flow.Connection()]:
		return 0
	case r.Opcode.IsRequest():
		return placeHash(r, false)
	case r.Opcode == packet.Acknowledge && r.Syndrome.IsAck(), r.Opcode == packet.AtomicAcknowledge,
		r.Opcode.IsReadResponse() && r.Opcode.Starts():
		return placeHash(r, true)
	}
	return 0
}

// contentHash identifies packets by what no switch changes. Retransmissions have the same one.
func contentHash(o *observation) uint64 {
	r := &o.rec
	h := mix(o.way.a, o.way.b)
	h = mix(h^o.way.c, o.way.d)
	h = mix(h^uint64(r.DestQP)<<24^uint64(r.PSN), r.VA)
	h = mix(h^uint64(r.Opcode)<<32^uint64(r.DMALen), uint64(r.MSN)<<8|uint64(r.Syndrome))
	return mix(h^uint64(r.PayloadLen), uint64(r.RKey))
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	hi ^= lo
	hi ^= hi >> 29
	return hi
}

// identified reports whether IPv4 identifications distinguish a frame from its retransmission, and nothing between the
// taps replaces them.
func (s *survey) identified() bool {
	same, other := 0, 0
	values := make(map[uint16]bool)
	for _, key := range s.keys() {
		a, b := s.taps[0].seen[key], s.taps[1].seen[key]
		if a == nil || b == nil || a.copies != 1 || b.copies != 1 {
			continue
		}
		count(&same, a.id == b.id)
		count(&other, a.id != b.id)
		values[a.id] = true
	}
	const few = 16 // of 65536: equal ones are rare if they are drawn, and never near each other if they are counted
	return same >= few && 20*other <= same && 2*len(values) > min(same, 1<<15)
}
