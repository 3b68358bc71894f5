package lock

import (
	"fmt"
	"maps"
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
	// Reaction is how long after a lock is drained, or gone, the control plane goes on to move locks.
	Reaction clock.Duration
}

// Control is the control plane of a lock switch (sections 6.4, 8.3 and 9). It does something at times only: the caller
// asks NextTimer after each packet and each timer of the data plane.
type Control struct {
	cfg    ControlConfig
	plane  *DataPlane
	began  clock.Time // when intervals began
	target Allocation
	moving bool // locks do not have what target says
	out    []Output
}

// NewControl returns the control plane of a data plane, which gets counters of locks that are not installed if
// Config.Track says so.
func NewControl(now clock.Time, cfg ControlConfig, plane *DataPlane) (*Control, error) {
	if cfg.Quota == 0 {
		cfg.Quota = clock.Second
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
	if c.moving && c.plane.drained != clock.Never {
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
	if c.moving {
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
	c.moving = true
}

// Target returns the latest allocation. Locks may still move.
func (c *Control) Target() Allocation { return maps.Clone(c.target) }

// Settled reports whether all locks have what the latest allocation says.
func (c *Control) Settled() bool { return !c.moving }

// advance moves locks towards the allocation, as far as they can now.
func (c *Control) advance(now clock.Time) {
	c.place(now)
	waits := false
	if !c.plane.frozen {
		c.shrink(now)
		waits = c.grow(now)
	}
	c.moving = waits || slices.ContainsFunc(c.locks(), c.plane.Moving)
}

// locks returns those that are installed, by number.
func (c *Control) locks() []uint32 { return slices.Sorted(maps.Keys(c.plane.locks)) }

// place places the locks that are drained.
func (c *Control) place(now clock.Time) {
	for _, id := range c.locks() {
		if l := c.plane.locks[id]; l.reserved && c.plane.Drained(id) {
			r := l.reserve
			c.out = append(c.out, c.plane.Place(now, id, r.Left, r.Right-r.Left+1)...)
		}
	}
}

// shrink takes from locks what they have too much, and lets those go that get nothing.
func (c *Control) shrink(now clock.Time) {
	for _, id := range c.locks() {
		l := c.plane.locks[id]
		switch want := c.target[id]; {
		case c.plane.Moving(id):
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
	if c.plane.Drained(l.id) {
		c.out = append(c.out, c.plane.Place(now, l.id, left, slots)...)
		c.plane.drained = min(c.plane.drained, now)
	}
}

// grow gives locks what they are to have more, where there is a hole for it, and reports whether some wait.
func (c *Control) grow(now clock.Time) (waits bool) {
	moves := slices.ContainsFunc(c.locks(), c.plane.Moving)
	for _, id := range slices.Sorted(maps.Keys(c.target)) {
		want, l := c.target[id], c.plane.locks[id]
		if l != nil && (l.size >= want || c.plane.Moving(id)) {
			continue
		}
		left := c.plane.regions.first(want)
		switch {
		case left >= 0 && l == nil:
			list, err := c.plane.Take(now, id, want, FromServer, now)
			if err != nil {
				panic(err) // there is a hole
			}
			c.out = append(c.out, list...)
			moves = true
			continue
		case left >= 0:
			c.relocate(now, l, left, want)
			moves = true
			continue
		}
		waits = true
		if moves {
			continue // which may make room
		}
		moves = true
		if l != nil { // its own slots are part of what it needs
			c.out = append(c.out, c.plane.Leave(now, id)...)
		} else {
			c.compact(now)
		}
	}
	return waits
}

// compact moves the first lock that has a hole before it to the left (section 6.4).
func (c *Control) compact(now clock.Time) {
	r := &c.plane.regions
	r.holes(func(left, size int) bool {
		i := r.search(Region{Left: left + size})
		if i < len(r.list) {
			l := c.plane.locks[r.list[i].Lock]
			c.relocate(now, l, left, l.size)
		}
		return false
	})
}
