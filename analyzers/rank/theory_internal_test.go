package rank

import (
	"math"
	"math/rand/v2"
	"testing"
)

// queue is one of three schemes, for packets that take the same time to send.
type queue interface {
	// offer returns whether the packet may wait.
	offer(a *arrival) bool
	next() *arrival
	length() int
}

type fifoQueue struct {
	list   []*arrival
	room   int
	window *window // nil: plain FIFO
}

func (q *fifoQueue) offer(a *arrival) bool {
	admits := true
	if q.window != nil {
		_, _, admits = q.window.arrive(a.rank, int64(len(q.list)))
	}
	if admits = admits && len(q.list) < q.room; admits {
		q.list = append(q.list, a)
	}
	return admits
}

func (q *fifoQueue) next() *arrival {
	a := q.list[0]
	q.list = q.list[1:]
	return a
}

func (q *fifoQueue) length() int { return len(q.list) }

// strictQueues is SP-PIFO with 8 queues.
type strictQueues struct {
	lists  [8][]*arrival
	bounds [8]uint64
	room   int
}

func (q *strictQueues) offer(a *arrival) bool {
	i := 7
	for i > 0 && q.bounds[i] > a.rank {
		i--
	}
	if len(q.lists[i]) >= q.room {
		return false
	}
	if i == 0 && a.rank < q.bounds[0] {
		for j := 1; j < 8; j++ {
			q.bounds[j] -= min(q.bounds[j], q.bounds[0]-a.rank)
		}
	}
	q.bounds[i] = a.rank
	q.lists[i] = append(q.lists[i], a)
	return true
}

func (q *strictQueues) next() *arrival {
	for i := range q.lists {
		if len(q.lists[i]) > 0 {
			a := q.lists[i][0]
			q.lists[i] = q.lists[i][1:]
			return a
		}
	}
	return nil
}

func (q *strictQueues) length() (n int) {
	for i := range q.lists {
		n += len(q.lists[i])
	}
	return n
}

// offered sends 400,000 Poisson packets of ten ranks at a load of 2, whose rates rise with exp(slope i/10), to a queue
// and to a PIFO, and returns Δ, the mean queue, and the share of each rank's packets that was sent.
func offered(q queue, room int, slope float64, seed uint64) (delta, mean float64, sent [10]float64) {
	rng := rand.New(rand.NewPCG(seed, 19))
	var rates [10]float64
	total := 0.0
	for i := range rates {
		rates[i] = math.Exp(slope * float64(i) / 10)
		total += rates[i]
	}
	compare := gap{room: int64(room), takes: new(Admission).takes}
	var came, left [10]float64
	now, free, area := 0.0, 0.0, 0.0 // in service times
	serve := func(until float64) {
		for free <= until && q.length() > 0 {
			a := q.next()
			left[a.rank]++
			compare.served(a)
			free++
		}
	}
	const packets = 400_000
	for n := range packets {
		now += rng.ExpFloat64() / 2
		serve(now)
		area += float64(q.length())
		rank, u := 0, rng.Float64()*total
		for u -= rates[0]; u > 0 && rank < 9; u -= rates[rank] {
			rank++
		}
		a := &arrival{rank: uint64(rank), key: sortKey{order: uint64(n)}}
		came[rank]++
		compare.arrives(a)
		if !q.offer(a) {
			compare.dropped(a)
		}
		if free < now {
			free = now
			serve(now)
		}
	}
	serve(math.Inf(1)) // all that waits at the end is sent
	for _, a := range compare.sorted {
		a.gap.there = served
		compare.settle(a)
	}
	for i := range sent {
		sent[i] = left[i] / came[i]
	}
	share, _ := compare.share()
	return float64(share) / ppm, area / packets, sent
}

// The table of section 5 of the specification: Δ within 15 %, the mean queue within 5 % of C. Its values come from a
// prototype of its authors, of one seed; where seeds differ by more than half of the tolerance (row 2: .0106 to .0120
// for AIFO) the mean of five is compared.
func TestTheGapToPIFOIsThatOfTheSpecification(t *testing.T) {
	for i, c := range []struct {
		size, sample             int // C = n, s
		slope                    float64
		aifo, spPIFO, fifo, mean float64
	}{
		{20, 15, 0, 0.100, 0.078, 0.493, 12.4},
		{100, 1, 0, 0.056, 0.031, 0.497, 60.6},
		{1000, 1, 0, 0.013, 0.007, 0.498, 593},
		{1000, 1, 3, 0.028, 0.133, 0.493, 644},
		{1000, 1, -3, 0.039, 0.036, 0.492, 592},
	} {
		set := Admission{Target: int64(c.size), HeadroomPPM: 100_000, Window: c.size, Sample: c.sample, Room: c.size}
		w := newWindow(&set)
		within := func(what string, got, want float64) {
			if math.Abs(got-want) > 0.15*want {
				t.Errorf("row %d: Δ of %s is %.4f, want %.3f", i, what, got, want)
			}
		}
		seeds := uint64(1)
		if i == 2 {
			seeds = 5
		}
		delta, mean, sent := offered(&fifoQueue{room: c.size, window: &w}, c.size, c.slope, 1)
		strict, _, _ := offered(&strictQueues{room: (c.size + 7) / 8}, c.size, c.slope, 1)
		for seed := uint64(2); seed <= seeds; seed++ {
			w = newWindow(&set)
			d, _, _ := offered(&fifoQueue{room: c.size, window: &w}, c.size, c.slope, seed)
			s, _, _ := offered(&strictQueues{room: (c.size + 7) / 8}, c.size, c.slope, seed)
			delta, strict = delta+d, strict+s
		}
		delta, strict = delta/float64(seeds), strict/float64(seeds)
		t.Logf("row %d: Δ %.4f, mean queue %.1f, sent by rank %.3f", i, delta, mean, sent)
		within("AIFO", delta, c.aifo)
		if math.Abs(mean-c.mean) > 0.05*float64(c.size) {
			t.Errorf("row %d: the mean queue is %.1f, want %.1f", i, mean, c.mean)
		}
		if c.size >= 100 && c.slope == 0 { // theorem 3: five ranks have all the capacity
			for r := range 4 {
				if sent[r] < 0.95 {
					t.Errorf("row %d: of rank %d %.3f is sent", i, r, sent[r])
				}
			}
			for r := 6; r < 10; r++ {
				if sent[r] > 0.05 {
					t.Errorf("row %d: of rank %d %.3f is sent", i, r, sent[r])
				}
			}
		}
		within("SP-PIFO", strict, c.spPIFO)
		delta, _, _ = offered(&fifoQueue{room: c.size}, c.size, c.slope, 1)
		within("FIFO", delta, c.fifo)
	}
}

// Queues of 20 and 100 packets are as near to PIFO on other seeds.
func TestTheGapToPIFOHardlyDependsOnTheSeed(t *testing.T) {
	for _, c := range []struct {
		size, sample             int // C = n, s
		aifo, spPIFO, fifo, mean float64
	}{{20, 15, 0.100, 0.078, 0.493, 12.4}, {100, 1, 0.056, 0.031, 0.497, 60.6}} {
		for seed := uint64(2); seed <= 4; seed++ {
			set := Admission{Target: int64(c.size), HeadroomPPM: 100_000, Window: c.size, Sample: c.sample, Room: c.size}
			w := newWindow(&set)
			aifo, mean, _ := offered(&fifoQueue{room: c.size, window: &w}, c.size, 0, seed)
			strict, _, _ := offered(&strictQueues{room: (c.size + 7) / 8}, c.size, 0, seed)
			plain, _, _ := offered(&fifoQueue{room: c.size}, c.size, 0, seed)
			for i, got := range [][2]float64{{aifo, c.aifo}, {strict, c.spPIFO}, {plain, c.fifo}} {
				if math.Abs(got[0]-got[1]) > 0.15*got[1] {
					t.Errorf("C %d, seed %d: Δ of scheme %d is %.4f, want %.3f", c.size, seed, i, got[0], got[1])
				}
			}
			if math.Abs(mean-c.mean) > 0.05*float64(c.size) {
				t.Errorf("C %d, seed %d: the mean queue is %.1f, want %.1f", c.size, seed, mean, c.mean)
			}
		}
	}
}
