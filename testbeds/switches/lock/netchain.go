package lock

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
)

// NetChain is a baseline (section 13): a switch that has all locks, but no queues. Each lock is exclusive, whatever the
// request says, and a request for a lock that is held is rejected; its client tries again. Memory holds few locks, so
// that several neighbouring lock ids share one. A transaction that has a lock gets its other ids, too.
type NetChain struct {
	Bugs ChainBugs // that are seeded

	ids       uint32
	share     uint32
	locks     []cell
	out       []Output
	occasions [32]int // that bugs had
}

// cell is a lock of the switch.
type cell struct {
	owner key
	ids   []uint32 // that the owner uses
	since clock.Time
	mode  netlock.Mode // of the request that it was granted for
}

// NewNetChain returns the data plane for lock ids below a number, with memory for so many locks.
func NewNetChain(ids uint32, locks int) (*NetChain, error) {
	if ids < 1 || locks < 1 {
		return nil, fmt.Errorf("%d lock ids and %d locks, want at least 1 of both", ids, locks)
	}
	share := (int64(ids) + int64(locks) - 1) / int64(locks)
	n := &NetChain{ids: ids, share: uint32(share)}
	n.locks = make([]cell, (int64(ids)+share-1)/share)
	return n, nil
}

// Coarse returns how many lock ids share a lock.
func (n *NetChain) Coarse() int { return int(n.share) }

// Locks returns the number of locks.
func (n *NetChain) Locks() int { return len(n.locks) }

// cell returns the lock of an id; nil: the id is too large.
func (n *NetChain) cell(id uint32) *cell {
	switch i := int(id / n.share); {
	case id < n.ids:
		return &n.locks[i]
	case n.Bugs.Has(ChainAliases):
		return &n.locks[i%len(n.locks)]
	}
	return nil
}

// every reports whether a bug uses this occasion, which is one of so many.
func (n *NetChain) every(bug ChainBugs, of int) bool {
	if !n.Bugs.Has(bug) {
		return false
	}
	i := 0
	for bug>>i > 1 {
		i++
	}
	n.occasions[i]++
	return n.occasions[i]%of == 0
}

// Acquire takes a request. The outputs are valid until the next call.
func (n *NetChain) Acquire(now clock.Time, r Request) []Output {
	n.out = n.out[:0]
	if n.every(ChainLosesRequests, seldom) {
		return n.out
	}
	n.out = append(n.out, Output{Kind: n.decide(now, &r), Request: r})
	if n.every(ChainAnswersTwice, seldom) {
		n.out = append(n.out, n.out[0])
	}
	return n.out
}

// decide says what becomes of a request.
func (n *NetChain) decide(now clock.Time, r *Request) Kind {
	c, k := n.cell(r.Lock), key{r.Client, r.Transaction}
	switch {
	case c == nil:
		return Rejected
	case len(c.ids) == 0:
		if n.every(ChainRejectsFree, often) {
			return Rejected
		}
		c.take(now, k, r)
	case c.owner != k:
		return n.refuse(now, c, k, r)
	case c.uses(r.Lock) < 0:
		c.ids = append(c.ids, r.Lock)
	case n.Bugs.Has(ChainRejectsOwner):
		return Rejected
	}
	return Grant // also of a request that comes again
}

// refuse says what becomes of a request for a lock of another owner.
func (n *NetChain) refuse(now clock.Time, c *cell, k key, r *Request) Kind {
	switch {
	case n.every(ChainAsksServer, often):
		return ForwardOwned
	case n.every(ChainGrantsHeld, often):
		c.take(now, k, r)
		return Grant
	case n.Bugs.Has(ChainGrantsShared) && r.Mode == netlock.Shared && c.mode == netlock.Shared:
		return Grant
	}
	return Rejected
}

// take gives a lock to an owner.
func (c *cell) take(now clock.Time, k key, r *Request) {
	c.owner, c.since, c.mode, c.ids = k, now, r.Mode, append(c.ids[:0], r.Lock)
}

// uses returns where an id is among those in use, or -1.
func (c *cell) uses(id uint32) int {
	for i, other := range c.ids {
		if other == id {
			return i
		}
	}
	return -1
}

// Release takes the end of a lock's use. The outputs are valid until the next call.
func (n *NetChain) Release(_ clock.Time, r Request) []Output {
	n.out = n.out[:0]
	if c := n.cell(r.Lock); c != nil && len(c.ids) > 0 && n.releases(c, &r) {
		return n.out
	}
	n.out = append(n.out, Output{Kind: Dropped, Request: r})
	return n.out
}

// releases ends the use of a lock that is held; false: the release is of nobody.
func (n *NetChain) releases(c *cell, r *Request) bool {
	i, owns := c.uses(r.Lock), c.owner == key{r.Client, r.Transaction}
	switch {
	case n.Bugs.Has(ChainReleasesForAnybody) && !owns:
		c.ids = c.ids[:0]
	case !owns || i < 0:
		return false
	case n.Bugs.Has(ChainFreesTooMuch):
		c.ids = c.ids[:0]
	case len(c.ids) == 1 && n.every(ChainForgetsRelease, often):
	default:
		c.ids[i] = c.ids[len(c.ids)-1]
		c.ids = c.ids[:len(c.ids)-1]
	}
	return true
}

// Expire frees the lock of an id if it has been held for longer than a lease, 0 being none: whether a lease has ended
// shows when the lock is asked for.
func (n *NetChain) Expire(now clock.Time, id uint32, lease clock.Duration) {
	switch {
	case lease == 0 || n.Bugs.Has(ChainNeverExpires):
		return
	case n.Bugs.Has(ChainExpiresEarly):
		lease /= 2
	}
	if c := n.cell(id); c != nil && c.since.Add(lease) < now {
		c.ids = c.ids[:0]
	}
}
