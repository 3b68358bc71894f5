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

// Regions returns those of all locks, from left to right.
func (d *DataPlane) Regions() []Region {
	list := make([]Region, 0, len(d.locks))
	for id, l := range d.locks {
		list = append(list, Region{id, l.left, l.left + l.size - 1})
	}
	slices.SortFunc(list, func(a, b Region) int { return cmp.Or(cmp.Compare(a.Left, b.Left), cmp.Compare(a.Lock, b.Lock)) })
	return list
}

// holes calls f with the bounds of the holes between regions, from left to right, until it returns false.
func holes(regions []Region, slots int, f func(left, size int) bool) {
	at := 0
	for _, r := range regions {
		if r.Left > at && !f(at, r.Left-at) {
			return
		}
		at = max(at, r.Right+1)
	}
	if at < slots {
		f(at, slots-at)
	}
}

// hole returns the first hole of the pool that has so many slots, or -1.
func (d *DataPlane) hole(slots int) int { return firstHole(d.Regions(), len(d.pool), slots) }

func firstHole(regions []Region, pool, slots int) int {
	found := -1
	holes(regions, pool, func(left, size int) bool {
		if size >= slots {
			found = left
		}
		return found < 0
	})
	return found
}

// Free returns the free slots of the pool, and those of its largest hole.
func (d *DataPlane) Free() (free, largest int) {
	holes(d.Regions(), len(d.pool), func(_, size int) bool {
		free, largest = free+size, max(largest, size)
		return true
	})
	return free, largest
}
