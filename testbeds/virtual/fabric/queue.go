package fabric

import (
	"math"

	"candela.dev/candela/packet"
)

// Order is how a queue orders its packets.
type Order uint8

// Orders.
const (
	ByArrival Order = iota // first in, first out
	// lowest Packet.Rank first, FIFO among equal ranks (PIFO); a packet without a rank ends the run
	ByRank
)

// Queue is one queue of a port. Its occupancy counts waiting packets, without the frame on the wire. Insertion uses the
// first cache line of 64 bytes, removal both.
type Queue struct {
	first, last *Packet
	packets     int32
	maxPackets  int32 // high watermark
	bytes       int
	maxBytes    int   // high watermark
	room        int   // static limit in bytes
	places      int32 // static limit in packets
	ranked      bool  // config orders by rank
	shared      bool  // not private
	dynamic     bool  // has an alpha
	marking     bool  // marks
	config      *QueueSpec

	removed, removedBytes   uint64
	dequeued, dequeuedBytes uint64
	dropped, droppedBytes   uint64
	marked                  uint64
	credit                  int // of the port's scheduler
}

func (q *Queue) configure(c *QueueSpec) {
	if c.Order == ByRank {
		own := *c
		own.index = &rankIndex{shift: c.RankShift}
		c = &own
	}
	q.config = c
	q.restoreRoom()
	q.places = math.MaxInt32
	if c.MaxPackets > 0 {
		q.places = int32(min(c.MaxPackets, math.MaxInt32))
	}
	q.ranked, q.shared, q.dynamic = c.Order == ByRank, !c.Private, c.Alpha != 0
	q.marking = c.Mark.MaxBytes != 0 || c.Mark.Packets != 0
}

// restoreRoom sets the static limit in bytes as configured.
func (q *Queue) restoreRoom() {
	q.room = math.MaxInt
	if q.config.MaxBytes > 0 {
		q.room = q.config.MaxBytes
	}
}

// QueueCounters count since the start of the simulation.
type QueueCounters struct {
	Enqueued, EnqueuedBytes uint64
	MaxPackets, MaxBytes    int // high watermarks
	Dequeued, DequeuedBytes uint64
	Dropped, DroppedBytes   uint64 // refused, evicted, or dropped on the way out
	Marked                  uint64 // set to CE by the queue
}

// Packets returns how many packets wait.
func (q *Queue) Packets() int { return int(q.packets) }

// Bytes returns how many bytes wait.
func (q *Queue) Bytes() int { return q.bytes }

// Spec returns the queue's configuration.
func (q *Queue) Spec() *QueueSpec { return q.config }

// Counters returns the queue's counters.
func (q *Queue) Counters() QueueCounters {
	return QueueCounters{
		Enqueued: q.removed + uint64(q.packets), EnqueuedBytes: q.removedBytes + uint64(q.bytes),
		MaxPackets: int(q.maxPackets), MaxBytes: q.maxBytes,
		Dequeued: q.dequeued, DequeuedBytes: q.dequeuedBytes, Dropped: q.dropped, DroppedBytes: q.droppedBytes,
		Marked: q.marked,
	}
}

// Head returns the packet that would leave next, or nil.
func (q *Queue) Head() *Packet { return q.first }

// Tail returns the packet that would leave last, or nil.
func (q *Queue) Tail() *Packet { return q.last }

// After returns the packet that leaves after p, which waits in this queue, or nil.
func (q *Queue) After(p *Packet) *Packet { return p.next }

// Before returns the packet that leaves before p, which waits in this queue, or nil.
func (q *Queue) Before(p *Packet) *Packet {
	if p == q.first {
		return nil
	}
	return p.prev
}

// fits reports whether the queue's own limits leave room for size bytes more.
func (q *Queue) fits(size int) bool {
	return q.bytes+size <= q.room && q.packets < q.places
}

func (q *Queue) insert(p *Packet) {
	before := q.last
	if q.ranked {
		before = q.config.index.insert(p)
	}
	q.link(p, before)
	q.packets++
	q.bytes += int(p.Size)
	q.maxPackets = max(q.maxPackets, q.packets)
	q.maxBytes = max(q.maxBytes, q.bytes)
}

// link inserts e after before, or first if before is nil.
func (q *Queue) link(e, before *Packet) {
	e.prev = before
	if before == nil {
		e.next, q.first = q.first, e
	} else {
		e.next, before.next = before.next, e
	}
	if e.next == nil {
		q.last = e
	} else {
		e.next.prev = e
	}
}

// remove removes p, which waits in this queue. The new first packet keeps a stale prev link, which Before ignores; so
// its memory is not touched.
func (q *Queue) remove(p *Packet) {
	if q.ranked {
		q.config.index.remove(p, q.Before(p))
	}
	switch {
	case p != q.first && p != q.last:
		p.prev.next, p.next.prev = p.next, p.prev
	case p != q.first:
		q.last, p.prev.next = p.prev, nil
	case p != q.last:
		q.first = p.next
	default:
		q.first, q.last = nil, nil
	}
	p.next, p.prev = nil, nil
	q.took(p)
}

// took counts p, which has been removed.
func (q *Queue) took(p *Packet) {
	q.packets--
	q.bytes -= int(p.Size)
	q.removed++
	q.removedBytes += uint64(p.Size)
}

// marks reports whether a packet that finds bytes and packets waiting is to be marked; draw returns a number in [0,1)
// and is called at most once.
func (m *MarkSpec) marks(bytes, packets int, draw func() float64) bool {
	switch {
	case m.Packets != 0 && packets >= m.Packets:
		return true
	case bytes < m.MinBytes || m.MaxBytes == 0:
		return false
	case bytes >= m.MaxBytes:
		return true
	}
	return draw()*float64(m.MaxBytes-m.MinBytes) < m.Probability*float64(bytes-m.MinBytes)
}

// ect reports whether the packet is ECN-capable.
func ect(p *Packet) bool { return p.ECN == packet.ECT0 || p.ECN == packet.ECT1 }

// line is a plain FIFO of packets.
type line struct{ first, last *Packet }

func (l *line) push(p *Packet) {
	p.next = nil
	if l.first == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
}

func (l *line) pop() *Packet {
	p := l.first
	l.first, p.next = p.next, nil
	return p
}
