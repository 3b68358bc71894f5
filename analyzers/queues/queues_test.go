package queues_test

import (
	"os"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/queues"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(queues.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, queues.Rules(), queues.Causes())
}

// sent is the stage of a step at which a frame begins to leave.
const sent trace.QueueStage = 0

// step is what happens at a queue of port 3.
type step struct {
	ns       int
	stage    trace.QueueStage
	queue    int
	size     int
	lossless bool
}

// ports are four, at 10 Gb/s: 1000 bytes take 800 ns.
func ports(framing int) []queues.Port {
	return slices.Repeat([]queues.Port{{Rate: 10 * clock.Gbps, Framing: framing}}, 4)
}

// config is a switch of three queues a port, each without limits, that is served in any order.
func config(set func(*queues.Config)) queues.Config {
	cfg := queues.Config{Name: "sw1", Queues: make([]queues.Queue, 3), Ports: ports(0), Admits: true,
		Scheduler: queues.Scheduler{Weights: []int{1, 1, 1}}}
	if set != nil {
		set(&cfg)
	}
	return cfg
}

// judge returns the rules that steps violate, each once.
func judge(cfg queues.Config, steps []step) (rules []string) {
	report := analyzers.NewReporter(queues.Name, queues.Rules())
	j := queues.New(cfg, report)
	for i, s := range steps {
		now, port, id := clock.Time(0).Add(clock.Duration(s.ns)*clock.Nanosecond), len(cfg.Ports)-1, uint64(i+1)
		if s.stage == sent {
			j.Left(now, port, s.queue, s.size, id)
			continue
		}
		j.Observe(&trace.QueueEvent{Time: now, Stage: s.stage, Port: port, Queue: s.queue, ID: id, Size: s.size,
			Lossless: s.lossless})
	}
	for _, f := range book.Keep(report.Findings()) {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	return rules
}

func joins(ns, queue, size int) step {
	return step{ns: ns, stage: trace.Joined, queue: queue, size: size}
}

func refused(ns, queue, size int) step {
	return step{ns: ns, stage: trace.Refused, queue: queue, size: size}
}

// leaves is a packet that is served and begins to leave.
func leaves(ns, queue, size int) []step {
	return []step{{ns: ns, stage: trace.Served, queue: queue, size: size}, {ns: ns, stage: sent, queue: queue, size: size}}
}

// together is packets of 1000 bytes of queues 1 and 2, which wait from the start; they are served in the order given.
func together(order ...int) (steps []step) {
	for _, q := range append([]int{1, 2}, order...) { // one of each remains
		steps = append(steps, joins(0, q, 1000))
	}
	for i, q := range order {
		steps = append(steps, leaves(800*i, q, 1000)...)
	}
	return steps
}

func TestEachRuleIsBrokenByWhatItForbidsAlone(t *testing.T) {
	limit := func(c *queues.Config) { c.Queues[1].Bytes = 30_000 }
	count := func(c *queues.Config) { c.Queues[1].Packets = 2 }
	buffer := func(c *queues.Config) { c.Buffer = 200_000 }
	shared := func(c *queues.Config) { c.Buffer, c.Queues[1].Alpha = 22_250, 1 }
	strict := func(c *queues.Config) { c.Scheduler.Discipline = queues.Strict }
	weighted := func(d queues.Discipline, weights ...int) func(*queues.Config) {
		return func(c *queues.Config) { c.Scheduler = queues.Scheduler{Discipline: d, Weights: weights, Quantum: 500} }
	}
	both := func(sets ...func(*queues.Config)) func(*queues.Config) {
		return func(c *queues.Config) {
			for _, set := range sets {
				set(c)
			}
		}
	}
	paused := func(c *queues.Config) { c.Paused = true }
	judged := func(c *queues.Config) { c.Admits = false } // by the mechanism's own judge
	private := func(c *queues.Config) { c.Queues[1].Private = true }
	for _, tt := range []struct {
		name  string
		set   func(*queues.Config)
		steps []step
		want  string // "": nothing
	}{
		{"a full buffer", buffer, []step{joins(0, 0, 150_000), joins(2400, 1, 50_000)}, ""},
		{"more than the buffer", buffer, []step{joins(0, 1, 200_000), joins(2400, 1, 10_000)}, queues.Buffer},
		{"more than the buffer, in a private queue", both(buffer, private),
			[]step{joins(0, 0, 200_000), joins(2400, 1, 10_000)}, ""},
		{"room again after a packet was withdrawn", buffer,
			[]step{joins(0, 1, 200_000), {ns: 1, stage: trace.Withdrawn, queue: 1, size: 200_000}, joins(2400, 1, 10_000)}, ""},
		{"room again after a packet was served", buffer,
			slices.Concat([]step{joins(0, 1, 200_000)}, leaves(0, 1, 200_000), []step{joins(2400, 1, 10_000)}), ""},

		{"a full queue", limit, []step{joins(0, 1, 29_000), joins(2400, 1, 1000)}, ""},
		{"more than a queue's bytes", limit, []step{joins(0, 1, 30_000), joins(2400, 1, 1000)}, queues.Limit},
		{"more than the bytes of another queue", limit, []step{joins(0, 0, 31_000)}, ""},
		{"more than a queue's bytes, of a lossless class", limit,
			[]step{{stage: trace.Joined, queue: 1, size: 31_000, lossless: true}}, ""},
		{"more than a queue's bytes, by a mechanism of its own", both(limit, judged), []step{joins(0, 1, 31_000)}, ""},
		{"as many packets as a queue takes", count, []step{joins(0, 1, 1), joins(0, 1, 1)}, ""},
		{"more packets than a queue takes", count, []step{joins(0, 1, 1), joins(0, 1, 1), joins(0, 1, 1)}, queues.Limit},

		{"as much as the threshold", shared, []step{joins(0, 1, 11_000), joins(2400, 1, 250)}, ""},
		{"more than the threshold", shared, []step{joins(0, 1, 11_000), joins(2400, 1, 1000)}, queues.Threshold},
		{"more than the threshold, as other queues fill the buffer", shared,
			[]step{joins(0, 0, 10_000), joins(0, 1, 6000), joins(0, 1, 300)}, queues.Threshold},
		{"more than a threshold that a private queue has not", both(shared, private), []step{joins(0, 1, 22_000)}, ""},

		{"refused with room", limit, []step{joins(0, 1, 3000), refused(2400, 1, 1500)}, queues.Refusal},
		{"refused for the queue's bytes", limit, []step{joins(0, 1, 29_000), refused(2400, 1, 1500)}, ""},
		{"refused with room to the byte", limit, []step{joins(0, 1, 28_500), refused(2400, 1, 1500)}, queues.Refusal},
		{"refused for the queue's packets", count, []step{joins(0, 1, 1), joins(0, 1, 1), refused(1, 1, 1)}, ""},
		{"refused for the buffer", buffer, []step{joins(0, 0, 199_000), refused(2400, 1, 1500)}, ""},
		{"refused for a buffer that a private queue does not use", both(buffer, private),
			[]step{joins(0, 0, 199_000), refused(2400, 1, 1500)}, queues.Refusal},
		{"refused for the threshold", shared, []step{joins(0, 1, 11_000), refused(2400, 1, 1500)}, ""},
		{"refused below the threshold", shared, []step{joins(0, 1, 9000), refused(2400, 1, 1500)}, queues.Refusal},
		{"refused with room, of a lossless class", limit,
			[]step{{stage: trace.Refused, queue: 1, size: 1500, lossless: true}}, ""},
		{"refused with room, by a mechanism of its own", both(limit, judged), []step{refused(0, 1, 1500)}, ""},

		{"sent as it comes", nil, slices.Concat([]step{joins(2280, 1, 1000)}, leaves(2280, 1, 1000)), ""},
		{"sent late", nil, slices.Concat([]step{joins(2280, 1, 1000)}, leaves(2400, 1, 1000)), queues.Idle},
		{"sent late, where neighbours pause ports", paused, slices.Concat([]step{joins(2280, 1, 1000)}, leaves(2400, 1, 1000)),
			""},
		{"sent as soon as the wire is free", nil,
			slices.Concat([]step{joins(0, 1, 1000)}, leaves(0, 1, 1000), []step{joins(1, 1, 1000)}, leaves(800, 1, 1000)), ""},
		{"sent after the wire was free", nil,
			slices.Concat([]step{joins(0, 1, 1000)}, leaves(0, 1, 1000), []step{joins(1, 1, 1000)}, leaves(801, 1, 1000)),
			queues.Idle},

		{"a frame after the one before it", nil, []step{{ns: 1600, queue: 1, size: 1000}, {ns: 2400, queue: 1, size: 1000}}, ""},
		{"a frame before the end of the one before it", nil,
			[]step{{ns: 1608, queue: 1, size: 1000}, {ns: 2400, queue: 1, size: 1000}}, queues.Rate},
		{"a frame within the gap after the one before it", func(c *queues.Config) { c.Ports = ports(20) },
			[]step{{ns: 1600, queue: 1, size: 1000}, {ns: 2400, queue: 1, size: 1000}}, queues.Rate},

		{"the higher queue first", strict, slices.Concat([]step{joins(2400, 1, 1000), joins(2400, 2, 1000)},
			leaves(2400, 2, 1000), leaves(3200, 1, 1000)), ""},
		{"the lower queue first", strict, slices.Concat([]step{joins(2400, 1, 1000), joins(2400, 2, 1000)},
			leaves(2400, 1, 1000)), queues.Priority},
		{"the lower queue first, in any order", nil, slices.Concat([]step{joins(2400, 1, 1000), joins(2400, 2, 1000)},
			leaves(2400, 1, 1000)), ""},
		{"the lower queue first, where neighbours pause ports", both(strict, paused),
			slices.Concat([]step{joins(2400, 1, 1000), joins(2400, 2, 1000)}, leaves(2400, 1, 1000)), ""},
		{"a queue with a weight before one that is strict", weighted(queues.ByBytes, 1, 1, 0), together(1), queues.Priority},
		{"a strict queue first", weighted(queues.ByBytes, 1, 1, 0), together(2, 2), ""},
		{"of two strict queues the lower first", weighted(queues.ByBytes, 1, 0, 0), together(1), queues.Priority},

		{"packets in turns", weighted(queues.ByPackets, 1, 1, 1), together(1, 2, 2, 1, 1, 2), queues.Share},
		{"packets in strict turns", weighted(queues.ByPackets, 1, 1, 1), together(1, 2, 1, 2, 1, 2), ""},
		{"packets by weight", weighted(queues.ByPackets, 1, 2, 1), together(1, 1, 2, 1, 1, 2), ""},
		{"packets by other weights", weighted(queues.ByPackets, 1, 1, 2), together(1, 1, 2, 1, 1, 2), queues.Share},
		{"two packets in a row", weighted(queues.ByPackets, 1, 1, 1), shiftedBy(1600, together(1, 1)), queues.Share},
		{"packets in a row while the other queue is empty", weighted(queues.ByPackets, 1, 1, 1),
			slices.Concat([]step{joins(0, 1, 1000), joins(0, 1, 1000)}, leaves(0, 1, 1000), leaves(800, 1, 1000)), ""},
		// 500 for the quantum, and 1000 for the largest packet of each
		{"bytes up to the bound", weighted(queues.ByBytes, 1, 1, 1), together(1, 1, 2, 2, 1, 1), ""},
		{"bytes beyond the bound", weighted(queues.ByBytes, 1, 1, 1), together(1, 1, 1), queues.Share},
		{"bytes beyond the bound, where neighbours pause ports", both(weighted(queues.ByBytes, 1, 1, 1), paused),
			together(1, 1, 1), ""},
		{"bytes of a strict queue", weighted(queues.ByBytes, 1, 0, 1), together(1, 1, 1, 1), ""},
	} {
		want := []string{tt.want}
		if tt.want == "" {
			want = nil
		}
		if got := judge(config(tt.set), tt.steps); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
	}
}

// shiftedBy returns steps that happen later.
func shiftedBy(ns int, steps []step) []step {
	for i := range steps {
		steps[i].ns += ns
	}
	return steps
}

// What happens at one port says nothing about another, but all share the buffer.
func TestPortsAreApartButShareTheBuffer(t *testing.T) {
	report := analyzers.NewReporter(queues.Name, queues.Rules())
	j := queues.New(config(func(c *queues.Config) { c.Buffer, c.Queues[1].Bytes = 3000, 2000 }), report)
	for port := range 3 {
		j.Observe(&trace.QueueEvent{Stage: trace.Joined, Port: port, Queue: 1, Size: 1000})
		j.Left(0, port, 1, 1000, 0)
	}
	if got := book.Keep(report.Findings()); len(got) > 0 {
		t.Errorf("%v", got)
	}
	j.Observe(&trace.QueueEvent{Stage: trace.Joined, Port: 3, Queue: 1, Size: 1, ID: 77})
	got := book.Keep(report.Findings())
	if len(got) != 1 || got[0].Rule != queues.Buffer || !slices.Equal(got[0].Packets, []uint64{77}) {
		t.Errorf("%v, want one finding of %s about packet 77", got, queues.Buffer)
	}
	if j.Events() != 4 {
		t.Errorf("%d events, want 4", j.Events())
	}
}
