package fabric

import "slices"

// rankIndex finds a packet's position in a queue by rank. It lists the waiting ranks, lowest first, each with its last
// packet. A heap would find only the first packet; mechanisms also evict the last one and walk the queue.
type rankIndex struct {
	ranks []uint64 // without the lower bits that do not count
	lasts []*Packet
	head  int // earlier entries are unused
	shift uint8
}

// find returns the position of a rank, and whether it is present.
func (x *rankIndex) find(rank uint64) (int, bool) {
	i, found := slices.BinarySearch(x.ranks[x.head:], rank)
	return x.head + i, found
}

// insert adds p and returns its predecessor; nil: p is the first.
func (x *rankIndex) insert(p *Packet) (before *Packet) {
	rank := p.Rank >> x.shift
	i, found := x.find(rank)
	if found {
		before, x.lasts[i] = x.lasts[i], p
		return before
	}
	if i > x.head {
		before = x.lasts[i-1]
	}
	if i == x.head && x.head > 0 {
		x.head--
		x.ranks[x.head], x.lasts[x.head] = rank, p
		return before
	}
	x.ranks, x.lasts = slices.Insert(x.ranks, i, rank), slices.Insert(x.lasts, i, p)
	return before
}

// remove removes p; before is its predecessor, or nil.
func (x *rankIndex) remove(p, before *Packet) {
	i, found := x.find(p.Rank >> x.shift)
	if !found || x.lasts[i] != p {
		return
	}
	switch {
	case before != nil && before.Rank>>x.shift == p.Rank>>x.shift:
		x.lasts[i] = before
	case i == x.head:
		x.lasts[i] = nil
		if x.head++; x.head > 64 && 2*x.head > len(x.ranks) {
			x.ranks, x.lasts = slices.Delete(x.ranks, 0, x.head), slices.Delete(x.lasts, 0, x.head)
			x.head = 0
		}
	default:
		x.ranks, x.lasts = slices.Delete(x.ranks, i, i+1), slices.Delete(x.lasts, i, i+1)
	}
}
