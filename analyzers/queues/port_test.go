package queues_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers/queues"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// port is a correct port, of 1 ns a byte, by the definition of its scheduler: strict priority, round robin by packets,
// or deficit round robin (Shreedhar and Varghese, 1995). It admits by limits, threshold and buffer.
type port struct {
	cfg    *queues.Config
	queues [3][]int // sizes of the packets that wait
	used   int      // of the buffer
	turns  []int    // queues with packets and a weight; the first one's turn is next, or has begun
	begun  bool
	credit [3]int
	freeNS int
	steps  []step
}

func (p *port) bytes(q int) (sum int) {
	for _, size := range p.queues[q] {
		sum += size
	}
	return sum
}

func (p *port) admits(q, size int) bool {
	limits, free := &p.cfg.Queues[q], p.cfg.Buffer-p.used
	switch {
	case limits.Bytes > 0 && p.bytes(q)+size > limits.Bytes, limits.Packets > 0 && len(p.queues[q]) == limits.Packets:
		return false
	case p.cfg.Buffer == 0:
		return true
	}
	return size <= free && (limits.Alpha == 0 || float64(p.bytes(q)+size) <= limits.Alpha*float64(free))
}

func (p *port) arrive(ns, q, size int) {
	if !p.admits(q, size) {
		p.steps = append(p.steps, refused(ns, q, size))
		return
	}
	if p.cfg.Scheduler.Weights[q] > 0 && len(p.queues[q]) == 0 {
		p.turns = append(p.turns, q)
	}
	p.queues[q] = append(p.queues[q], size)
	p.used += size
	p.steps = append(p.steps, joins(ns, q, size))
}

// choose returns the queue to serve; −1: all are empty.
func (p *port) choose() int {
	s := &p.cfg.Scheduler
	for q := len(p.queues) - 1; q >= 0; q-- {
		if len(p.queues[q]) > 0 && (s.Discipline == queues.Strict || s.Weights[q] == 0) {
			return q
		}
	}
	for len(p.turns) > 0 {
		q := p.turns[0]
		if !p.begun {
			p.begun = true
			p.credit[q] += s.Weights[q] * max(1, s.Quantum)
		}
		if p.credit[q] >= p.cost(q) {
			return q
		}
		p.begun, p.turns = false, append(p.turns[1:], q)
	}
	return -1
}

// cost is what the first packet of a queue takes of its credit.
func (p *port) cost(q int) int {
	if p.cfg.Scheduler.Discipline == queues.ByBytes {
		return p.queues[q][0]
	}
	return 1
}

// serve sends a packet of a queue.
func (p *port) serve(ns, q int) {
	size := p.queues[q][0]
	if slices.Contains(p.turns, q) {
		p.credit[q] -= p.cost(q)
	}
	p.queues[q] = p.queues[q][1:]
	if len(p.queues[q]) == 0 {
		if len(p.turns) > 0 && p.turns[0] == q {
			p.begun = false
		}
		p.turns, p.credit[q] = slices.DeleteFunc(p.turns, func(t int) bool { return t == q }), 0
	}
	p.used -= size
	p.freeNS = ns + size
	p.steps = append(p.steps, leaves(ns, q, size)...)
}

// arrival is a packet that comes so long after the one before it.
type arrival struct{ after, queue, size int }

// run serves arrivals; fault may replace the choice of the scheduler and the instant at which it is served.
func (p *port) run(arrivals []arrival, fault func(ns, q int) (int, int)) []step {
	now := 0
	serveUntil := func(end int) {
		for {
			ns, q := max(now, p.freeNS), p.choose()
			if q < 0 || ns >= end {
				return
			}
			if fault != nil {
				ns, q = fault(ns, q)
			}
			p.serve(ns, q)
		}
	}
	for _, a := range arrivals {
		serveUntil(now + a.after)
		now += a.after
		p.arrive(now, a.queue, a.size)
	}
	serveUntil(1 << 40)
	return p.steps
}

// drawn draws a port, and arrivals that fill it.
func drawn(t *rapid.T, discipline queues.Discipline) (*port, []arrival) {
	weight := rapid.IntRange(1, 5)
	cfg := config(func(c *queues.Config) {
		c.Ports = slices.Repeat([]queues.Port{{Rate: 8 * clock.Gbps}}, 4)
		c.Scheduler.Discipline = discipline
		for q := range c.Queues {
			c.Queues[q].Bytes = rapid.SampledFrom([]int{0, 3000, 20_000}).Draw(t, "bytes")
			c.Queues[q].Packets = rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "packets")
			c.Queues[q].Alpha = rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(t, "alpha")
			c.Scheduler.Weights[q] = weight.Draw(t, "weight")
		}
		c.Buffer = rapid.SampledFrom([]int{0, 9000, 60_000}).Draw(t, "buffer")
		if discipline == queues.ByBytes {
			c.Scheduler.Quantum = rapid.IntRange(1, 4000).Draw(t, "quantum")
		}
		if discipline != queues.Strict && rapid.IntRange(0, 3).Draw(t, "strict") == 0 {
			c.Scheduler.Weights[2] = 0
		}
	})
	arrivals := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) arrival {
		return arrival{rapid.SampledFrom([]int{0, 1, 300, 900, 5000}).Draw(t, "after"), rapid.IntRange(0, 2).Draw(t, "queue"),
			rapid.IntRange(64, 1500).Draw(t, "size")}
	}), 1, 120).Draw(t, "arrivals")
	return &port{cfg: &cfg}, arrivals
}

var disciplines = []queues.Discipline{queues.Strict, queues.ByPackets, queues.ByBytes}

func TestCorrectPortsAreNeverBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, arrivals := drawn(t, rapid.SampledFrom(disciplines).Draw(t, "discipline"))
		steps := p.run(arrivals, nil)
		if got := judge(*p.cfg, steps); got != nil {
			t.Fatalf("%v: %+v %+v", got, *p.cfg, steps)
		}
	})
}

// A port that does one thing wrong once is blamed for that, whatever else happens.
func TestOneFaultOfACorrectPortIsBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, arrivals := drawn(t, rapid.SampledFrom(disciplines).Draw(t, "discipline"))
		at, n, want := rapid.IntRange(0, 40).Draw(t, "at"), 0, ""
		late := rapid.Bool().Draw(t, "late")
		steps := p.run(arrivals, func(ns, q int) (int, int) {
			n++
			switch strict := p.cfg.Scheduler.Discipline == queues.Strict || p.cfg.Scheduler.Weights[q] == 0; {
			case n <= at || want != "":
			case late:
				want = queues.Idle
				return ns + 1, q
			case strict:
				for low := range q {
					if len(p.queues[low]) > 0 {
						want = queues.Priority
						return ns, low
					}
				}
			}
			return ns, q
		})
		got := judge(*p.cfg, steps)
		if want != "" && !slices.Contains(got, want) || want == "" && got != nil {
			t.Fatalf("%v, want %q: %+v %+v", got, want, *p.cfg, steps)
		}
	})
}

// A port that takes the last packet without room, or refuses it with room, is blamed.
func TestAdmissionIsJudgedToTheByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, arrivals := drawn(t, queues.Strict)
		for _, a := range arrivals { // at once: nothing is served
			p.arrive(0, a.queue, a.size)
		}
		last := &p.steps[len(p.steps)-1]
		if last.stage == trace.Refused {
			last.stage = trace.Joined
		} else {
			last.stage = trace.Refused
		}
		if got := judge(*p.cfg, p.steps); len(got) == 0 {
			t.Fatalf("nothing is blamed: %+v %+v", *p.cfg, p.steps)
		}
	})
}
