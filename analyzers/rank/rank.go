// Package rank judges switches, and NICs, that schedule by rank (PIFO). It sees packets enter, leave and be dropped;
// at which port a packet waited is known when it leaves or is dropped there. Between these instants and its arrival no
// packet of a higher rank may have left by that port, and none of a lower rank may have been dropped for want of room.
// All packets inside are an upper bound of those in the queue: if even they fit, there was room.
package rank

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

const (
	ruleOrder = "rank.order"
	ruleFIFO  = "rank.fifo"
	ruleDrop  = "rank.drop"
	ruleRoom  = "rank.room"

	ruleAdmission = "rank.admission"
	ruleBound     = "rank.bound"
	ruleRefused   = "rank.refused"
	ruleDeparture = "rank.departure"
	ruleMapping   = "rank.mapping"
	ruleStart     = "rank.start"
	ruleHorizon   = "rank.horizon"
	ruleRecord    = "rank.record"

	ruleReordering = "rank.reordering"
	ruleLevel      = "rank.level"
	ruleRate       = "rank.rate"
	ruleNotJudged  = "rank.not-judged"
	ruleEligible   = "rank.eligible"
	ruleIdle       = "rank.idle"
	ruleTree       = "rank.tree"
	ruleTreeDrop   = "rank.tree-drop"
)

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	const clause = "Alizadeh et al. 2013, 4.1; Sivaraman et al. 2016 (PIFO)"
	const ofAIFO = "Yu et al. 2021, algorithm 5 (AIFO)"
	const ofHPIFO = "Sivaraman et al. 2016, 2.2 (tree of PIFOs)"
	const ofPIEO = "Shrivastav 2019, 3 (PIEO)"
	return []analyzers.Rule{
		{ID: ruleOrder, Clause: clause, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "Of the packets that wait for a port, one of the lowest rank leaves first."},
		{ID: ruleFIFO, Clause: clause, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "Of the packets of one rank that wait for a port, the one that arrived first leaves first."},
		{ID: ruleDrop, Clause: clause, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "Of the packets that wait for a port and the one that arrives, the youngest of the highest rank is " +
				"dropped."},
		{ID: ruleRoom, Clause: clause, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "A packet is dropped for want of room only if the queue cannot hold all packets of the switch."},
		{ID: ruleAdmission, Clause: ofAIFO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "AIFO admits a packet if and only if at most k C packets wait, or the share of smaller ranks in the " +
				"window is at most the share of the queue that is free."},
		{ID: ruleBound, Clause: ofAIFO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "A queue never holds more than it may."},
		{ID: ruleRefused, Clause: ofAIFO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "A packet is dropped for want of room only if its queue is full, and one that waits only if it makes " +
				"room by its rank (PIFO)."},
		{ID: ruleDeparture, Clause: ofAIFO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "Packets leave in the order of the scheme: of arrival (AIFO); by priority, then arrival (SP-PIFO); by " +
				"rank, then arrival (PIFO, AFQ, and of the packets that may leave PIEO)."},
		{ID: ruleMapping, Clause: "Alcoz et al. 2020, 4 (SP-PIFO)", Severity: analyzers.Violation,
			Needs: analyzers.NeedsSwitch,
			Statement: "SP-PIFO puts a packet into the lowest priority whose bound is at most its rank; the bound becomes the " +
				"rank, and an inversion lowers the others."},
		{ID: ruleStart, Clause: "Goyal et al. 1997 (STFQ); Sharma et al. 2018, 3 (AFQ)", Severity: analyzers.Violation,
			Needs: analyzers.NeedsSwitch,
			Statement: "A port ranks a packet by where its flow ended, or by what is served if that is later. A packet moves " +
				"its flow on by its bytes over the flow's weight, rounded down to 2^-20 bytes; one that is dropped does not."},
		{ID: ruleHorizon, Clause: "Sharma et al. 2018, 3 (AFQ)", Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "AFQ drops a packet if and only if its round is too far ahead."},
		{ID: ruleRecord, Clause: ofAIFO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Records: "what the port found at each packet", RecordsOnly: true,
			Statement: "What a port records of a decision is what its arrivals and departures show."},
		{ID: ruleReordering, Clause: ofAIFO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "No packet leaves AIFO before an earlier one of its flow."},
		{ID: ruleLevel, Clause: "Yu et al. 2021, theorem 3 (AIFO)", Severity: analyzers.Violation,
			Needs: analyzers.NeedsSwitch,
			Statement: "Under stationary overload AIFO's queue settles where the free share equals the share of ranks below " +
				"that which is served in part, within 5 % of C and the error of the window."},
		{ID: ruleRate, Clause: "Yu et al. 2021, theorem 3 (AIFO)", Severity: analyzers.Violation,
			Needs: analyzers.NeedsSwitch,
			Statement: "Under stationary overload AIFO admits 95 % of the ranks that the link carries, and at most 5 % of " +
				"those two or more above the last that it carries in part."},
		{ID: ruleNotJudged, Clause: "docs/internals/architecture.md, The observer sits at the switch",
			Severity:  analyzers.Note,
			Needs:     analyzers.NeedsSwitch,
			Statement: "Theorem 3 is judged of ports with stationary overload, and switches as long as what waits is known."},
		{ID: ruleEligible, Clause: ofPIEO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "PIEO sends a packet only if the pace of its flow allows it."},
		{ID: ruleIdle, Clause: ofPIEO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, SteadyLinks: true,
			ExactTimes: true,
			Statement: "A port sends as soon as its link is free and a packet waits; only PIEO keeps those that the pace of " +
				"their flow holds."},
		{ID: ruleTree, Clause: ofHPIFO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "At each node of HPIFO's tree the element of the lowest rank is served first, of equal ones the oldest."},
		{ID: ruleTreeDrop, Clause: ofHPIFO, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch,
			Statement: "Without room HPIFO drops the packet that its tree has last."},
	}
}

func causeOrder(who cause.Switch, first, other uint64, at clock.Time, rank, lower uint64) cause.Cause {
	return cause.Of(ruleOrder, "lower-rank-waits",
		"%v sent packet %v of rank %v at %v; packet %v of rank %v was waiting.", who, packet(first), cause.Count(rank),
		cause.Clock(at), packet(other), cause.Count(lower))
}

func causeFIFO(who cause.Switch, id uint64, rank uint64, at clock.Time) cause.Cause {
	return cause.Of(ruleFIFO, "overtaken", "%v sent packet %v of rank %v at %v, after a younger packet of that rank.", who,
		packet(id), cause.Count(rank), cause.Clock(at))
}

func causeDrop(who cause.Switch, first, other uint64, at clock.Time, rank, higher uint64) cause.Cause {
	return cause.Of(ruleDrop, "higher-rank-kept",
		"%v dropped packet %v of rank %v at %v; packet %v of rank %v was waiting.", who, packet(first), cause.Count(rank),
		cause.Clock(at), packet(other), cause.Count(higher))
}

func causeRoom(who cause.Switch, id uint64, at clock.Time, inside, limit cause.Counted) cause.Cause {
	return cause.Of(ruleRoom, "left", "%v dropped packet %v at %v for want of room. It held %v, this one included; the "+
		"queue takes %v.", who, packet(id), cause.Clock(at), inside, limit)
}

func causeAdmission(who cause.Switch, id, rank uint64, did string, q quota) cause.Cause {
	return cause.Of(ruleAdmission, did, "%v "+did+" packet %v of rank %v while %v waited and %v of %v ranks in the "+
		"window were smaller.", who, packet(id), cause.Count(rank), q.waiting, cause.Count(q.below),
		cause.Count(q.filled))
}

func causeBound(who cause.Switch, id uint64, held, limit cause.Counted) cause.Cause {
	return cause.Of(ruleBound, "overfilled", "%v let packet %v join %v; the queue takes %v.", who, packet(id), held, limit)
}

func causeRefused(who cause.Switch, id uint64, held, limit cause.Counted) cause.Cause {
	return cause.Of(ruleRefused, "left", "%v dropped packet %v for want of room while %v waited; the queue takes %v.", who,
		packet(id), held, limit)
}

func causeDeparture(who cause.Switch, id uint64, at clock.Time, first uint64) cause.Cause {
	return cause.Of(ruleDeparture, "overtakes", "%v sent packet %v at %v; packet %v was to leave first.", who, packet(id),
		cause.Clock(at), packet(first))
}

func causeMapping(who cause.Switch, id, rank uint64, got, want int) cause.Cause {
	return cause.Of(ruleMapping, "other-queue", "%v put packet %v of rank %v into queue %v; by its bounds it belonged "+
		"into queue %v.", who, packet(id), cause.Count(rank), cause.Count(got), cause.Count(want))
}

func causeStart(who cause.Switch, id, got, want uint64) cause.Cause {
	return cause.Of(ruleStart, "other-rank", "%v gave packet %v rank %v; by what its flow has sent it is %v.", who,
		packet(id), cause.Count(got), cause.Count(want))
}

func causeHorizon(who cause.Switch, id uint64, kept bool, ahead int64, rounds int) cause.Cause {
	if kept {
		return cause.Of(ruleHorizon, "kept", "%v kept packet %v, which is %v rounds ahead; %v are allowed.", who, packet(id),
			cause.Count(ahead), cause.Count(rounds))
	}
	return cause.Of(ruleHorizon, "dropped", "%v dropped packet %v, which is only %v rounds ahead; %v are allowed.", who,
		packet(id), cause.Count(ahead), cause.Count(rounds))
}

func causeRecord(who cause.Switch, id uint64, got, want quota) cause.Cause {
	return cause.Of(ruleRecord, "other", "%v recorded that packet %v found %v waiting and %v of %v ranks smaller; there "+
		"were %v, and %v of %v.", who, packet(id), cause.Count(got.waiting.N), cause.Count(got.below),
		cause.Count(got.filled), cause.Count(want.waiting.N), cause.Count(want.below), cause.Count(want.filled))
}

func causeReordering(who cause.Switch, id, first uint64, at clock.Time) cause.Cause {
	return cause.Of(ruleReordering, "overtakes", "%v sent packet %v at %v before packet %v of the same flow, which came "+
		"earlier.", who, packet(id), cause.Clock(at), packet(first))
}

func causeLevel(who cause.Switch, port int, mean, least, most float64, k, n int, p float64) cause.Cause {
	return cause.Of(ruleLevel, "elsewhere", "Port %v of %v kept %v packets waiting on average; its traffic allows "+
		"%v to %v. "+
		"So it was in %v of %v stretches; a correct port does that with a probability of at most %v.",
		cause.Port{Number: port}, who,
		number("%.1f", mean), number("%.1f", least), number("%.1f", most), cause.Count(k), cause.Count(n), number("%.1g", p))
}

func causeRate(who cause.Switch, port int, rank uint64, share float64, allowed string, k, n int,
	p float64) cause.Cause {
	return cause.Of(ruleRate, "other-share",
		"Port %v of %v admitted %v %% of the packets of rank %v; its traffic allows %v. "+
			"So it was in %v of %v stretches; a correct port does that with a probability of at most %v.",
		cause.Port{Number: port}, who, number("%.1f", 100*share), cause.Count(rank), cause.Name(allowed), cause.Count(k),
		cause.Count(n), number("%.1g", p))
}

func causeNotJudged(who cause.Switch, port int, why string) cause.Cause {
	return cause.Of(ruleNotJudged, "theorem", "Port %v of %v is not judged by theorem 3, because %v.",
		cause.Port{Number: port}, who,
		cause.Name(why))
}

func number(format string, v float64) cause.Argument { return cause.Name(fmt.Sprintf(format, v)) }

func packets(n int) cause.Counted { return cause.Counted{N: int64(n), Noun: "packet"} }

func packet(id uint64) cause.Argument { return cause.Name(trace.PacketText(id)) }

// Causes lists an example of each cause, as the tests of this package report it.
func Causes() []cause.Cause {
	us := func(n int) clock.Time { return clock.Time(0).Add(clock.Duration(n) * clock.Microsecond) }
	return []cause.Cause{
		causeOrder("s", 1, 2, us(3), 20, 10),
		causeFIFO("s", 1, 10, us(4)),
		causeDrop("s", 2, 1, us(2), 10, 20),
		causeRoom("s", 1, us(2), cause.Bytes(100), cause.Bytes(250)),
		causeAdmission("s", 4, 9, "dropped", quota{packets(1), 1, 4}),
		causeAdmission("s", 4, 9, "admitted", quota{packets(3), 4, 4}),
		causeBound("s", 4, packets(3), packets(3)),
		causeRefused("s", 4, packets(2), packets(3)),
		causeThrown("s", 1, us(2)),
		causeReason("s", 3, "evicted"),
		causeDeparture("s", 2, us(2), 1),
		causeMapping("s", 1, 5, 1, 0),
		causeStart("s", 1, 100<<WeightBits, 0),
		causeHorizon("s", 4, true, 33, 32),
		causeHorizon("s", 4, false, 31, 32),
		causeRecord("s", 3, quota{packets(1), 0, 2}, quota{packets(2), 0, 2}),
		causeClaim("s", 2, "waiting", 2, 1),
		causeCause("s", 3, "quantile", "full"),
		causeTwice("s", 1),
		causeReordering("s", 2, 1, us(2)),
		causeLevel("s", 0, 130.6, 137.6, 303.4, 29, 29, 2e-9),
		causeRate("s", 0, 9, 1, "at most 5 %", 29, 29, 2e-9),
		causeNotJudged("s", 0, "the load is below 1.1"),
		causeUnrepeated("s", us(0)),
		causeEligible("s", 2, us(2), us(3)),
		causeIdle("s", 2, us(4), us(3)),
		causePauses("s", 0, us(3), us(2)),
		causeTree("s", 2, us(6), 0, 4),
		causeTreeDrop("s", 2, us(3), 3),
	}
}

// Judge judges all switches of a run.
type Judge struct {
	view   analyzers.SwitchView
	report *analyzers.Reporter
	now    clock.Time
	inside []map[uint64]waiting // by switch, then by packet
	ports  []map[int]*port      // by switch
	limits []Limits             // by switch
	bytes  []int                // by switch, of the packets inside

	replays    []*replay // by switch
	coverage   map[string]int64
	inversions *analyzers.Distribution
	measures   measures
	byRank     tallies
	lengths    lengths // of queues that arrivals find
}

// Limits is what a queue may hold; 0: no limit. The zero value says that other limits apply, too, and want of room is
// not judged.
type Limits struct{ Packets, Bytes int }

// waiting is a packet inside a switch.
type waiting struct {
	since clock.Time
	rank  uint64
	size  int
}

// port is what happened at a port, as far as packets inside were there.
type port struct {
	left    []event               // of falling ranks: what a later one exceeds is not needed
	dropped []event               // of rising ranks
	latest  map[uint64]clock.Time // arrival of the youngest packet that has left, by rank
	limit   int                   // beyond which it forgets what is too old
}

type event struct {
	at   clock.Time
	rank uint64
	id   uint64
}

// NewJudge returns a judge.
func NewJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	j := &Judge{view: v, report: analyzers.NewReporter("rank", Rules()), coverage: make(map[string]int64),
		inversions: analyzers.NewDistribution("rank.inversions", "packets", 0), measures: newMeasures(),
		byRank: make(tallies), lengths: make(lengths)}
	for sw := range v.Switches() {
		settings, err := v.Settings(sw)
		if err != nil {
			return nil, err
		}
		set, _ := settings.(Settings)
		j.limits, j.bytes = append(j.limits, set.Limits), append(j.bytes, 0)
		j.replays = append(j.replays, newReplay(j, sw, set))
		j.inside, j.ports = append(j.inside, make(map[uint64]waiting)), append(j.ports, make(map[int]*port))
	}
	return j, nil
}

// Observe implements analyzers.SwitchJudge.
func (j *Judge) Observe(t *trace.SwitchTap) {
	j.now = t.Time
	r := j.replays[t.Switch]
	if r.observe(t); !r.plain() {
		return
	}
	inside := j.inside[t.Switch]
	if t.Stage == trace.Entered {
		inside[t.ID] = waiting{t.Time, t.Rank, int(t.Size)}
		j.bytes[t.Switch] += int(t.Size)
		return
	}
	w, known := inside[t.ID]
	if known && t.Stage == trace.Dropped && j.noRoom(t) {
		j.room(t)
	}
	delete(inside, t.ID)
	j.bytes[t.Switch] -= w.size
	if known && (t.Stage == trace.Left || j.noRoom(t)) {
		p := j.ports[t.Switch][t.Port]
		if p == nil {
			p = &port{latest: make(map[uint64]clock.Time)}
			j.ports[t.Switch][t.Port] = p
		}
		j.judge(t, p, w)
		if p.note(t, w); len(p.left)+len(p.dropped)+len(p.latest) > max(kept, p.limit) {
			p.prune(t.Time, inside)
		}
	}
}

// noRoom reports whether a packet was dropped because a queue was full.
func (j *Judge) noRoom(t *trace.SwitchTap) bool {
	r := j.view.Reason(t.Switch, t.Reason)
	return !r.Outage && (r.Name == "tail" || r.Name == "evicted")
}

// room judges a drop for want of room.
func (j *Judge) room(t *trace.SwitchTap) {
	limits, n, bytes := j.limits[t.Switch], len(j.inside[t.Switch]), j.bytes[t.Switch]
	who := cause.Switch(j.view.SwitchName(t.Switch))
	switch {
	case limits == Limits{}, limits.Packets > 0 && n > limits.Packets, limits.Bytes > 0 && bytes > limits.Bytes:
	case limits.Bytes > 0:
		j.tell(t, causeRoom(who, t.ID, t.Time, cause.Bytes(bytes), cause.Bytes(limits.Bytes)), t.ID)
	default:
		j.tell(t, causeRoom(who, t.ID, t.Time, packets(n), packets(limits.Packets)), t.ID)
	}
}

// judge compares what happened at a port while a packet waited there with the packet's rank.
func (j *Judge) judge(t *trace.SwitchTap, p *port, w waiting) {
	who := cause.Switch(j.view.SwitchName(t.Switch))
	if e := after(p.left, w.since); e != nil && e.rank > w.rank {
		j.tell(t, causeOrder(who, e.id, t.ID, e.at, e.rank, w.rank), e.id)
	}
	if e := after(p.dropped, w.since); e != nil && e.rank < w.rank && e.at < t.Time {
		j.tell(t, causeDrop(who, e.id, t.ID, e.at, e.rank, w.rank), e.id)
	}
	if t.Stage == trace.Left && p.latest[w.rank] > w.since {
		j.tell(t, causeFIFO(who, t.ID, w.rank, t.Time), t.ID)
	}
}

// after returns the first event after an instant, which is that of the highest, or lowest, rank; nil: none.
func after(list []event, since clock.Time) *event {
	if i := sort.Search(len(list), func(i int) bool { return list[i].at > since }); i < len(list) {
		return &list[i]
	}
	return nil
}

// note records what happened to a packet.
func (p *port) note(t *trace.SwitchTap, w waiting) {
	e := event{t.Time, w.rank, t.ID}
	if t.Stage != trace.Left {
		for len(p.dropped) > 0 && p.dropped[len(p.dropped)-1].rank >= e.rank {
			p.dropped = p.dropped[:len(p.dropped)-1]
		}
		p.dropped = append(p.dropped, e)
		return
	}
	for len(p.left) > 0 && p.left[len(p.left)-1].rank <= e.rank {
		p.left = p.left[:len(p.left)-1]
	}
	p.left = append(p.left, e)
	p.latest[w.rank] = max(p.latest[w.rank], w.since)
}

// kept is how many events a port keeps before it forgets those before the arrival of all packets inside.
const kept = 4096

func (p *port) prune(now clock.Time, inside map[uint64]waiting) {
	oldest := now
	for _, w := range inside {
		oldest = min(oldest, w.since)
	}
	old := func(e event) bool { return e.at <= oldest }
	p.left, p.dropped = slices.DeleteFunc(p.left, old), slices.DeleteFunc(p.dropped, old)
	for rank, since := range p.latest {
		if since <= oldest {
			delete(p.latest, rank)
		}
	}
	p.limit = 2 * (len(p.left) + len(p.dropped) + len(p.latest))
}

func (j *Judge) tell(t *trace.SwitchTap, c cause.Cause, id uint64) {
	flow := j.view.FlowOf(t)
	if j.report.Wants(c.Rule, flow) {
		packets := []uint64{id}
		if id != t.ID {
			packets = append(packets, t.ID)
		}
		j.report.Tell(c, analyzers.Finding{Connection: flow, Packets: packets, TimeNS: t.Time.Nanoseconds(),
			Message: j.view.SwitchName(t.Switch)})
	}
}

// Decide implements analyzers.SwitchJudge.
func (j *Judge) Decide(d *trace.Decision) {
	r := j.replays[d.Switch]
	a := r.inside[d.Packet]
	switch {
	case a == nil:
	case a.claim != nil:
		r.tell(a, d.Time, causeTwice(r.who, a.id), "", "")
	default:
		own := *d
		a.claim = &own
	}
}

// Changed implements analyzers.SwitchJudge: nothing that it judges changes.
func (j *Judge) Changed(clock.Time, int) {}

// Stopping implements analyzers.SwitchJudge: what is inside is lost.
func (j *Judge) Stopping(_ clock.Time, sw int) {
	clear(j.inside[sw])
	j.bytes[sw] = 0
	clear(j.ports[sw])
	j.replays[sw].reset()
	j.replays[sw].out = true
}

// Started implements analyzers.SwitchJudge.
func (j *Judge) Started(_ clock.Time, sw int) {
	j.replays[sw].reset()
	j.replays[sw].out = false
}

// Finish implements analyzers.SwitchJudge.
func (j *Judge) Finish() (analyzers.Result, error) {
	for _, r := range j.replays {
		r.settle()
		r.advance()
		r.ends()
		j.coverage["packets not replayed"] += int64(r.left())
	}
	j.theorem()
	gaps := analyzers.NewDistribution("rank.gap", analyzers.UnitPPM, 0)
	for _, r := range j.replays {
		for _, l := range r.ports {
			j.measures.end(l)
			if share, ok := l.gap.share(); ok {
				gaps.Record(share)
			}
		}
	}
	findings := j.report.Findings()
	slices.SortStableFunc(findings, func(a, b analyzers.Finding) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	byRank, tables := j.byRank.results()
	if len(j.lengths) > 0 {
		tables = append(tables, j.lengths.table())
	}
	result := analyzers.Result{Findings: findings, Coverage: j.coverage, Curves: j.curves(), Tables: tables}
	for _, d := range slices.Concat([]*analyzers.Distribution{j.inversions, gaps}, j.measures.list(), byRank) {
		if d.Count() > 0 {
			result.Metrics = append(result.Metrics, d.Metric())
		}
	}
	return result, nil
}
