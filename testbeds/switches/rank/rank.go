// Package rank has switches that schedule by rank: PIFO, as pFabric's switches use it, and what approximates it: AIFO
// (Yu et al. 2021), SP-PIFO (Alcoz et al. 2020) and AFQ (Sharma et al. 2018). Hosts give ranks, or ports do (start-time
// fair queueing).
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

// Reasons of drops: a more urgent packet takes the place, AIFO's quantile is too high, and AFQ's flow is too far ahead.
const (
	Evicted = fabric.ReasonOwn + iota
	Quantile
	Horizon
)

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
		Reasons: []analyzers.DropReason{{Name: "evicted", Doc: "A more urgent packet needed the room.", Evicts: true},
			{Name: "quantile", Doc: "AIFO: too many recent packets have smaller ranks, for the room that is left."},
			{Name: "horizon", Doc: "AFQ: the flow is too many rounds ahead."}},
		Models: []switches.Model{pifo(), aifo(), pieo(), spPIFO(), afq(), fair(pifo()), fair(aifo()), fair(pieo()),
			fair(spPIFO()), hpifo()},
		Settings: settings, Decisions: decisions(),
		Metrics: []switches.Metric{
			{Name: "rank-gap", Of: "rank.gap", Scale: 1e6, Head: "gap to PIFO",
				Doc: "For each port of AIFO or SP-PIFO, how far the packets that it has sent differ from those that a PIFO of as " +
					"many packets would have sent of the same arrivals: packets of one set alone, as a share of all of both. Of " +
					"rank."},
			{Name: "rank-inversions", Of: "rank.inversions", Scale: 1, Head: "inversions",
				Doc: "For each packet that leaves, how many of smaller ranks wait; not of afq and hpifo. Of rank."},
			{Name: "rank-gap-course", Of: "rank.gap-course", Scale: 1e6,
				Doc: "rank-gap as it went, at up to 256 departures of each port. Of rank."},
			{Name: "rank-waiting", Of: "rank.waiting", Scale: 1,
				Doc: "For each packet that comes to a port, how many wait there; not of hpifo. Of rank."},
			{Name: "rank-inversions-by-rank", Of: "rank.inversions-by-rank", Scale: 1,
				Doc: "For each rank, the inversions of the packets with it, in all; ranks above 1023 within a thousandth. Not of " +
					"ports that rank packets themselves. Of rank."},
			{Name: "rank-drops", Of: "rank.drops", Scale: 1e6,
				Doc: "For each tenth of the packets that came, by rank and the most urgent first, the share that is dropped. Not " +
					"of ports that rank packets themselves. Of rank."},
			{Name: "rank-mismatches", Of: "rank.mismatches", Scale: 1e6,
				Doc: "For each port of AIFO in mode dataplane, the share of packets about which the true length of the queue " +
					"would have decided otherwise. Of rank."},
			{Name: "rank-refused-quantile", Of: "rank.refused-quantile", Scale: 1e6,
				Doc: "For each packet that AIFO drops, the share of the window with smaller ranks. Of rank."},
			{Name: "rank-late", Of: "rank.late", Scale: 1,
				Doc: "For each port, packets that left after one of their flow that had come later; not of hpifo. Of rank."},
		},
	}
}

// faults are the seeded bugs of a switch.
type faults map[string]bool

func faultsOf(bugs []string) faults {
	f := make(faults, len(bugs))
	for _, b := range bugs {
		f[b] = true
	}
	return f
}

// lossy refuses lossless classes: these models refuse packets of every class.
func lossy(v parameter.Values, _ int, _ []switches.Frames) []switches.Problem {
	if v.Table().Find("pfc-classes") < 0 || len(v.Integers("pfc-classes")) == 0 {
		return nil
	}
	return []switches.Problem{{Key: "pfc-classes", What: "makes classes lossless",
		Why: "the model refuses packets of every class by their ranks: leave it out"}}
}

func has(bugs []string, name string) bool { return slices.Contains(bugs, name) }

// settings says what a port's queue is set to.
func settings(v parameter.Values, _ int) (any, error) {
	own := func(name string) bool { return v.Table().Find(name) >= 0 }
	s := judge.Settings{STFQ: own(stfqFlag)}
	s.Undo = s.STFQ && v.Bool(stfqFlag)
	switch {
	case own("target-packets"):
		s.Scheme, s.Admission = judge.AIFO, admission(v)
	case own("priorities"):
		s.Scheme, s.Mapping = judge.SPPIFO, mapping(v)
	case own("round-bytes"):
		s.Scheme, s.Calendar, s.Limits = judge.AFQ, calendar(v), judge.Limits{Packets: v.Int("queue-packets")}
	case own("tree"):
		s.Scheme, s.Tree, s.Limits = judge.HPIFO, switches.TreeOf(v), limits(v)
	case own("pace-mbps"):
		s.Scheme, s.Pace, s.Limits = judge.PIEO, pace(v), limits(v)
	default:
		s.Limits = limits(v)
	}
	return s, nil
}

// limits says what a queue of PIFO may hold, if nothing else decides whether there is room.
func limits(v parameter.Values) judge.Limits {
	has := func(name string) bool { return v.Table().Find(name) >= 0 } // those common to all switches; NICs have few
	if has("buffer-bytes") && v.Int("buffer-bytes") > 0 || has("per-queue") && len(v.List("per-queue")) > 0 ||
		has("pfc-classes") && len(v.Integers("pfc-classes")) > 0 {
		return judge.Limits{}
	}
	return judge.Limits{Packets: v.Int("queue-packets"), Bytes: v.Int("queue-bytes")}
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
				{Name: misrecords, Doc: "Decision records count a packet more that waits.", Rule: "rank.record"},
			}},
		NeedsRanks: true,
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = []fabric.QueueSpec{{MaxPackets: v.Int("queue-packets"), MaxBytes: v.Int("queue-bytes"),
				Order: fabric.ByRank}}
			return nil
		},
		New: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			return &PIFO{ranks: ranker(v, bugs).sorted(), inverts: slices.Contains(bugs, inverts),
				tailDrops:  slices.Contains(bugs, tailDrops),
				dropsFirst: slices.Contains(bugs, dropsFirst), dropsEarly: slices.Contains(bugs, dropsEarly),
				lastFirst: has(bugs, lastFirst), misrecords: has(bugs, misrecords)}, nil
		},
	}
}

// PIFO keeps the packets of the lowest ranks. The queue sorts them.
type PIFO struct {
	fabric.TailDrop
	inverts, tailDrops, dropsFirst, dropsEarly, lastFirst, misrecords bool

	arrived uint64 // of lastFirst: packets
	ranks   *stfq  // nil: packets carry ranks
}

// Ingress implements fabric.Mechanism: one queue for all classes.
func (m *PIFO) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	v.Queue = 0
	m.ranks.rank(sw, int(v.Port), p)
	switch q := sw.Port(int(v.Port)).Queue(0); {
	case m.inverts: // in the queue alone
		p.Meta = 1
		p.SetRank(math.MaxUint64 - p.Rank)
	case m.lastFirst && p.Rank < 1<<(64-orderBits):
		p.Meta = 1
		m.arrived++
		p.SetRank(p.Rank<<orderBits | ^m.arrived&(1<<orderBits-1))
	case m.dropsEarly && q.Tail() != nil && q.Tail().Rank < p.Rank && q.Packets() > 8:
		m.record(now, sw, p, v, causeFull)
		return v.Drop(fabric.ReasonTail)
	}
	if sw.Decides() && sw.Fits(sw.Port(int(v.Port)), 0, p) {
		m.record(now, sw, p, v, causeAdmitted)
	}
	return v
}

func (m *PIFO) record(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict, cause int) {
	if sw.Decides() {
		q := sw.Port(int(v.Port)).Queue(0)
		record(now, sw, p, v, cause, q.Bytes(), int64(p.Rank), int64(q.Packets())+number(m.misrecords))
	}
}

// orderBits number packets of one rank.
const orderBits = 32

// Dequeued implements fabric.Mechanism.
func (m *PIFO) Dequeued(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	m.ranks.served(int(v.Port), p)
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
		m.ranks.undo(sw, int(v.Port), q)
		sw.Discard(now, q, v.Drop(Evicted))
	}
	first := queue.Head()
	switch {
	case m.tailDrops:
		m.record(now, sw, p, v, causeFull)
		return v.Drop(fabric.ReasonTail)
	case m.dropsFirst && first != nil && first.Rank < queue.Tail().Rank:
		evict(first)
		m.record(now, sw, p, v, causeAdmitted)
		return v
	}
	for !sw.Fits(port, 0, p) {
		tail := queue.Tail()
		if tail == nil || tail.Rank <= p.Rank {
			m.ranks.undo(sw, int(v.Port), p)
			m.record(now, sw, p, v, causeFull)
			return v.Drop(fabric.ReasonTail)
		}
		evict(tail)
	}
	m.record(now, sw, p, v, causeAdmitted)
	return v
}
