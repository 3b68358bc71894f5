package gbn

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A sent is what the observer keeps of one request, to recognise its retransmission.
type sent struct {
	pos     pos
	va      uint64
	id      uint64 // of its last transmission
	firstNS int64  // of its first transmission
	dmaLen  uint32
	rkey    uint32
	payload uint16
	opcode  packet.Opcode
	first   packet.Opcode // of its first transmission
	known   bool
	lost    uint8 // of its transmissions, at most 255
	dropped bool  // some transmission did not pass the injector, not even damaged
	damaged bool  // every transmission had a wrong iCRC: its contents are not known
}

// A window keeps the latest requests by position, at least everything in flight up to windowMax packets; older ones are
// overwritten and not compared.
type window struct {
	ring []sent // len is a power of two
}

const (
	// windowStart is the initial length: an idle connection takes little memory. Up to windowMin a window grows rather
	// than forget a request.
	windowStart = 4
	windowMin   = 32
	windowMax   = 1 << 14
)

func newWindow() window { return window{ring: make([]sent, windowStart)} }

// get returns the request at p if it is remembered.
func (w *window) get(p pos) (*sent, bool) {
	s := &w.ring[int(p)&(len(w.ring)-1)]
	return s, s.known && s.pos == p
}

// put keeps r as the last transmission of p. The requests from oldest on are needed, too.
func (w *window) put(p, oldest pos, r *trace.Record) {
	for p-oldest >= int64(len(w.ring)) && len(w.ring) < windowMax {
		w.grow()
	}
	slot := &w.ring[int(p)&(len(w.ring)-1)]
	for len(w.ring) < windowMin && slot.known && slot.pos != p {
		w.grow()
		slot = &w.ring[int(p)&(len(w.ring)-1)]
	}
	first, opcode, lost, dropped := r.TimeNS, r.Opcode, uint8(0), r.Event == trace.EventDrop
	if slot.known && slot.pos == p {
		first, opcode, lost, dropped = slot.firstNS, slot.first, slot.lost, dropped || slot.dropped
	}
	if r.Lost() && lost < 255 {
		lost++
	}
	damaged := r.ICRC == packet.ICRCInvalid
	if damaged && slot.known && slot.pos == p {
		slot.id, slot.lost, slot.dropped = r.ID, lost, dropped
		return
	}
	// Field by field, as a composite is made elsewhere and copied.
	slot.pos, slot.va, slot.id, slot.firstNS, slot.dmaLen, slot.rkey, slot.payload = p, r.VA, r.ID, first, r.DMALen,
		r.RKey, r.PayloadLen
	slot.opcode, slot.first, slot.known, slot.lost, slot.dropped, slot.damaged = r.Opcode, opcode, true, lost, dropped,
		damaged
}

func (w *window) grow() {
	ring := make([]sent, 2*len(w.ring))
	for _, s := range w.ring {
		if s.known {
			ring[int(s.pos)&(len(ring)-1)] = s
		}
	}
	w.ring = ring
}

// A span is a READ or atomic request: positions first to last carry its responses.
type span struct {
	first, last pos
	va          uint64
	id          uint64
	length      uint32
	rkey        uint32
	atomic      bool
	restarts    int // how often a part of it was requested again
	high        pos // highest response seen, in a plain capture
}

// spans keeps READ and atomic requests in order of position, from the oldest that the requester may request again to
// the newest. The first missing response is at next, in span number open.
type spans struct {
	ring      []span // len is a power of two
	head, len int
	open      int // index of the first span that is not completely answered; len if all are
	next      pos // first missing response of that span
}

const (
	spansMin = 4
	spansMax = 4096
	// spansKept is how many answered requests are kept, for requests that repeat them unnecessarily.
	spansKept = 4
)

func (q *spans) at(i int) *span { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// push adds a request later than all others.
func (q *spans) push(s span) {
	if q.len == len(q.ring) {
		if len(q.ring) < spansMax {
			q.grow()
		} else {
			q.pop()
		}
	}
	q.len++
	*q.at(q.len - 1) = s
	if q.open == q.len-1 {
		q.next = s.first
	}
}

func (q *spans) grow() {
	ring := make([]span, max(spansMin, 2*len(q.ring)))
	for i := range q.len {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}

func (q *spans) pop() {
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.len--
	if q.open > 0 {
		q.open--
	} else if q.len > 0 {
		q.next = q.at(0).first
	}
}

// forget discards answered spans that end before p, except some that a duplicate may repeat.
func (q *spans) forget(p pos) {
	for q.open > spansKept && q.at(0).last < p {
		q.pop()
	}
}

// missing returns the position of the first response that has not passed in order, or false if there is none.
func (q *spans) missing() (pos, bool) { return q.next, q.open < q.len }

// answered notes that the response at next passed in order.
func (q *spans) answered() {
	q.next++
	if q.next > q.at(q.open).last {
		q.open++
		if q.open < q.len {
			q.next = q.at(q.open).first
		}
	}
}

// starts reports whether a READ or atomic request begins at p.
func (q *spans) starts(p pos) bool {
	sp, ok := q.covering(p)
	return ok && sp.first == p
}

// covering returns the span that p belongs to.
func (q *spans) covering(p pos) (*span, bool) {
	lo, hi := 0, q.len
	for lo < hi {
		mid := (lo + hi) / 2
		if q.at(mid).last < p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < q.len && q.at(lo).first <= p {
		return q.at(lo), true
	}
	return nil, false
}
