// Package rank has switches that schedule by the ranks that hosts give packets: PIFO, as pFabric's switches use it.
package rank

import (
	"math"
	"slices"

	"candela.dev/candela/analyzers"
	judge "candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Evicted is the reason of the packet that a more urgent one takes the place of.
const Evicted = fabric.ReasonOwn

const (
	inverts    = "inverts"
	tailDrops  = "tail-drops"
	dropsFirst = "drops-first"
	dropsEarly = "drops-early"
	lastFirst  = "last-first"
)

// Family declares the family.
func Family() switches.Family {
	return switches.Family{Name: "rank", NICs: true,
		Reasons: []analyzers.DropReason{{Name: "evicted", Doc: "A more urgent packet needed the room."}},
		Models:  []switches.Model{pifo()}, Settings: limits,
	}
}

// limits says what a queue may hold, if nothing else decides whether there is room.
func limits(v parameter.Values, _ int) (any, error) {
	has := func(name string) bool { return v.Table().Find(name) >= 0 } // those common to all switches; NICs have few
	if has("buffer-bytes") && v.Int("buffer-bytes") > 0 || has("per-queue") && len(v.List("per-queue")) > 0 ||
		has("pfc-classes") && len(v.Integers("pfc-classes")) > 0 {
		return judge.Limits{}, nil
	}
	return judge.Limits{Packets: v.Int("queue-packets"), Bytes: v.Int("queue-bytes")}, nil
}

func pifo() switches.Model {
	return switches.Model{
		Model: parameter.Model{Name: "pifo",
			Doc: "One queue for each port, sorted by rank (PIFO): the lowest leaves first, and of equal ranks the oldest. " +
				"Without room the highest is dropped, and of equal ranks the youngest.",
			Parameters: parameter.Table{
				{Name: "queue-packets", Kind: parameter.Integer, Unit: "packets", Default: "80", Max: 1 << 30,
					Doc: "Packets that may wait in a queue; 0: no limit but queue-bytes."},
				{Name: "queue-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: 1 << 40,
					Doc: "Bytes that may wait in a queue; 0: no limit but queue-packets. pFabric's paper: 36,000."},
			},
			Bugs: []parameter.Bug{
				{Name: inverts, Doc: "The highest rank leaves first.", Rule: "rank.order"},
				{Name: tailDrops, Doc: "The packet that arrives is dropped.", Rule: "rank.drop"},
				{Name: dropsFirst, Doc: "The lowest rank is dropped.", Rule: "rank.drop"},
				{Name: dropsEarly, Doc: "A packet of the highest rank is dropped as soon as eight packets wait.",
					Rule: "rank.room"},
				{Name: lastFirst, Doc: "Of equal ranks the youngest leaves first.", Rule: "rank.fifo"},
			}},
		NeedsRanks: true,
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = []fabric.QueueSpec{{MaxPackets: v.Int("queue-packets"), MaxBytes: v.Int("queue-bytes"),
				Order: fabric.ByRank}}
			return nil
		},
		New: func(_ *fabric.Switch, _ parameter.Values, bugs []string) (fabric.Mechanism, error) {
			return &PIFO{inverts: slices.Contains(bugs, inverts), tailDrops: slices.Contains(bugs, tailDrops),
				dropsFirst: slices.Contains(bugs, dropsFirst), dropsEarly: slices.Contains(bugs, dropsEarly),
				lastFirst: slices.Contains(bugs, lastFirst)}, nil
		},
	}
}

// PIFO keeps the packets of the lowest ranks. The queue sorts them.
type PIFO struct {
	fabric.TailDrop
	inverts, tailDrops, dropsFirst, dropsEarly, lastFirst bool

	arrived uint64 // of lastFirst: packets
}

// Ingress implements fabric.Mechanism: one queue for all classes.
func (m *PIFO) Ingress(_ clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	v.Queue = 0
	switch q := sw.Port(int(v.Port)).Queue(0); {
	case m.inverts: // in the queue alone
		p.Meta = 1
		p.SetRank(math.MaxUint64 - p.Rank)
	case m.lastFirst && p.Rank < 1<<(64-orderBits):
		p.Meta = 1
		m.arrived++
		p.SetRank(p.Rank<<orderBits | ^m.arrived&(1<<orderBits-1))
	case m.dropsEarly && q.Tail() != nil && q.Tail().Rank < p.Rank && q.Packets() > 8:
		return v.Drop(fabric.ReasonTail)
	}
	return v
}

// orderBits number packets of one rank.
const orderBits = 32

// Dequeued implements fabric.Mechanism.
func (m *PIFO) Dequeued(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if p.Meta == 1 {
		p.Meta = 0
		if m.inverts {
			p.SetRank(math.MaxUint64 - p.Rank)
		} else {
			p.SetRank(p.Rank >> orderBits)
		}
	}
	return v
}

// Overflow implements fabric.Mechanism: packets of higher ranks are dropped, last first, until there is room; if that
// does not make enough of it, p is the next that is dropped.
func (m *PIFO) Overflow(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	port := sw.Port(int(v.Port))
	queue := port.Queue(0)
	evict := func(q *fabric.Packet) {
		sw.Extract(now, port, 0, q)
		sw.Discard(now, q, v.Drop(Evicted))
	}
	first := queue.Head()
	switch {
	case m.tailDrops:
		return v.Drop(fabric.ReasonTail)
	case m.dropsFirst && first != nil && first.Rank < queue.Tail().Rank:
		evict(first)
		return v
	}
	for !sw.Fits(port, 0, p) {
		tail := queue.Tail()
		if tail == nil || tail.Rank <= p.Rank {
			return v.Drop(fabric.ReasonTail)
		}
		evict(tail)
	}
	return v
}
