package lock

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"candela.dev/candela/clock"
)

// ControlConfig describes a control plane.
type ControlConfig struct {
	Lease clock.Duration // after which holders lose a lock; 0: never
	Poll  clock.Duration // of leases
	// Period of the allocation; 0: locks keep what they have.
	Period clock.Duration
	// Allocate divides the slots of the pool; nil: Greedy.
	Allocate func(demands []Demand, slots int) Allocation
	// Quota is the period of quotas; 0: a second.
	Quota clock.Duration
	// Reaction is how long after a lock is drained, or has moved, the control plane goes on to move locks; 0: 100 us.
	Reaction clock.Duration
}

// Control is the control plane of a lock switch (sections 6.4, 8.3 and 9). It does something at times only: the caller
// asks NextTimer after each packet and each timer of the data plane.
type Control struct {
	cfg    ControlConfig
	plane  *DataPlane
	began  clock.Time // when intervals began
	target Allocation
	// Locks that do not have what target says, by number, and those that are to be placed when they are drained.
	pending, relocating []uint32
	out                 []Output
}

// NewControl returns the control plane of a data plane, which gets counters of locks that are not installed if
// Config.Track says so.
func NewControl(now clock.Time, cfg ControlConfig, plane *DataPlane) (*Control, error) {
	if cfg.Quota == 0 {
		cfg.Quota = clock.Second
	}
	if cfg.Reaction == 0 {
		cfg.Reaction = 100 * clock.Microsecond
	}
	if cfg.Allocate == nil {
		cfg.Allocate = Greedy
		if plane.cfg.Bugs.Has(AllocatesByRate) {
			cfg.Allocate = byRate
		}
	}
	switch {
	case cfg.Lease < 0 || cfg.Period < 0 || cfg.Quota < 0 || cfg.Reaction < 0:
		return nil, fmt.Errorf("lease %d, period %d, quota %d, reaction %d: want no negative durations", cfg.Lease,
			cfg.Period, cfg.Quota, cfg.Reaction)
	case cfg.Lease > 0 && cfg.Poll <= 0:
		return nil, fmt.Errorf("leases are polled every %d, want a positive duration", cfg.Poll)
	case cfg.Period > 0 && plane.pool == nil:
		return nil, fmt.Errorf("slots are allocated every %d, but there is no pool", cfg.Period)
	}
	plane.leases = cfg.Lease > 0
	return &Control{cfg: cfg, plane: plane, began: now}, nil
}

// NextTimer returns when Timer is due; clock.Never: not before the next packet. Intervals in which nothing happens end
// unnoticed.
func (c *Control) NextTimer() clock.Time {
	next := clock.Never
	if g := c.plane.granted.front(); c.cfg.Lease > 0 && g != nil {
		// The first poll that finds the lease ended.
		next = c.following(g.at.Add(c.cfg.Lease), c.cfg.Poll)
	}
	next = min(next, c.following(c.plane.quotas.counted, c.cfg.Quota))
	if c.cfg.Period > 0 && !c.plane.frozen {
		next = min(next, c.following(c.plane.asked, c.cfg.Period))
	}
	if c.moving() && c.plane.drained != clock.Never {
		next = min(next, c.plane.drained.Add(c.cfg.Reaction))
	}
	return next
}

// Timer does what is due. The outputs are valid until the next call.
func (c *Control) Timer(now clock.Time) []Output {
	c.out = c.out[:0]
	if c.cfg.Lease > 0 && now >= clock.Time(c.cfg.Lease) {
		c.expire(now, now-clock.Time(c.cfg.Lease))
	}
	if now >= c.following(c.plane.quotas.counted, c.cfg.Quota) {
		c.plane.ResetQuotas()
	}
	if c.cfg.Period > 0 && !c.plane.frozen && now >= c.following(c.plane.asked, c.cfg.Period) {
		c.allocate()
	}
	if c.moving() {
		c.plane.drained = clock.Never
		c.advance(now)
	}
	return c.out
}

// following returns the end of the interval that an instant is in.
func (c *Control) following(at clock.Time, d clock.Duration) clock.Time {
	if at == clock.Never {
		return at
	}
	return at - (at-c.began)%clock.Time(d) + clock.Time(d)
}

// expire ends leases. Grants have the order of time: those that are polled in vain ended before.
func (c *Control) expire(now, before clock.Time) {
	for g := c.plane.granted.front(); g != nil && g.at < before; g = c.plane.granted.front() {
		lock := g.lock
		c.plane.granted.pop()
		if !lock.removed {
			c.out = append(c.out, c.plane.Expire(now, lock.id, before)...)
		}
	}
}

// allocate decides what each lock is to have.
func (c *Control) allocate() {
	demands := c.plane.Demands()
	c.plane.asked = clock.Never
	queues := c.plane.queues()
	for i := range demands {
		if d := &demands[i]; d.Contention > 0 {
			d.Contention = max(d.Contention, queues)
		}
	}
	c.target = c.cfg.Allocate(demands, len(c.plane.pool))
	maps.DeleteFunc(c.target, func(_ uint32, slots int) bool { return slots < queues })
	for id, slots := range c.plane.Installed() {
		if c.target[id] != slots {
			c.pending = append(c.pending, id)
		}
	}
	for id := range c.target {
		if c.plane.locks[id] == nil {
			c.pending = append(c.pending, id)
		}
	}
	slices.Sort(c.pending)
	c.pending = slices.Compact(c.pending)
}

// moving reports whether locks do not have what the allocation says.
func (c *Control) moving() bool { return len(c.pending)+len(c.relocating) > 0 }

// Target returns the latest allocation. Locks may still move.
func (c *Control) Target() Allocation { return maps.Clone(c.target) }

// Settled reports whether all locks have what the latest allocation says.
func (c *Control) Settled() bool { return !c.moving() }

// advance moves locks towards the allocation, as far as they can now.
func (c *Control) advance(now clock.Time) {
	c.relocating = slices.DeleteFunc(c.relocating, func(id uint32) bool { return c.place(now, id) })
	if c.plane.frozen {
		c.pending = nil
		return
	}
	c.shrink(now)
	c.grow(now)
	c.pending = slices.DeleteFunc(c.pending, func(id uint32) bool {
		_, slots, _ := c.plane.Occupancy(id)
		return slots == c.target[id] && !c.plane.Moving(id)
	})
}

// place places a lock if it is drained, and reports whether that is done, or superseded.
func (c *Control) place(now clock.Time, id uint32) bool {
	l := c.plane.locks[id]
	switch {
	case l == nil || !l.reserved:
		return true
	case !c.plane.Drained(id):
		return false
	}
	r := l.reserve
	c.out = append(c.out, c.plane.Place(now, id, r.Left, r.Right-r.Left+1)...)
	c.plane.drained = min(c.plane.drained, now)
	return true
}

// shrink takes from locks what they have too much, and lets those go that get nothing.
func (c *Control) shrink(now clock.Time) {
	for _, id := range c.pending {
		l := c.plane.locks[id]
		switch want := c.target[id]; {
		case l == nil || c.plane.Moving(id):
		case want == 0:
			c.out = append(c.out, c.plane.Leave(now, id)...)
		case want < l.size:
			c.relocate(now, l, l.left, want)
		}
	}
}

// relocate gives a lock another region as soon as it is drained.
func (c *Control) relocate(now clock.Time, l *entry, left, slots int) {
	if !c.plane.Drain(l.id) {
		return
	}
	l.reserved, l.reserve = true, Region{l.id, left, left + slots - 1}
	c.plane.regions.add(l.reserve)
	if !c.place(now, l.id) {
		c.relocating = append(c.relocating, l.id)
	}
}

// grow gives locks what they are to have more, where there is a hole for it.
func (c *Control) grow(now clock.Time) {
	moves := len(c.relocating) > 0 || slices.ContainsFunc(c.pending, func(id uint32) bool {
		l := c.plane.locks[id]
		return l != nil && (l.phase == draining || l.phase == handing)
	})
	stuck := !moves     // nothing makes room
	none := math.MaxInt // no hole has so many slots
	for _, id := range c.pending {
		want, l := c.target[id], c.plane.locks[id]
		if want == 0 || l != nil && (l.size >= want || c.plane.Moving(id)) {
			continue
		}
		left := -1
		if want < none {
			left = c.plane.regions.first(want)
		}
		for left < 0 && l == nil && !moves && c.compact(now) {
			left, none = c.plane.regions.first(want), math.MaxInt
		}
		switch {
		case left < 0:
			none = min(none, want)
			if l != nil && stuck { // its own slots are part of what it needs
				c.out = append(c.out, c.plane.Leave(now, id)...)
				moves = true
			}
		case l == nil:
			list, err := c.plane.Take(now, id, want, FromServer, now)
			if err != nil {
				panic(err) // there is a hole
			}
			c.out = append(c.out, list...)
		default:
			c.relocate(now, l, left, want)
			none = math.MaxInt // it may have left a larger one
			moves = moves || len(c.relocating) > 0
		}
	}
}

// compact moves the first lock that has a hole before it to the left (section 6.4), and reports whether it has moved:
// it may have to be drained.
func (c *Control) compact(now clock.Time) (moved bool) {
	r := &c.plane.regions
	r.holes(func(left, size int) bool {
		if i := r.search(Region{Left: left + size}); i < len(r.list) {
			l, before := c.plane.locks[r.list[i].Lock], len(c.relocating)
			c.relocate(now, l, left, l.size)
			moved = l.left == left && len(c.relocating) == before
		}
		return false
	})
	return moved
}
