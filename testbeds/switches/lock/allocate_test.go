package lock_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/testbeds/switches/lock"
)

// Figure 2-7 of the source: of two slots both for the popular lock, not one each.
func TestTheWorkedExampleOfTheSource(t *testing.T) {
	demands := []lock.Demand{{Lock: 1, Requests: 200, Contention: 2}, {Lock: 2, Requests: 10, Contention: 1}}
	if got := (lock.Allocation{1: 1, 2: 1}).Served(demands); got != 110 {
		t.Errorf("one slot each serves %g, want 110", got)
	}
	got := lock.Greedy(demands, 2)
	if diff := cmp.Diff(lock.Allocation{1: 2}, got); diff != "" || got.Served(demands) != 200 {
		t.Errorf("it serves %g: %s", got.Served(demands), diff)
	}
	if n := got.Servers(demands, 4); n != 3 {
		t.Errorf("%d servers for 10 requests a second, want 3", n)
	}
}

func drawnDemands(t *rapid.T) (demands []lock.Demand) {
	for id := range rapid.Uint32Range(1, 5).Draw(t, "locks") {
		demands = append(demands, lock.Demand{Lock: id, Requests: float64(rapid.IntRange(0, 9).Draw(t, "requests")),
			Contention: rapid.IntRange(0, 4).Draw(t, "contention")})
	}
	return demands
}

// best tries all allocations (equations 2.1 to 2.3).
func best(demands []lock.Demand, slots int) (served float64) {
	if len(demands) == 0 {
		return 0
	}
	d := demands[0]
	for n := 0; n <= min(d.Contention, slots); n++ {
		here := 0.0
		if n > 0 {
			here = d.Requests * float64(n) / float64(d.Contention)
		}
		served = max(served, here+best(demands[1:], slots-n))
	}
	return served
}

func TestNoAllocationServesMoreThanTheGreedyOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		demands, slots := drawnDemands(t), rapid.IntRange(0, 12).Draw(t, "slots")
		greedy := lock.Greedy(demands, slots)
		random := lock.Random(demands, slots, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		want := best(demands, slots)
		if got := greedy.Served(demands); math.Abs(got-want) > 1e-9 || random.Served(demands) > want+1e-9 {
			t.Fatalf("greedy serves %g, random %g, the best %g", got, random.Served(demands), want)
		}
		for _, a := range []lock.Allocation{greedy, random} {
			used := 0
			for _, d := range demands {
				used += a[d.Lock]
				if n, ok := a[d.Lock]; ok && (n < 1 || n > d.Contention) {
					t.Fatalf("lock %d has %d slots of %d", d.Lock, n, d.Contention)
				}
			}
			if used > slots {
				t.Fatalf("%d slots of %d", used, slots)
			}
		}
	})
}

// Locks that nobody has asked for take slots, too.
func TestChanceMayGiveSlotsToLocksThatNobodyAsksFor(t *testing.T) {
	const ids, asked, contention, slots = 10_000, 1000, 3, 6000
	var demands []lock.Demand
	for i := range uint32(asked) {
		demands = append(demands, lock.Demand{Lock: 10 * i, Requests: 1, Contention: contention})
	}
	for _, c := range []struct {
		contention, least, most int // contention of locks that nobody asked for; installed locks
	}{
		{0, 450, 550}, // 6000 slots for 10,000 locks of 0.9 * 1 + 0.1 * 3 slots
		{contention, 160, 240},
	} {
		a := lock.RandomOf(ids, c.contention, demands, slots, rand.New(rand.NewPCG(1, 2)))
		if len(a) < c.least || len(a) > c.most {
			t.Errorf("%d locks of %d, want %d to %d", len(a), asked, c.least, c.most)
		}
		for id, n := range a {
			if id%10 != 0 || n < 1 || n > contention {
				t.Fatalf("lock %d has %d slots", id, n)
			}
		}
	}
	if a := lock.RandomOf(ids, 0, demands, ids*contention, rand.New(rand.NewPCG(1, 2))); len(a) != asked {
		t.Errorf("with room for all, %d of %d locks are installed", len(a), asked)
	}
}
