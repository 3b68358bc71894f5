package tcp

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/clock"
)

// TestTimersAreServedInTime sets, postpones, advances and clears timers. The heap's next time must never be later than
// the earliest timer, with few premature wake-ups.
func TestTimersAreServedInTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	all := make([]connection, 200)
	for i := range all {
		all[i].expires, all[i].ackAt, all[i].paced = clock.Never, clock.Never, clock.Never
	}
	var heap timers
	looks, served := 0, 0
	for now := clock.Time(0); now < 20_000; now++ {
		c := &all[rng.IntN(len(all))]
		switch rng.IntN(8) {
		case 0:
			c.expires = clock.Never
		case 1:
			c.ackAt = now + clock.Time(rng.IntN(50))
		case 2:
			c.paced = now + clock.Time(rng.IntN(50))
		default:
			c.expires = now + 500 + clock.Time(rng.IntN(100))
		}
		heap.set(c)
		if rng.IntN(10) == 0 && c.place > 0 {
			heap.remove(c)
			c.expires, c.ackAt, c.paced = clock.Never, clock.Never, clock.Never
		}
		earliest := clock.Never
		for i := range all {
			earliest = min(earliest, all[i].expiry())
		}
		if next := heap.next(); next > earliest {
			t.Fatalf("at %d: next look at %d, a timer is due at %d", now, next, earliest)
		}
		for heap.next() <= now {
			c := heap.pop()
			looks++
			if c.expiry() <= now {
				c.expires, c.ackAt, c.paced = clock.Never, clock.Never, clock.Never
				served++
			}
			heap.set(c)
		}
	}
	if served == 0 || looks > 30_000 {
		t.Errorf("%d looks for %d timers in 20000 steps", looks, served)
	}
}
