package ndp

import "math/bits"

// slot is the state of one sent packet.
type slot struct {
	sent  uint32 // ordinal of its latest transmission
	state slotState
	cause Cause // of the next retransmission
	tries uint8 // timeouts so far
}

type slotState uint8

const (
	unanswered slotState = iota // in flight, or lost
	waiting                     // to be retransmitted
	acked
)

// sendWindow holds the packets from the oldest unacknowledged one to the newest one sent, in rings that grow to the
// next power of two. Numbers do not wrap, because Send limits the length of flows.
type sendWindow struct {
	base, next uint32
	slots      []slot
	queue      []uint64 // bitmap of waiting packets, in the same ring
	waiting    int
	lowest     uint32 // lower bound of the waiting packets
	tagged     bool
	tags       []uint16 // path of each packet's latest transmission, in the same ring; only if tagged
}

// smallestWindow is the first size of the bitmap of a receiver, and smallestRing that of a sender's ring.
const (
	smallestWindow = 64
	smallestRing   = 8
)

func (w *sendWindow) tag(seq uint32) *uint16 { return &w.tags[seq&uint32(len(w.tags)-1)] }

func (w *sendWindow) at(seq uint32) *slot { return &w.slots[seq&uint32(len(w.slots)-1)] }

// holds reports whether seq was sent and is at or after the oldest unacknowledged packet.
func (w *sendWindow) holds(seq uint32) bool { return seq >= w.base && seq < w.next }

// push makes room for the next packet and returns its number.
func (w *sendWindow) push() uint32 {
	if int(w.next-w.base) == len(w.slots) {
		w.grow(2 * len(w.slots))
	}
	seq := w.next
	w.next++
	*w.at(seq) = slot{}
	return seq
}

// reserve makes room for the first packets of a flow: of many short flows at once most memory is here.
func (w *sendWindow) reserve(packets uint32) {
	w.grow(1 << bits.Len32(max(1, packets)-1))
}

func (w *sendWindow) grow(size int) {
	old := *w
	size = max(smallestRing, size)
	w.slots = make([]slot, size)
	w.queue = make([]uint64, max(1, size/64))
	if w.tagged {
		w.tags = make([]uint16, size)
	}
	for seq := old.base; seq < old.next; seq++ {
		s := *old.at(seq)
		*w.at(seq) = s
		if w.tagged {
			*w.tag(seq) = *old.tag(seq)
		}
		if s.state == waiting {
			w.mark(seq)
		}
	}
}

func (w *sendWindow) mark(seq uint32) { w.queue[w.word(seq)] |= 1 << (seq & 63) }

func (w *sendWindow) word(seq uint32) int { return int(seq&uint32(len(w.slots)-1)) / 64 }

// enqueue queues seq, which is unanswered, for retransmission.
func (w *sendWindow) enqueue(seq uint32, why Cause) {
	s := w.at(seq)
	s.state, s.cause = waiting, why
	w.mark(seq)
	if w.waiting == 0 || seq < w.lowest {
		w.lowest = seq
	}
	w.waiting++
}

// dequeue returns the lowest waiting packet and marks it as sent. There must be one.
func (w *sendWindow) dequeue() uint32 {
	seq := max(w.lowest, w.base)
	for {
		if left := w.queue[w.word(seq)] >> (seq & 63); left != 0 {
			seq += uint32(bits.TrailingZeros64(left))
			break
		}
		seq = (seq | 63) + 1
	}
	w.unqueue(seq)
	w.lowest = seq + 1
	w.at(seq).state = unanswered
	return seq
}

func (w *sendWindow) unqueue(seq uint32) {
	w.queue[w.word(seq)] &^= 1 << (seq & 63)
	w.waiting--
}

// ack marks seq acknowledged and reports whether it was not before.
func (w *sendWindow) ack(seq uint32) bool {
	s := w.at(seq)
	if s.state == acked {
		return false
	}
	if s.state == waiting {
		w.unqueue(seq)
	}
	s.state = acked
	for w.base < w.next && w.at(w.base).state == acked {
		w.base++
	}
	return true
}

// receiveWindow records the packets that have arrived, from the first missing one on.
type receiveWindow struct {
	base uint32   // all lower packets have arrived
	span uint32   // bits in the ring
	ring []uint64 // one bit a packet
}

// add records seq and reports whether it is new.
func (w *receiveWindow) add(seq uint32) bool {
	if seq < w.base || w.has(seq) {
		return false
	}
	if seq == w.base && w.span == 0 { // the usual case: in order, no packets after a gap
		w.base++
		return true
	}
	for seq-w.base >= w.span {
		w.grow()
	}
	i := seq & (w.span - 1)
	w.ring[i/64] |= 1 << (i & 63)
	w.advance()
	return true
}

// has reports whether seq has arrived.
func (w *receiveWindow) has(seq uint32) bool {
	if seq < w.base {
		return true
	}
	if seq-w.base >= w.span {
		return false
	}
	i := seq & (w.span - 1)
	return w.ring[i/64]>>(i&63)&1 != 0
}

func (w *receiveWindow) advance() {
	for {
		i := w.base & (w.span - 1)
		word := w.ring[i/64] >> (i & 63)
		run := uint32(bits.TrailingZeros64(^word))
		run = min(run, 64-i&63)
		if run == 0 {
			return
		}
		mask := (uint64(1)<<run - 1) << (i & 63)
		if run == 64 {
			mask = ^uint64(0)
		}
		w.ring[i/64] &^= mask
		w.base += run
	}
}

func (w *receiveWindow) grow() {
	old := *w
	w.span = max(smallestWindow, 2*old.span)
	w.ring = make([]uint64, w.span/64)
	for seq := old.base; seq < old.base+old.span; seq++ {
		if old.has(seq) {
			i := seq & (w.span - 1)
			w.ring[i/64] |= 1 << (i & 63)
		}
	}
}
