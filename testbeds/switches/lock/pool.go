package lock

import (
	"cmp"
	"slices"
)

// Region is the slots of a lock in the pool, both bounds included.
type Region struct {
	Lock        uint32
	Left, Right int
}

// regions are those of a pool, in order. While a lock is about to be placed it has two.
type regions struct {
	list   []Region
	packed int // so many first ones have no hole before them
	slots  int
}

func (r *regions) search(g Region) int {
	i, _ := slices.BinarySearchFunc(r.list, g, func(a, b Region) int {
		return cmp.Or(cmp.Compare(a.Left, b.Left), cmp.Compare(a.Lock, b.Lock))
	})
	return i
}

func (r *regions) add(g Region) {
	i := r.search(g)
	r.list = slices.Insert(r.list, i, g)
	r.packed = min(r.packed, i)
}

func (r *regions) remove(g Region) {
	i := r.search(g)
	r.list = slices.Delete(r.list, i, i+1)
	r.packed = min(r.packed, i)
}

// end returns the slot after so many first regions that have no hole before them.
func (r *regions) end(n int) int {
	at := 0
	for i := n - 1; i >= 0 && i >= n-2; i-- { // of two that overlap, the first may end later
		at = max(at, r.list[i].Right+1)
	}
	return at
}

// holes calls f with the bounds of the holes, from left to right, until it returns false.
func (r *regions) holes(f func(left, size int) bool) {
	at := r.end(r.packed)
	for r.packed < len(r.list) && r.list[r.packed].Left <= at {
		at = max(at, r.list[r.packed].Right+1)
		r.packed++
	}
	for _, g := range r.list[r.packed:] {
		if g.Left > at && !f(at, g.Left-at) {
			return
		}
		at = max(at, g.Right+1)
	}
	if at < r.slots {
		f(at, r.slots-at)
	}
}

// first returns the first hole that has so many slots, or -1.
func (r *regions) first(slots int) int {
	found := -1
	r.holes(func(left, size int) bool {
		if size >= slots {
			found = left
		}
		return found < 0
	})
	return found
}

// free returns the free slots, and those of the largest hole.
func (r *regions) free() (free, largest int) {
	r.holes(func(_, size int) bool {
		free, largest = free+size, max(largest, size)
		return true
	})
	return free, largest
}

func (l *entry) region() Region { return Region{l.id, l.left, l.left + l.size - 1} }

// Regions returns those of all locks in the pool, from left to right. A lock that is about to be placed has two.
func (d *DataPlane) Regions() []Region { return slices.Clone(d.regions.list) }

// Free returns the free slots of the pool, and those of its largest hole.
func (d *DataPlane) Free() (free, largest int) { return d.regions.free() }
