package rank

import (
	judge "candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Faults of SP-PIFO.
const (
	noPushUp      = "no-push-up"
	noPushDown    = "no-push-down"
	pushesOnDrop  = "pushes-on-drop"
	topFirst      = "top-first"
	reversed      = "reversed"
	shortQueues   = "short-queues"
	pushDownTwice = "push-down-twice"
)

func spPIFO() switches.Model {
	return switches.Model{
		Model: parameter.Model{Name: "sp-pifo",
			Doc: "Strict-priority PIFO (SP-PIFO): a few FIFOs with strict priorities; a packet joins the lowest whose bound " +
				"its rank reaches, and the bounds follow the ranks.",
			Parameters: parameter.Table{
				{Name: "priorities", Kind: parameter.Integer, Unit: "queues", Default: "8", Min: 1, Max: 64,
					Doc: "FIFOs of a port."},
				{Name: "packets-per-queue", Kind: parameter.Integer, Unit: "packets", Default: "10", Min: 1, Max: 1 << 20,
					Doc: "Packets that each holds."},
				{Name: "push-up", Kind: parameter.Boolean, Default: "true",
					Doc: "The bound of a FIFO becomes the rank of the packet that joins it; otherwise it rises never, and falls to " +
						"smaller ranks."},
				{Name: "push-down", Kind: parameter.Boolean, Default: "true",
					Doc: "A packet that joins the first FIFO below its bound lowers all other bounds by the difference."},
			},
			Bugs: []parameter.Bug{
				{Name: noPushUp, Doc: "Bounds never rise.", Rule: "rank.mapping"},
				{Name: noPushDown, Doc: "Bounds never fall.", Rule: "rank.mapping"},
				{Name: pushDownTwice, Doc: "They fall by twice the difference.", Rule: "rank.mapping"},
				{Name: pushesOnDrop, Doc: "Packets that are dropped move the bounds, too.", Rule: "rank.mapping"},
				{Name: topFirst, Doc: "The first FIFO whose bound the rank reaches is taken from the top.", Rule: "rank.mapping"},
				{Name: reversed, Doc: "The last FIFO is served first.", Rule: "rank.departure"},
				{Name: shortQueues, Doc: "Each FIFO holds a packet less; at least one.", Rule: "rank.refused"},
				{Name: misrecords, Doc: "Decision records say that bounds fall by one more.", Rule: "rank.record"},
			}},
		NeedsRanks: true, OwnQueues: true, Check: lossy,
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = make([]fabric.QueueSpec, v.Int("priorities"))
			for i := range s.Queues {
				s.Queues[i].MaxPackets = v.Int("packets-per-queue")
			}
			s.Scheduler = fabric.SchedulerSpec{Kind: fabric.Strict}
			return nil
		},
		Distort: func(bugs []string, s *fabric.SwitchSpec) {
			if has(bugs, shortQueues) {
				for i := range s.Queues {
					s.Queues[i].MaxPackets = max(1, s.Queues[i].MaxPackets-1)
				}
			}
		},
		New: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			return &SPPIFO{set: mapping(v), ranks: ranker(v, bugs), faults: faultsOf(bugs)}, nil
		},
	}
}

// mapping returns the settings of SP-PIFO.
func mapping(v parameter.Values) judge.Mapping {
	return judge.Mapping{Queues: v.Int("priorities"), Packets: v.Int("packets-per-queue"), PushUp: v.Bool("push-up"),
		PushDown: v.Bool("push-down")}
}

// SPPIFO maps ranks to FIFOs with strict priorities (Alcoz et al. 2020, 4).
type SPPIFO struct {
	fabric.TailDrop
	set    judge.Mapping
	bounds [][]uint64 // by port, then by priority; 0 is served first
	ranks  *stfq      // nil: packets carry ranks
	faults faults
}

func (m *SPPIFO) port(i int) []uint64 {
	for len(m.bounds) <= i {
		m.bounds = append(m.bounds, make([]uint64, m.set.Queues))
	}
	return m.bounds[i]
}

// Ingress implements fabric.Mechanism.
func (m *SPPIFO) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	port := sw.Port(int(v.Port))
	m.ranks.rank(sw, port.Index(), p)
	bounds := m.port(port.Index())
	i := m.choose(bounds, p.Rank)
	v.Queue = m.queue(i)
	bound, fits := bounds[i], sw.Fits(port, int(v.Queue), p)
	fall := uint64(0)
	if fits || m.faults[pushesOnDrop] {
		fall = m.push(bounds, i, p.Rank)
	}
	cause := causeAdmitted
	if !fits {
		cause = causeFull
	}
	if sw.Decides() {
		record(now, sw, p, v, cause, port.Queue(int(v.Queue)).Bytes(), int64(p.Rank), int64(i), int64(bound),
			int64(fall)+number(m.faults[misrecords]))
	}
	if !fits {
		m.ranks.undo(sw, port.Index(), p)
		return v.Drop(fabric.ReasonTail)
	}
	return v
}

// choose returns the priority whose bound a rank reaches, the lowest such.
func (m *SPPIFO) choose(bounds []uint64, rank uint64) int {
	if m.faults[topFirst] {
		for i := 1; i < len(bounds); i++ {
			if bounds[i] > rank {
				return i - 1
			}
		}
		return 0
	}
	for i := len(bounds) - 1; i > 0; i-- {
		if bounds[i] <= rank {
			return i
		}
	}
	return 0
}

// push moves the bounds for a packet that joins a priority, and returns by how much all of them fall.
func (m *SPPIFO) push(bounds []uint64, i int, rank uint64) (fall uint64) {
	if i == 0 && rank < bounds[0] && m.set.PushDown && !m.faults[noPushDown] {
		fall = bounds[0] - rank
		if m.faults[pushDownTwice] {
			fall *= 2
		}
		for j := 1; j < len(bounds); j++ {
			bounds[j] -= min(bounds[j], fall)
		}
	}
	if rank > bounds[i] && (m.faults[noPushUp] || !m.set.PushUp) {
		return fall
	}
	bounds[i] = rank
	return fall
}

// queue returns that of a priority: the scheduler serves the highest index first.
func (m *SPPIFO) queue(priority int) uint8 {
	if m.faults[reversed] {
		return uint8(priority)
	}
	return uint8(m.set.Queues - 1 - priority)
}

// Dequeued implements fabric.Mechanism.
func (m *SPPIFO) Dequeued(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	m.ranks.served(int(v.Port), p)
	return v
}
