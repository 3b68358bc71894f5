package lock

import (
	"fmt"

	"candela.dev/candela/clock"
)

// NetChain is a baseline (section 13): a switch that has all locks, but no queues. Each lock is exclusive, whatever the
// request says, and a request for a lock that is held is rejected; its client tries again. Memory holds few locks, so
// that several neighbouring lock ids share one. A transaction that has a lock gets its other ids, too.
type NetChain struct {
	share uint32
	locks []cell
	out   []Output
}

// cell is a lock of the switch.
type cell struct {
	owner key
	ids   []uint32 // that the owner uses
	since clock.Time
}

// NewNetChain returns the data plane for lock ids below a number, with memory for so many locks.
func NewNetChain(ids uint32, locks int) (*NetChain, error) {
	if ids < 1 || locks < 1 {
		return nil, fmt.Errorf("%d lock ids and %d locks, want at least 1 of both", ids, locks)
	}
	share := (int64(ids) + int64(locks) - 1) / int64(locks)
	n := &NetChain{share: uint32(share)}
	n.locks = make([]cell, (int64(ids)+share-1)/share)
	return n, nil
}

// Coarse returns how many lock ids share a lock.
func (n *NetChain) Coarse() int { return int(n.share) }

// Locks returns the number of locks.
func (n *NetChain) Locks() int { return len(n.locks) }

// cell returns the lock of an id; nil: the id is too large.
func (n *NetChain) cell(id uint32) *cell {
	if i := int(id / n.share); i < len(n.locks) {
		return &n.locks[i]
	}
	return nil
}

// Acquire takes a request. The outputs are valid until the next call.
func (n *NetChain) Acquire(now clock.Time, r Request) []Output {
	c, k := n.cell(r.Lock), key{r.Client, r.Transaction}
	kind := Grant
	switch {
	case c == nil || len(c.ids) > 0 && c.owner != k:
		kind = Rejected
	case len(c.ids) == 0:
		c.owner, c.since, c.ids = k, now, append(c.ids, r.Lock)
	case c.uses(r.Lock) < 0: // a request again gets its grant again
		c.ids = append(c.ids, r.Lock)
	}
	n.out = append(n.out[:0], Output{Kind: kind, Request: r})
	return n.out
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
	if c := n.cell(r.Lock); c != nil && len(c.ids) > 0 && c.owner == (key{r.Client, r.Transaction}) {
		if i := c.uses(r.Lock); i >= 0 {
			c.ids[i] = c.ids[len(c.ids)-1]
			c.ids = c.ids[:len(c.ids)-1]
			return n.out
		}
	}
	n.out = append(n.out, Output{Kind: Dropped, Request: r})
	return n.out
}

// Expire frees the lock of an id if it has been held since before an instant: whether one has expired shows when it is
// asked for.
func (n *NetChain) Expire(id uint32, before clock.Time) {
	if c := n.cell(id); c != nil && c.since < before {
		c.ids = c.ids[:0]
	}
}
