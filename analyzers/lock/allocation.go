package lock

import (
	"cmp"
	"math"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
)

// Objective returns how many requests per second a switch serves at least, if locks have so many slots (§6.1, eq. 2.1).
func Objective(demands []lock.Demand, slots map[uint32]int) float64 {
	sum := 0.0
	for _, d := range demands {
		if d.Contention > 0 {
			sum += d.Rate * float64(min(slots[d.Lock], d.Contention)) / float64(d.Contention)
		}
	}
	return sum
}

// Optimum returns the allocation of algorithm 3: by r/c, locks of one ratio by number.
func Optimum(demands []lock.Demand, slots int) map[uint32]int {
	list := slices.Clone(demands)
	slices.SortFunc(list, func(a, b lock.Demand) int {
		return cmp.Or(cmp.Compare(b.Rate*float64(a.Contention), a.Rate*float64(b.Contention)), cmp.Compare(a.Lock, b.Lock))
	})
	of := make(map[uint32]int)
	for _, d := range list {
		n := min(slots, d.Contention)
		if n > 0 && d.Rate > 0 {
			of[d.Lock] = n
			slots -= n
		}
	}
	return of
}

// judgeAllocation judges N14 of a switch.
func (j *Judge) judgeAllocation(d *device) {
	if !d.Placed {
		return
	}
	sum := 0
	for _, n := range d.Locks {
		sum += n
	}
	if d.Slots > 0 && sum > d.Slots {
		j.tellAllocation(tooMuch(d.who, int64(sum), int64(d.Slots)))
	}
	if j.facts.Demands == nil {
		return
	}
	demands := j.facts.Demands[d.number]
	known := make(map[uint32]int, len(demands))
	for _, of := range demands {
		known[of.Lock] = of.Contention
	}
	for id, n := range d.Locks {
		if n < 0 || n > known[id] {
			j.tellAllocation(beyond(d.who, id, int64(n), int64(known[id])))
			break
		}
	}
	if j.facts.Optimal {
		j.optimal(d, demands, d.Slots, d.Locks)
	}
}

// Allocated judges N14 of what a control plane decided.
func (j *Judge) Allocated(sw int, a *lock.Allocation) {
	d, sum := j.switches[sw], 0
	for _, n := range a.Given {
		sum += n
	}
	if sum > a.Slots {
		j.tellAllocation(tooMuch(d.who, int64(sum), int64(a.Slots)))
	}
	for _, of := range a.Demands {
		if n := a.Given[of.Lock]; n > of.Contention {
			j.tellAllocation(beyond(d.who, of.Lock, int64(n), int64(of.Contention)))
			break
		}
	}
	if a.Optimal {
		j.optimal(d, a.Demands, a.Slots, a.Given)
	}
}

func (j *Judge) optimal(d *device, demands []lock.Demand, slots int, given map[uint32]int) {
	best, got := Objective(demands, Optimum(demands, slots)), Objective(demands, given)
	if got < best*(1-rounding*float64(len(demands)+1)) {
		j.tellAllocation(notOptimal(d.who, requestRate(got), requestRate(best)))
	}
}

// rounding is the relative error of one sum of doubles.
const rounding = 4 * 0x1p-52

// requestRate is a rate of requests.
type requestRate float64

func (r requestRate) String() string { return number(math.Round(float64(r)*1000) / 1000) }

func (j *Judge) tellAllocation(c causeOf) {
	j.tell(nil, c, clock.Time(0))
}
