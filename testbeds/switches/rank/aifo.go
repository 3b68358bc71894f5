package rank

import (
	"fmt"
	"math"
	"math/bits"

	judge "candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// million is the denominator of k.
const million = 1_000_000

// Faults of AIFO.
const (
	inverted          = "aifo-inverted"
	countsTransmitted = "counts-transmitted"
	admittedWindow    = "admitted-window"
	dropsTies         = "drops-ties"
	switchWindow      = "switch-window"
	noHeadroom        = "no-headroom"
	samplesLate       = "samples-late"
	shortWindow       = "short-window"
	overfills         = "overfills"
	sorts             = "sorts"
	physicalTarget    = "physical-target"
	scaledThreshold   = "scaled-threshold"
	misrecords        = "misrecords"
	roundsMultiplier  = "rounds-multiplier"
	partialCells      = "partial-cells"
	seesAtOnce        = "sees-at-once"
	seesLate          = "sees-late"
	countsDeparting   = "counts-departing"
)

func aifo() switches.Model {
	return switches.Model{
		Model: parameter.Model{Name: "aifo",
			Doc: "Admission-in first-out (AIFO): one FIFO; a packet is admitted if the share of recent packets with smaller " +
				"ranks is at most the share of the queue that is free.",
			Parameters: parameter.Table{
				{Name: "target-packets", Kind: parameter.Integer, Unit: "packets", Default: "20", Min: 1, Max: 1 << 20,
					Doc: "C, the length that the queue is to keep below. The packet on the wire does not count."},
				{Name: "headroom", Kind: parameter.Number, Default: "0.1", Max: 1,
					Doc: "k: up to k C waiting packets everything is admitted. Below 1."},
				{Name: "window", Kind: parameter.Integer, Unit: "packets", Default: "20", Min: 1, Max: 1 << 16,
					Doc: "How many recent ranks are compared with that of a packet."},
				{Name: "sample", Kind: parameter.Integer, Unit: "packets", Default: "15", Min: 1, Max: 1 << 20,
					Doc: "One of so many packets, dropped ones included, enters the window."},
				{Name: "update", Kind: parameter.Word, Words: []string{"after", "before"}, Default: "after",
					Doc: "Whether a packet enters the window after the decision about it (the authors' simulator) or before it " +
						"(algorithm 5)."},
				{Name: "compare", Kind: parameter.Word, Words: []string{"at-most", "below"}, Default: "at-most",
					Doc: "How the share of smaller ranks and that of free places are compared: at most (the paper) or below (the " +
						"authors' simulator)."},
				{Name: "room-packets", Kind: parameter.Integer, Unit: "packets", Optional: true, Min: 1, Max: 1 << 20,
					Doc: "Packets that the queue holds; default: target-packets."},
				{Name: "mode", Kind: parameter.Word, Words: []string{"ideal", "dataplane"}, Default: "ideal",
					Doc: "dataplane: as on a Tofino, the ingress sees the queue as packets left it, loop-ns ago; the places of the " +
						"window that are still empty count as larger ranks."},
				{Name: "loop-ns", Kind: parameter.Duration, Unit: "ns", Default: "200", Max: 1_000_000,
					Doc: "How long a queue length takes to the ingress in mode dataplane."},
				{Name: "target-cells", Kind: parameter.Integer, Unit: "cells", Optional: true, Min: 1, Max: 1 << 20,
					Doc: "C in cells, in place of target-packets: the queue is counted as the buffer of a switch is. A packet takes " +
						"whole cells. The authors' testbed: 25,000."},
				{Name: "cell-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "80", Min: 1, Max: 1 << 16,
					Doc: "Size of a cell of target-cells."},
				{Name: "room-cells", Kind: parameter.Integer, Unit: "cells", Optional: true, Min: 1, Max: 1 << 20,
					Doc: "Cells that the queue holds, if target-cells counts them; default: target-cells."},
				{Name: "multiplier", Kind: parameter.Integer, Optional: true, Min: 1, Max: 1 << 20,
					Doc: "Of mode dataplane: what the pipeline multiplies by. A packet is admitted if the number of smaller ranks, " +
						"times this, and what waits add up to at most C. It takes the place of headroom: k is 1 - window x " +
						"multiplier / C. The authors' testbed: 1024, with a window of 20. Default: none; k is headroom, without " +
						"rounding."},
				{Name: "registers-per-stage", Kind: parameter.Integer, Unit: "registers", Default: "4", Min: 1, Max: 1 << 16,
					Doc: "Of mode dataplane: places of the window in each stage of the pipeline; window is a multiple of it. No " +
						"decision depends on it."},
			},
			Bugs: []parameter.Bug{
				{Name: inverted, Doc: "Larger instead of smaller ranks are counted, as section 4.4.4 says.",
					Rule: "rank.admission"},
				{Name: countsTransmitted, Doc: "The packet on the wire counts as waiting.", Rule: "rank.admission"},
				{Name: admittedWindow, Doc: "Only admitted packets enter the window.", Rule: "rank.admission"},
				{Name: dropsTies, Doc: "Equal ranks count as smaller.", Rule: "rank.admission"},
				{Name: switchWindow, Doc: "All ports share one window.", Rule: "rank.admission"},
				{Name: noHeadroom, Doc: "k is 0.", Rule: "rank.admission"},
				{Name: samplesLate, Doc: "One packet more passes between those that enter the window.", Rule: "rank.admission"},
				{Name: shortWindow, Doc: "The window has a quarter of its places, but at least one less.",
					Rule: "rank.admission"},
				{Name: physicalTarget, Doc: "What the queue holds (room-packets) is taken for C.", Rule: "rank.admission"},
				{Name: scaledThreshold, Doc: "The threshold falls as if C were half as large; the queue holds as much as before.",
					Rule: "rank.admission"},
				{Name: misrecords, Doc: "Decision records count a packet more that waits.", Rule: "rank.record"},
				{Name: overfills, Doc: "The queue holds four packets more.", Rule: "rank.bound"},
				{Name: sorts, Doc: "The queue is sorted by rank.", Rule: "rank.departure"},
				{Name: roundsMultiplier, Doc: "The multiplier is the next greater power of two.", Rule: "rank.admission"},
				{Name: partialCells, Doc: "Of target-cells: a cell that a packet fills in part does not count.",
					Rule: "rank.admission"},
				{Name: seesAtOnce, Doc: "Of mode dataplane: the ingress sees the queue as it is.", Rule: "rank.admission"},
				{Name: seesLate, Doc: "Of mode dataplane: a queue length takes twice loop-ns.", Rule: "rank.admission"},
				{Name: countsDeparting, Doc: "Of mode dataplane: the packet that leaves counts in the length that it leaves " +
					"behind.", Rule: "rank.admission"},
			}},
		NeedsRanks: true, OwnQueues: true,
		Configure: func(v parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = []fabric.QueueSpec{{MaxPackets: int(1 << 30)}}
			return nil
		},
		Check: func(v parameter.Values, ports int, offered []switches.Frames) []switches.Problem {
			list := lossy(v, ports, offered)
			if v.Number("headroom") == 1 {
				list = append(list, switches.Problem{Key: "headroom", What: "is 1",
					Why: "k is below 1: otherwise nothing is ever refused"})
			}
			return append(list, pipeline(v)...)
		},
		Distort: func(bugs []string, s *fabric.SwitchSpec) {
			if has(bugs, sorts) {
				s.Queues[0].Order = fabric.ByRank
			}
		},
		New: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			return newAIFO(admission(v), ranker(v, bugs), bugs), nil
		},
	}
}

// pipeline returns settings that do not go together: cells and packets, and what only mode dataplane has.
func pipeline(v parameter.Values) (list []switches.Problem) {
	add := func(key, what, why string) { list = append(list, switches.Problem{Key: key, What: what, Why: why}) }
	if v.Has("target-cells") && v.Has("room-packets") {
		add("room-packets", "is given beside target-cells", "the queue is counted in cells: give room-cells")
	}
	if !v.Has("target-cells") && v.Has("room-cells") {
		add("room-cells", "is given without target-cells", "the queue is counted in packets: give room-packets")
	}
	stage, window, target := v.Int("registers-per-stage"), v.Int("window"), admission(v).Target
	switch dataplane := v.Word("mode") == "dataplane"; {
	case dataplane && window%stage > 0:
		add("window", fmt.Sprintf("is %d", window), fmt.Sprintf("each stage of the pipeline has %d of its places "+
			"(registers-per-stage): give a multiple", stage))
	case !dataplane && v.Has("multiplier"):
		add("multiplier", "is given in mode ideal", "only mode dataplane multiplies; ideal compares by headroom")
	case v.Has("multiplier") && int64(window)*int64(v.Int("multiplier")) > target:
		add("multiplier", fmt.Sprintf("is %d", v.Int("multiplier")), fmt.Sprintf("with a window of %d and C = %d k would be "+
			"below 0: at most C / window is possible", window, target))
	}
	return list
}

// admission returns the settings of AIFO.
func admission(v parameter.Values) judge.Admission {
	a := judge.Admission{Target: int64(v.Int("target-packets")), HeadroomPPM: v.Step("headroom"), Window: v.Int("window"),
		Sample: v.Int("sample"), UpdateFirst: v.Word("update") == "before", Below: v.Word("compare") == "below",
		Room: v.Int("target-packets")}
	if v.Has("room-packets") {
		a.Room = v.Int("room-packets")
	}
	if v.Has("target-cells") {
		a.Cell, a.Target, a.Room = v.Int("cell-bytes"), int64(v.Int("target-cells")), v.Int("target-cells")
		if v.Has("room-cells") {
			a.Room = v.Int("room-cells")
		}
	}
	if v.Word("mode") == "dataplane" {
		a.Loop = v.Duration("loop-ns")
		a.Stale = true
		if v.Has("multiplier") {
			a.Multiplier = int64(v.Int("multiplier"))
		}
	}
	return a
}

// AIFO admits packets to a FIFO by rank (Yu et al. 2021, algorithm 5). It draws no random numbers.
type AIFO struct {
	fabric.TailDrop
	set    judge.Admission
	ports  []*window
	cells  []int64 // that wait, by port, if cells are counted
	ranks  *stfq   // nil: packets carry ranks
	faults faults

	miscounts bool // by a fault
}

// window is the recent ranks of a port, and in mode dataplane what its ingress knows of the queue.
type window struct {
	ranks   []uint64
	filled  int
	next    int // place
	arrived int
	reports []report
}

// report is a queue length that a departing packet left behind.
type report struct {
	at      clock.Time
	waiting int64
}

func newAIFO(set judge.Admission, ranks *stfq, bugs []string) *AIFO {
	m := &AIFO{set: set, ranks: ranks, faults: faultsOf(bugs)}
	m.miscounts = m.faults[inverted] || m.faults[dropsTies]
	if m.faults[noHeadroom] {
		m.set.HeadroomPPM = 0
	}
	if m.faults[samplesLate] {
		m.set.Sample++
	}
	if m.faults[shortWindow] {
		m.set.Window = max(1, min(m.set.Window/4, m.set.Window-1))
	}
	if m.faults[physicalTarget] {
		m.set.Target = int64(m.set.Room)
	}
	if m.faults[scaledThreshold] {
		m.set.Target = max(1, m.set.Target/2)
	}
	if m.faults[overfills] {
		m.set.Room += 4
	}
	if m.faults[roundsMultiplier] && m.set.Multiplier > 0 {
		m.set.Multiplier = 1 << bits.Len64(uint64(m.set.Multiplier))
	}
	if m.faults[seesLate] {
		m.set.Loop *= 2
	}
	return m
}

func (m *AIFO) port(i int) *window {
	if m.faults[switchWindow] {
		i = 0
	}
	for len(m.ports) <= i {
		m.ports = append(m.ports, nil)
	}
	if m.ports[i] == nil {
		w := &window{ranks: make([]uint64, m.set.Window)}
		if m.set.Stale {
			for j := range w.ranks {
				w.ranks[j] = math.MaxUint64
			}
			w.filled = len(w.ranks)
		}
		m.ports[i] = w
	}
	return m.ports[i]
}

// Ingress implements fabric.Mechanism.
func (m *AIFO) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	v.Queue = 0
	m.ranks.rank(sw, int(v.Port), p)
	w, q := m.port(int(v.Port)), sw.Port(int(v.Port)).Queue(0)
	held, size := m.held(int(v.Port), q), m.takes(p)
	c := held
	if m.set.Stale && !m.faults[seesAtOnce] {
		c = w.seen(now, m.set.Loop)
	}
	if m.faults[countsTransmitted] && sw.Port(int(v.Port)).BusyUntil() > now {
		c++
	}
	sampled := w.arrived%m.set.Sample == 0
	w.arrived++
	if sampled && m.set.UpdateFirst && !m.faults[admittedWindow] {
		w.insert(p.Rank)
	}
	below, filled := int64(0), w.filled
	if sw.Decides() || !m.short(c) { // most packets meet a short queue, and counting is most of the work
		below = m.below(w, p.Rank)
	}
	cause, admit := causeAdmitted, m.admits(c, below, int64(filled))
	if !admit {
		cause = causeQuantile
	} else if held+size > int64(m.set.Room) {
		cause, admit = causeFull, false
	}
	if sampled && (!m.set.UpdateFirst && !m.faults[admittedWindow] || m.faults[admittedWindow] && admit) {
		w.insert(p.Rank)
	}
	if sw.Decides() {
		if m.faults[misrecords] {
			c++
		}
		record(now, sw, p, v, cause, q.Bytes(), int64(p.Rank), c, below, int64(filled), number(sampled))
	}
	switch cause {
	case causeQuantile:
		m.ranks.undo(sw, int(v.Port), p)
		return v.Drop(Quantile)
	case causeFull:
		m.ranks.undo(sw, int(v.Port), p)
		return v.Drop(fabric.ReasonTail)
	}
	if m.set.Cell > 0 {
		m.cells[v.Port] += size
	}
	return v
}

// held returns how much waits at a port, in packets or cells.
func (m *AIFO) held(port int, q *fabric.Queue) int64 {
	if m.set.Cell == 0 {
		return int64(q.Packets())
	}
	for len(m.cells) <= port {
		m.cells = append(m.cells, 0)
	}
	if q.Packets() == 0 { // the trunk may have failed and lost what waited
		m.cells[port] = 0
	}
	return m.cells[port]
}

// takes returns how much of C a packet takes: whole cells, or a packet.
func (m *AIFO) takes(p *fabric.Packet) int64 {
	size := int(p.Size)
	switch {
	case m.set.Cell == 0:
		return 1
	case m.faults[partialCells]:
		return int64(size / m.set.Cell)
	}
	return int64((size + m.set.Cell - 1) / m.set.Cell)
}

// Dequeued implements fabric.Mechanism.
func (m *AIFO) Dequeued(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	m.ranks.served(int(v.Port), p)
	if m.set.Cell > 0 {
		m.cells[v.Port] -= m.takes(p)
	}
	if m.set.Stale {
		w, left := m.port(int(v.Port)), m.held(int(v.Port), sw.Port(int(v.Port)).Queue(0))
		if m.faults[countsDeparting] {
			left += m.takes(p)
		}
		w.reports = append(w.reports, report{now, left})
	}
	return v
}

// seen returns the queue length of a port that has reached its ingress.
func (w *window) seen(now clock.Time, loop clock.Duration) int64 {
	i := 0
	for i+1 < len(w.reports) && w.reports[i+1].at.Add(loop) <= now {
		i++
	}
	if w.reports = w.reports[:copy(w.reports, w.reports[i:])]; len(w.reports) == 0 || w.reports[0].at.Add(loop) > now {
		return 0
	}
	return w.reports[0].waiting
}

func (w *window) insert(rank uint64) {
	w.ranks[w.next] = rank
	if w.next++; w.next == len(w.ranks) {
		w.next = 0
	}
	w.filled = min(w.filled+1, len(w.ranks))
}

// below counts the ranks of a window that are smaller.
func (m *AIFO) below(w *window, rank uint64) (n int64) {
	if m.miscounts {
		return m.miscount(w, rank)
	}
	for _, r := range w.ranks[:w.filled] {
		if r < rank {
			n++
		}
	}
	return n
}

// miscount counts as faults do.
func (m *AIFO) miscount(w *window, rank uint64) (n int64) {
	for _, r := range w.ranks[:w.filled] {
		if m.faults[inverted] {
			n += int64(number(r > rank))
		} else {
			n += int64(number(r <= rank))
		}
	}
	return n
}

// admits is the condition of algorithm 5 in integers: c ≤ k C, or below / filled ≤ (C − c) / (C (1 − k)). The pipeline
// of a switch multiplies once: below × multiplier + c ≤ C.
func (m *AIFO) admits(c, below, filled int64) bool {
	s := &m.set
	if s.Multiplier > 0 {
		sum := below*s.Multiplier + c
		return sum < s.Target || sum == s.Target && !s.Below
	}
	if m.short(c) {
		return true
	}
	over := below*s.Target*(million-s.HeadroomPPM) - million*(s.Target-c)*max(filled, 1)
	return over < 0 || over == 0 && !s.Below
}

// short reports whether the queue alone decides, in favour of every packet.
func (m *AIFO) short(c int64) bool {
	return m.set.Multiplier == 0 && million*c <= m.set.HeadroomPPM*m.set.Target
}

// Kinds and causes of decisions.
const (
	kindQueued = iota
	kindRefused
)

const (
	causeAdmitted = iota
	causeQuantile
	causeFull
	causeHorizon
)

// decisions declares what the models record of every packet.
func decisions() []trace.DecisionKind {
	values := []trace.DecisionValue{
		{Name: "port-rank", Doc: "Rank of the packet, as the port sees it."},
		{Name: "waiting", Unit: "packets", Doc: "Packets that wait, as AIFO sees them, or cells if target-cells counts " +
			"them; of sp-pifo the queue, from 0, the first to be served; of afq the round that is served."},
		{Name: "smaller", Doc: "Ranks of the window that are smaller; of sp-pifo the bound of the queue before."},
		{Name: "window", Doc: "Ranks in the window; of sp-pifo by how much all bounds fall."},
		{Name: "sampled", Doc: "1: the packet enters the window."},
	}
	causes := []string{"", "quantile", "full", "horizon"}
	return []trace.DecisionKind{
		{Name: "queued", Doc: "The packet waits.", Outcome: trace.OutcomeQueued, Causes: causes, Values: values},
		{Name: "refused", Doc: "It is dropped.", Outcome: trace.OutcomeDropped, Causes: causes, Values: values},
	}
}

func record(now clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict, cause, bytes int, values ...int64) {
	d := trace.Decision{Port: int(v.Port), Queue: int(v.Queue), Kind: kindQueued, Cause: uint8(cause),
		Occupancy: int64(bytes)}
	if cause != causeAdmitted {
		d.Kind = kindRefused
	}
	copy(d.Values[:], values)
	sw.Decide(now, p, d)
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
