package fabric

import (
	"candela.dev/candela/packet"
)

// Order is how a queue orders its packets.
type Order uint8

// Orders.
const (
	ByArrival Order = iota // first in, first out
	ByRank                 // lowest Packet.Rank first, first in first out among equals (PIFO)
)

// Queue is one queue of a port. Its occupancy counts waiting packets: the frame on the wire has left it. A packet that comes
// uses the first two cache lines of 64 bytes, one that leaves the first and the third.
type Queue struct {
	first, last *Packet
	packets     int
	bytes       int
	config      QueueSpec
	counters    QueueCounters
	_           [24]byte
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
func (q *Queue) Packets() int { return q.packets }

// Bytes returns how many bytes wait.
func (q *Queue) Bytes() int { return q.bytes }

// Spec returns the queue's configuration.
func (q *Queue) Spec() *QueueSpec { return &q.config }

// Counters returns the queue's counters; the caller only reads them.
func (q *Queue) Counters() *QueueCounters { return &q.counters }

// Head returns the packet that would leave next, or nil.
func (q *Queue) Head() *Packet { return q.first }

// Tail returns the packet that would leave last, or nil.
func (q *Queue) Tail() *Packet { return q.last }

// After returns the packet that leaves after p, which waits in this queue, or nil.
func (q *Queue) After(p *Packet) *Packet { return p.next }

// Before returns the packet that leaves before p, which waits in this queue, or nil.
func (q *Queue) Before(p *Packet) *Packet { return p.prev }

// fits reports whether the queue's own limits leave room for size bytes more.
func (q *Queue) fits(size int) bool {
	c := &q.config
	return (c.MaxBytes == 0 || q.bytes+size <= c.MaxBytes) && (c.MaxPackets == 0 || q.packets < c.MaxPackets)
}

// insert puts p in its place.
func (q *Queue) insert(p *Packet) {
	before := q.last
	if q.config.Order == ByRank {
		for before != nil && before.Rank > p.Rank {
			before = before.prev
		}
	}
	q.link(p, before)
	q.packets++
	q.bytes += int(p.Size)
	c := &q.counters
	c.Enqueued++
	c.EnqueuedBytes += uint64(p.Size)
	c.MaxPackets = max(c.MaxPackets, q.packets)
	c.MaxBytes = max(c.MaxBytes, q.bytes)
}

// link puts e behind before, or first if before is nil.
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

// remove takes p, which waits in this queue, out of it.
func (q *Queue) remove(p *Packet) {
	e := p
	if e.prev == nil {
		q.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.next, e.prev = nil, nil
	q.packets--
	q.bytes -= int(p.Size)
}

// marks reports whether a packet that finds bytes waiting is to be marked; draw is called at most once, for a number in [0,1).
func (m *MarkSpec) marks(bytes int, draw func() float64) bool {
	switch {
	case bytes < m.MinBytes || m.MaxBytes == 0:
		return false
	case bytes >= m.MaxBytes:
		return true
	}
	return draw()*float64(m.MaxBytes-m.MinBytes) < m.Probability*float64(bytes-m.MinBytes)
}

// ect reports whether the packet's sender understands marks.
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
