package ndp

import (
	"cmp"
	"math/bits"
	"slices"
)

// turns selects the next PULL round-robin in the order of senders, skipping connections without credits. The order of
// arriving credits would favour connections whose packets were trimmed: headers overtake data, so these connections
// would get more PULLs than others and delay them by more than a round.
type turns struct {
	ring []*receiver // connections that are not complete, by sender and number
	due  []uint64    // bit i: ring[i] has credits
	last receiverKey // connection of the latest turn
	next int         // number of connections in ring up to last
}

func (k receiverKey) compare(other receiverKey) int {
	return cmp.Or(cmp.Compare(k.from, other.from), cmp.Compare(k.connection, other.connection))
}

// add inserts r.
func (t *turns) add(r *receiver) {
	at, _ := slices.BinarySearchFunc(t.ring, r, func(a, b *receiver) int { return a.compare(b.receiverKey) })
	t.ring = slices.Insert(t.ring, at, r)
	if len(t.ring) > 64*len(t.due) {
		t.due = append(t.due, 0)
	}
	t.renumber(at)
	if r.compare(t.last) <= 0 {
		t.next++
	}
}

// remove removes r.
func (t *turns) remove(r *receiver) {
	at := int(r.place)
	t.ring = slices.Delete(t.ring, at, at+1)
	t.due[len(t.ring)/64] &^= 1 << (len(t.ring) % 64)
	t.renumber(at)
	if at < t.next {
		t.next--
	}
}

// renumber updates places and bits from index i on.
func (t *turns) renumber(i int) {
	for ; i < len(t.ring); i++ {
		r := t.ring[i]
		r.place = int32(i)
		if r.credits > 0 {
			t.mark(r)
		} else {
			t.unmark(r)
		}
	}
}

func (t *turns) mark(r *receiver)   { t.due[r.place>>6] |= 1 << (r.place & 63) }
func (t *turns) unmark(r *receiver) { t.due[r.place>>6] &^= 1 << (r.place & 63) }

// took records a turn of r.
func (t *turns) took(r *receiver) { t.last, t.next = r.receiverKey, int(r.place)+1 }

// turn returns the next connection with credits. There must be one.
func (t *turns) turn() *receiver {
	i, ok := t.from(t.next)
	if !ok {
		i, _ = t.from(0)
	}
	return t.ring[i]
}

// from returns the index of the first connection from i on that has credits.
func (t *turns) from(i int) (int, bool) {
	for word := i >> 6; word < len(t.due); word++ {
		set := t.due[word]
		if word == i>>6 {
			set &= ^uint64(0) << (i & 63)
		}
		if set != 0 {
			return word<<6 + bits.TrailingZeros64(set), true
		}
	}
	return 0, false
}
