package lock

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"candela.dev/candela/clock"
	wire "candela.dev/candela/lock"
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
	// Reaction is how long after a lock is drained, or has moved, the control plane goes on to move locks; 0:
	// DefaultReaction.
	Reaction clock.Duration
	// Moves is how many locks the control plane moves at a time, and begins to move in one reaction; 0: DefaultMoves.
	Moves int
	// Contention is c_i of every lock, if it is known how many clients may need one; 0: as it was measured.
	Contention int
}

// DefaultMoves bounds the push requests on the way: each move has one. It is a choice: with a reaction of 100 us,
// 100,000 locks move in 20 ms, the second of the source divided by 50.
const DefaultMoves = 512

// DefaultReaction is a choice: the source does not say how fast its control plane is.
const DefaultReaction = 100 * clock.Microsecond

// Control is the control plane of a lock switch (sections 6.4, 8.3 and 9). It does something at times only: the caller
// asks NextTimer after each packet and each timer of the data plane.
type Control struct {
	cfg    ControlConfig
	plane  *DataPlane
	began  clock.Time // when intervals began
	target Allocation
	// Locks that have more, or less, than target says, and those that move; by number or in the order of their moves.
	shrinks, grows, active []uint32
	relocating             []uint32 // to be placed when they are drained
	started                int      // in this reaction
	ends                   struct{ lease, quota, period known }
	out                    []Output
	custom                 bool              // the allocation is not algorithm 3
	log                    []wire.Allocation // the latest ones
}

// logged is how many allocations a control plane remembers.
const logged = 4

// NewControl returns the control plane of a data plane, which gets counters of locks that are not installed if
// Config.Track says so.
func NewControl(now clock.Time, cfg ControlConfig, plane *DataPlane) (*Control, error) {
	if cfg.Quota == 0 {
		cfg.Quota = clock.Second
	}
	if cfg.Reaction == 0 {
		cfg.Reaction = DefaultReaction
	}
	if cfg.Moves == 0 {
		cfg.Moves = DefaultMoves
	}
	custom := cfg.Allocate != nil
	if !custom {
		cfg.Allocate = Greedy
		if plane.cfg.Bugs.Has(AllocatesByRate) {
			cfg.Allocate = byRate
		}
	}
	switch {
	case cfg.Lease < 0 || cfg.Period < 0 || cfg.Quota < 0 || cfg.Reaction < 0:
		return nil, fmt.Errorf("lease %d, period %d, quota %d, reaction %d: want no negative durations", cfg.Lease,
			cfg.Period, cfg.Quota, cfg.Reaction)
	case cfg.Moves < 0:
		return nil, fmt.Errorf("%d locks move at a time, want at least 1", cfg.Moves)
	case cfg.Lease > 0 && cfg.Poll <= 0:
		return nil, fmt.Errorf("leases are polled every %d, want a positive duration", cfg.Poll)
	case cfg.Period > 0 && plane.pool == nil:
		return nil, fmt.Errorf("slots are allocated every %d, but there is no pool", cfg.Period)
	}
	plane.leases = cfg.Lease > 0
	return &Control{cfg: cfg, custom: custom, plane: plane, began: now}, nil
}

// NextTimer returns when Timer is due; clock.Never: not before the next packet. Intervals in which nothing happens end
// unnoticed.
func (c *Control) NextTimer() clock.Time {
	next := clock.Never
	if g := c.plane.granted.front(); c.cfg.Lease > 0 && g != nil {
		// The first poll that finds the lease ended.
		next = c.ends.lease.following(c, g.at.Add(c.cfg.Lease), c.cfg.Poll)
	}
	next = min(next, c.ends.quota.following(c, c.plane.quotas.counted, c.cfg.Quota))
	if c.cfg.Period > 0 && !c.plane.frozen {
		next = min(next, c.ends.period.following(c, c.plane.asked, c.cfg.Period))
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
		c.allocate(now)
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

// known is the latest result of following, which is asked for the same instant at each packet.
type known struct{ at, end clock.Time }

func (k *known) following(c *Control, at clock.Time, d clock.Duration) clock.Time {
	if at == clock.Never {
		return at
	}
	if k.at != at || k.end == 0 {
		k.at, k.end = at, c.following(at, d)
	}
	return k.end
}

// expire ends leases. Grants have the order of time: those that are polled in vain ended before.
func (c *Control) expire(now, before clock.Time) {
	for g := c.plane.granted.front(); g != nil && g.at < before; g = c.plane.granted.front() {
		id := g.lock
		c.plane.granted.pop()
		if l := c.plane.locks[id]; l != nil && l.polled != now { // once for all of its holders
			l.polled = now
			c.out = append(c.out, c.plane.Expire(now, id, before)...)
		}
	}
}

// allocate decides what each lock is to have.
func (c *Control) allocate(now clock.Time) {
	demands := c.plane.Demands()
	c.plane.asked = clock.Never
	queues := c.plane.queues()
	for i := range demands {
		if d := &demands[i]; d.Contention > 0 {
			d.Contention = max(cmp.Or(c.cfg.Contention, d.Contention), queues)
		}
	}
	c.target = c.cfg.Allocate(demands, len(c.plane.pool))
	maps.DeleteFunc(c.target, func(_ uint32, slots int) bool { return slots < queues })
	c.record(now, demands)
	moving := make(map[uint32]bool, len(c.active))
	for _, id := range c.active {
		moving[id] = true
	}
	c.shrinks, c.grows = nil, nil
	for id, l := range c.plane.locks {
		if !moving[id] {
			c.enqueue(id, l.size)
		}
	}
	for id := range c.target {
		if c.plane.locks[id] == nil {
			c.enqueue(id, 0)
		}
	}
	slices.Sort(c.shrinks)
	slices.Sort(c.grows)
}

// record remembers an allocation.
func (c *Control) record(now clock.Time, demands []Demand) {
	a := wire.Allocation{At: now, Slots: len(c.plane.pool), Given: maps.Clone(c.target),
		Optimal: !c.custom && c.plane.queues() == 1, Demands: make([]wire.Demand, 0, len(demands))}
	seconds := float64(c.cfg.Period) / float64(clock.Second)
	for _, d := range demands {
		a.Demands = append(a.Demands, wire.Demand{Lock: d.Lock, Rate: d.Requests / seconds, Contention: d.Contention})
	}
	if len(c.log) == logged {
		c.log = slices.Delete(c.log, 0, 1)
	}
	c.log = append(c.log, a)
}

// Allocations returns the latest allocations.
func (c *Control) Allocations() []wire.Allocation { return c.log }

// enqueue has a lock move if it has other slots than it is to have.
func (c *Control) enqueue(id uint32, slots int) {
	switch want := c.target[id]; {
	case want < slots:
		c.shrinks = append(c.shrinks, id)
	case want > slots:
		c.grows = append(c.grows, id)
	}
}

// moving reports whether locks do not have what the allocation says.
func (c *Control) moving() bool {
	return len(c.shrinks)+len(c.grows)+len(c.active)+len(c.relocating) > 0
}

// Target returns the latest allocation. Locks may still move.
func (c *Control) Target() Allocation { return maps.Clone(c.target) }

// Settled reports whether all locks have what the latest allocation says.
func (c *Control) Settled() bool { return !c.moving() }

// advance moves locks towards the allocation, as far as they can now. It looks at those that move and at those that it
// begins to move, not at all.
func (c *Control) advance(now clock.Time) {
	c.relocating = slices.DeleteFunc(c.relocating, func(id uint32) bool { return c.place(now, id) })
	if c.plane.frozen {
		c.shrinks, c.grows, c.active = nil, nil, nil
		return
	}
	c.started = 0
	c.finish()
	c.shrink(now)
	c.grow(now)
	c.finish()
}

// finish looks which locks have moved. One that has left to get another region has still to come.
func (c *Control) finish() {
	c.active = slices.DeleteFunc(c.active, func(id uint32) bool {
		if c.plane.Moving(id) {
			return false
		}
		_, slots, _ := c.plane.Occupancy(id)
		c.enqueue(id, slots)
		return true
	})
}

// room reports whether another lock may begin to move.
func (c *Control) room() bool { return c.started < c.cfg.Moves && len(c.active) < c.cfg.Moves }

// begin notes that a lock begins to move.
func (c *Control) begin(id uint32) {
	c.started++
	c.active = append(c.active, id)
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
	n := 0
	for ; n < len(c.shrinks) && c.room(); n++ {
		id := c.shrinks[n]
		l := c.plane.locks[id]
		switch want := c.target[id]; {
		case l == nil:
			continue
		case c.plane.Moving(id): // not on behalf of the allocation; it is looked at again
		case want == 0:
			c.out = append(c.out, c.plane.Leave(now, id)...)
		case want < l.size:
			c.relocate(now, l, l.left, want)
		}
		c.begin(id)
	}
	c.shrinks = c.shrinks[n:]
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

// grow gives locks what they are to have more, where there is a hole for it. What waits for room is looked at first the
// next time.
func (c *Control) grow(now clock.Time) {
	clearing := c.clearing()
	stuck := !clearing  // nothing makes room
	none := math.MaxInt // no hole has so many slots
	n, kept := 0, 0
	for ; n < len(c.grows) && n < c.cfg.Moves && c.room(); n++ {
		id := c.grows[n]
		want, l := c.target[id], c.plane.locks[id]
		if l != nil && c.plane.Moving(id) { // not on behalf of the allocation; it is looked at again
			c.begin(id)
			continue
		}
		left := -1
		if want < none {
			left = c.plane.regions.first(want)
		}
		for left < 0 && l == nil && !clearing && c.compact(now) {
			left, none = c.plane.regions.first(want), math.MaxInt
		}
		clearing = clearing || len(c.relocating) > 0
		switch {
		case left >= 0 && l == nil:
			list, err := c.plane.Take(now, id, want, FromServer, now)
			if err != nil {
				panic(err) // there is a hole
			}
			c.out = append(c.out, list...)
		case left >= 0:
			c.relocate(now, l, left, want)
			none = math.MaxInt // it may have left a larger one
			clearing = clearing || len(c.relocating) > 0
		case l != nil && stuck: // its own slots are part of what it needs
			c.out = append(c.out, c.plane.Leave(now, id)...)
			none, clearing = min(none, want), true
		default:
			none = min(none, want)
			c.grows[kept] = id
			kept++
			continue
		}
		c.begin(id)
	}
	c.grows = slices.Delete(c.grows, kept, n)
}

// clearing reports whether a lock that moves makes room.
func (c *Control) clearing() bool {
	return len(c.relocating) > 0 || slices.ContainsFunc(c.active, func(id uint32) bool {
		l := c.plane.locks[id]
		return l != nil && (l.phase == draining || l.phase == handing)
	})
}

// compact moves the first lock that has a hole before it to the left (section 6.4), and reports whether it has moved:
// it may have to be drained.
func (c *Control) compact(now clock.Time) (moved bool) {
	left := c.plane.regions.first(1)
	if left < 0 {
		return false
	}
	id, ok := c.plane.regions.after(left)
	if !ok {
		return false
	}
	l, before := c.plane.locks[id], len(c.relocating)
	c.relocate(now, l, left, l.size)
	return l.left == left && len(c.relocating) == before
}
