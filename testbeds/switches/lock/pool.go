package lock

import (
	"cmp"
	"math/bits"
	"slices"
)

// Region is the slots of a lock in the pool, both bounds included.
type Region struct {
	Lock        uint32
	Left, Right int
}

// regions are those of a pool. While a lock is about to be placed it has two, which may overlap. Finding a hole and
// changing a region take a time that grows with the logarithm of the pool.
type regions struct {
	slots, used int
	owner       []uint32 // by slot, of those in use
	cover       []uint8  // by slot: regions that have it
	free        []uint64 // a bit for each slot
	tree        []run    // of words of free: the children of i are 2i and 2i+1, the leaves come last
}

// run is the free slots of a part of the pool: how many are at its ends, and the most that are side by side.
type run struct{ first, last, most int32 }

const word = 64

func newRegions(slots int) regions {
	words := (slots + word - 1) / word
	leaves := 1 << bits.Len(uint(words-1))
	r := regions{slots: slots, owner: make([]uint32, slots), cover: make([]uint8, slots), free: make([]uint64, leaves),
		tree: make([]run, 2*leaves)}
	for i := range slots {
		r.free[i/word] |= 1 << (i % word)
	}
	r.changed(0, slots-1)
	return r
}

// changed brings the tree up to date after slots from left to right have changed.
func (r *regions) changed(left, right int) {
	from, to := left/word, right/word
	for i := from; i <= to; i++ {
		r.tree[len(r.free)+i] = runOf(r.free[i])
	}
	size := int32(word)
	for from, to = (len(r.free)+from)/2, (len(r.free)+to)/2; from > 0; from, to = from/2, to/2 {
		for i := from; i <= to; i++ {
			r.tree[i] = join(r.tree[2*i], r.tree[2*i+1], size)
		}
		size *= 2
	}
}

func runOf(free uint64) (r run) {
	r.first, r.last = int32(bits.TrailingZeros64(^free)), int32(bits.LeadingZeros64(^free))
	for ; free != 0; free &= free << 1 {
		r.most++
	}
	return r
}

// join returns the run of two parts of a size, side by side.
func join(a, b run, size int32) run {
	r := run{a.first, b.last, max(a.most, b.most, a.last+b.first)}
	if a.first == size {
		r.first += b.first
	}
	if b.last == size {
		r.last += a.last
	}
	return r
}

func (r *regions) add(g Region) {
	for i := g.Left; i <= g.Right; i++ {
		if r.cover[i]++; r.cover[i] == 1 {
			r.owner[i] = g.Lock
			r.free[i/word] &^= 1 << (i % word)
			r.used++
		}
	}
	r.changed(g.Left, g.Right)
}

func (r *regions) remove(g Region) {
	for i := g.Left; i <= g.Right; i++ {
		if r.cover[i]--; r.cover[i] == 0 {
			r.free[i/word] |= 1 << (i % word)
			r.used--
		}
	}
	r.changed(g.Left, g.Right)
}

// first returns the first hole that has so many slots, or -1.
func (r *regions) first(slots int) int {
	n := int32(min(slots, r.slots+1)) // more fit nowhere
	if r.tree[1].most < n {
		return -1
	}
	i, left, size := 1, 0, word*len(r.free)
	for i < len(r.free) {
		size /= 2
		a, b := &r.tree[2*i], &r.tree[2*i+1]
		switch {
		case a.most >= n:
			i = 2 * i
		case a.last+b.first >= n:
			return left + size - int(a.last)
		default:
			i, left = 2*i+1, left+size
		}
	}
	for free := r.free[i-len(r.free)]; ; {
		skip := bits.TrailingZeros64(free)
		free, left = free>>skip, left+skip
		length := bits.TrailingZeros64(^free)
		if length >= int(n) {
			return left
		}
		free, left = free>>length, left+length
	}
}

// after returns the lock that is the first after a hole that begins at a slot; false: there is none.
func (r *regions) after(hole int) (lock uint32, ok bool) {
	used := ^r.free[hole/word] >> (hole % word) << (hole % word)
	for i := hole / word; ; used = ^r.free[i] {
		if used != 0 {
			at := i*word + bits.TrailingZeros64(used)
			return r.owner[min(at, r.slots-1)], at < r.slots
		}
		if i++; i == len(r.free) {
			return 0, false
		}
	}
}

func (l *entry) region() Region { return Region{l.id, l.left, l.left + l.size - 1} }

// Regions returns those of all locks in the pool, from left to right. A lock that is about to be placed has two.
func (d *DataPlane) Regions() (list []Region) {
	if d.pool == nil {
		return nil
	}
	for _, l := range d.locks {
		list = append(list, l.region())
		if l.reserved {
			list = append(list, l.reserve)
		}
	}
	slices.SortFunc(list, func(a, b Region) int {
		return cmp.Or(cmp.Compare(a.Left, b.Left), cmp.Compare(a.Lock, b.Lock), cmp.Compare(a.Right, b.Right))
	})
	return list
}

// Free returns the free slots of the pool, and those of its largest hole.
func (d *DataPlane) Free() (free, largest int) {
	if d.pool == nil {
		return 0, 0
	}
	return d.regions.slots - d.regions.used, int(d.regions.tree[1].most)
}
