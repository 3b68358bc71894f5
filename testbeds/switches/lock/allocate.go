package lock

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Allocation is the slots of locks in the switch, by lock; a lock without slots is not installed.
type Allocation map[uint32]int

// Greedy divides slots among locks such that the switch serves the most requests (algorithm 3, theorem 1): by requests
// per slot of contention, greatest first; among equal ones by lock.
func Greedy(demands []Demand, slots int) Allocation {
	order := slices.DeleteFunc(slices.Clone(demands), func(d Demand) bool { return d.Contention <= 0 })
	slices.SortFunc(order, func(a, b Demand) int {
		return cmp.Or(cmp.Compare(b.Requests*float64(a.Contention), a.Requests*float64(b.Contention)),
			cmp.Compare(a.Lock, b.Lock))
	})
	return fill(order, slots)
}

// byRate is Greedy with a seeded bug.
func byRate(demands []Demand, slots int) Allocation {
	order := slices.Clone(demands)
	slices.SortFunc(order, func(a, b Demand) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Lock, b.Lock))
	})
	return fill(order, slots)
}

// Random divides slots among locks in random order, as the baseline does.
func Random(demands []Demand, slots int, random *rand.Rand) Allocation {
	order := slices.Clone(demands)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return fill(order, slots)
}

// RandomOf is Random among all locks with numbers below ids, most of which nobody may have asked for. Such a lock takes
// as many slots as each lock is known to need, at least one, and is not installed.
func RandomOf(ids, contention int, demands []Demand, slots int, random *rand.Rand) Allocation {
	known := make(map[uint32]int, len(demands))
	for _, d := range demands {
		known[d.Lock] = d.Contention
	}
	a := make(Allocation)
	moved := make(map[int]int) // of a shuffle of all numbers, those that are not at their own place
	at := func(i int) int {
		if v, ok := moved[i]; ok {
			return v
		}
		return i
	}
	for i := 0; i < ids && slots > 0; i++ {
		j := i + random.IntN(ids-i)
		id := uint32(at(j))
		moved[j] = at(i)
		need, asked := known[id]
		if !asked {
			slots -= max(1, contention)
			continue
		}
		if n := min(slots, need); n > 0 {
			a[id] = n
			slots -= n
		}
	}
	return a
}

// fill gives each lock in turn as many slots as it can use.
func fill(order []Demand, slots int) Allocation {
	a := make(Allocation)
	for _, d := range order {
		if n := min(slots, d.Contention); n > 0 {
			a[d.Lock] = n
			slots -= n
		}
	}
	return a
}

// Served returns the requests that the switch is guaranteed to serve (equation 2.1), in the unit of the demands.
func (a Allocation) Served(demands []Demand) (served float64) {
	for _, d := range demands {
		if d.Contention > 0 {
			served += d.Requests * float64(min(a[d.Lock], d.Contention)) / float64(d.Contention)
		}
	}
	return served
}

// Servers returns how many lock servers of a rate the rest of the demand needs (section 6.1).
func (a Allocation) Servers(demands []Demand, rate float64) int {
	var all float64
	for _, d := range demands {
		all += d.Requests
	}
	return int(math.Ceil((all - a.Served(demands)) / rate))
}
