package tcp

import (
	"slices"

	"candela.dev/candela/clock"
)

// span is a range of the stream, end excluded.
type span struct{ start, end uint64 }

// receiver is the receiving end of one direction.
type receiver struct {
	have    uint64 // of the stream, in order
	await   uint64 // deliveries are reported from so many bytes on
	beyond  []span // what has arrived beyond a gap, sorted, apart from each other
	latest  int    // of beyond: the range that was touched last
	pending int    // segments that no acknowledgement was sent for
	quick   int    // segments to be acknowledged at once
	ackNow  bool
	ackAt   clock.Time // of the delayed acknowledgement

	fresh, duplicates, reordered uint32
	top                          uint64 // end of the latest part of the stream that has arrived

	arrivedAt clock.Time // latest segment
	stamp     uint32     // of the first segment that no acknowledgement was sent for
	began     bool       // there is one
}

// arrived takes a segment with payload.
func (h *Host) arrived(now clock.Time, c *connection, p *Packet) {
	h.counters.SegmentsReceived++
	r := &c.receiver
	r.arrivedAt, r.began = now, true
	if r.pending == 0 {
		r.stamp, _, _ = p.Header.Times()
	}
	start, ok := h.cfg.offset(p.Header.Seq, r.have)
	end := start + uint64(p.Payload)
	switch {
	case !ok:
		h.counters.Invalid++
		return
	case end <= r.have:
		h.counters.Duplicates++
		r.duplicates++
		r.ackNow = true // the sender seems to have missed one
		return
	case end > r.have+uint64(h.cfg.ReceiveWindow):
		h.counters.OutOfWindow++
		r.ackNow = true
		return
	}
	h.notice(now, c, p)
	gaps := len(r.beyond) > 0
	if r.add(span{max(start, r.have), end}) {
		r.count(start, end)
	} else {
		h.counters.Duplicates++
		r.duplicates++
	}
	r.schedule(now, h.delayedACK(), h.ackEvery(), gaps || len(r.beyond) > 0)
	if len(r.beyond) > 0 && h.bugs.Has(BugNoDuplicateAck) {
		r.ackNow = false
	}
	if start <= r.have && end <= r.have && r.have >= r.await {
		h.report(now, c, Delivered, r.have)
	}
}

// count counts a segment that brings something new.
func (r *receiver) count(start, end uint64) {
	r.fresh++
	if start < r.top {
		r.reordered++
	}
	r.top = max(r.top, end)
}

// Await says that Delivered is of interest only once so many bytes have arrived in order. The sink may call it.
func (h *Host) Await(peer Endpoint, number uint32, bytes uint64) {
	if c := h.find(key{peer, number}); c != nil {
		c.await = bytes
	}
}

// Stream is how far a connection has come in both directions.
type Stream struct {
	Sent                            uint64 // segments, retransmissions included
	Received, Duplicates, Reordered uint32 // segments
	Bytes                           uint64 // that have arrived
}

// Connection returns how far a connection has come; ok is false if there is none.
func (h *Host) Connection(peer Endpoint, number uint32) (s Stream, ok bool) {
	c := h.find(key{peer, number})
	if c == nil {
		return Stream{}, false
	}
	stored := c.have
	for _, s := range c.beyond {
		stored += s.end - s.start
	}
	return Stream{c.ordinal, c.fresh, c.duplicates, c.reordered, stored}, true
}

// schedule decides when to acknowledge (RFC 5681, 4.2): at once while there are gaps, otherwise every second
// segment unless configured.
func (r *receiver) schedule(now clock.Time, delay clock.Duration, every int, gaps bool) {
	r.pending++
	switch {
	case gaps || r.pending >= every || r.quick > 0 || delay == 0:
		r.quick = max(0, r.quick-1)
		r.ackNow, r.ackAt = true, clock.Never
	case r.ackAt == clock.Never:
		r.ackAt = now.Add(delay)
	}
}

// add enters what has arrived and reports whether any of it is new.
func (r *receiver) add(s span) bool {
	i := 0
	for i < len(r.beyond) && r.beyond[i].end < s.start {
		i++
	}
	if i < len(r.beyond) && r.beyond[i].start <= s.start && s.end <= r.beyond[i].end {
		r.latest = i
		return false
	}
	last := i
	for last < len(r.beyond) && r.beyond[last].start <= s.end {
		s = span{min(s.start, r.beyond[last].start), max(s.end, r.beyond[last].end)}
		last++
	}
	if s.start <= r.have {
		r.have = s.end
		r.beyond = slices.Delete(r.beyond, 0, last)
		r.latest = 0
		return true
	}
	r.beyond = slices.Replace(r.beyond, i, last, s)
	r.latest = i
	return true
}

// acknowledge fills in the acknowledgement, which every packet carries.
func (h *Host) acknowledge(now clock.Time, c *connection, to *Header) {
	r := &c.receiver
	to.Flags |= FlagACK
	to.Ack = h.cfg.sequence(r.have)
	to.Window = uint16(h.cfg.ReceiveWindow >> h.cfg.Shift())
	if r.latest < len(r.beyond) && h.cfg.Detection != NewReno {
		b := r.beyond[r.latest]
		to.SACK = Block{Start: h.cfg.sequence(b.start), End: h.cfg.sequence(b.end)}
	}
	if h.cfg.Timestamps {
		to.SetTimes(uint32(now.Nanoseconds()), r.stamp)
	}
	h.echo(c, to)
	h.damageAck(r, to)
	r.pending, r.ackNow, r.ackAt = 0, false, clock.Never
}
