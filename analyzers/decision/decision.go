// Package decision compares the decisions that switches record with what the taps saw: a record is a claim. It judges
// only outcomes; a family's own judge knows what its decisions mean beyond that.
package decision

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Name is the analyzer's.
const Name = "decision"

// Rules. Identifiers are never reused or renamed.
const (
	Unknown      = "decision.unknown-packet"
	Size         = "decision.size"
	Occupancy    = "decision.occupancy"
	Contradicted = "decision.contradicted"
	Missing      = "decision.missing"
)

// Rules lists what is checked.
func Rules() []analyzers.Rule {
	const clause = "Decision records"
	return []analyzers.Rule{
		{ID: Unknown, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: "A decision is about a packet that is inside the switch, or a copy that it made."},
		{ID: Size, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: "A decision has the size with which its packet arrived."},
		{ID: Occupancy, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: "The occupancy in a decision is what the queue holds, computed from the decisions before it and " +
				"the packets that have left."},
		{ID: Contradicted, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: "A packet leaves by the port and queue that it was queued at, and is dropped only if that was decided."},
		{ID: Missing, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: "A decision was recorded of each packet that leaves or is dropped."},
	}
}

// Analyzer checks the claims of all switches of a run. Memory is bounded by what is inside switches.
type Analyzer struct {
	view   analyzers.SwitchView
	report *analyzers.Reporter
	kinds  []trace.DecisionKind
	inside []map[uint64]*packet // by switch and packet
	queued []map[place]int64    // bytes by switch and queue
	counts map[string]int64
}

type place struct{ port, queue int }

// packet is one inside a switch, or a copy that it made.
type packet struct {
	size    int32 // without a shim, which it may have on one side of the switch
	decided bool
	outcome trace.Outcome
	at      place
	waiting int64 // bytes that it takes in its queue
}

// New returns an analyzer.
func New(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	a := &Analyzer{view: v, report: analyzers.NewReporter(Name, Rules()), kinds: v.Decisions(), counts: map[string]int64{}}
	for range v.Switches() {
		a.inside, a.queued = append(a.inside, map[uint64]*packet{}), append(a.queued, map[place]int64{})
	}
	for _, k := range a.kinds {
		a.counts[k.Name] = 0
	}
	return a, nil
}

// Changed implements analyzers.SwitchJudge.
func (a *Analyzer) Changed(clock.Time, int) {}

// Stopping implements analyzers.SwitchJudge: what the switch loses is shown as dropped.
func (a *Analyzer) Stopping(clock.Time, int) {}

// Started implements analyzers.SwitchJudge: queues are empty, and nothing is inside.
func (a *Analyzer) Started(_ clock.Time, sw int) {
	clear(a.inside[sw])
	clear(a.queued[sw])
}

// Decide implements analyzers.SwitchJudge.
func (a *Analyzer) Decide(d *trace.Decision) {
	if int(d.Kind) >= len(a.kinds) {
		a.find(causeUndeclared(a.what(d.Switch, d.Time, d.Packet), d.Kind), d.Switch, d.Time, d.Packet,
			"a kind that the family declares", fmt.Sprintf("kind %d", d.Kind))
		return
	}
	k := &a.kinds[d.Kind]
	a.counts[k.Name]++
	p := a.inside[d.Switch][d.Packet]
	switch {
	case p == nil && !k.Copy:
		a.find(causeNotInside(a.what(d.Switch, d.Time, d.Packet), k.Name), d.Switch, d.Time, d.Packet,
			"a packet that is inside",
			fmt.Sprintf("%q is decided of one that is not", k.Name))
		return
	case p == nil:
		p = &packet{size: d.Size - int32(d.Shim)}
		a.inside[d.Switch][d.Packet] = p
	case !p.decided && p.size != d.Size-int32(d.Shim):
		a.find(causeSize(a.what(d.Switch, d.Time, d.Packet), p.size, d.Size-int32(d.Shim)), d.Switch, d.Time, d.Packet,
			fmt.Sprintf("%d bytes, as it came in", p.size),
			fmt.Sprintf("%d bytes are claimed", d.Size-int32(d.Shim)))
	}
	a.release(d.Switch, p)
	at := place{d.Port, d.Queue}
	if holds := a.queued[d.Switch][at]; holds != d.Occupancy {
		a.find(causeOccupancy(a.what(d.Switch, d.Time, d.Packet), at, holds, d.Occupancy), d.Switch, d.Time, d.Packet,
			fmt.Sprintf("%d bytes in queue %d of port %d", holds, d.Queue, d.Port),
			fmt.Sprintf("%d bytes are claimed", d.Occupancy))
	}
	p.decided, p.outcome, p.at = true, k.Outcome, at
	if k.Outcome == trace.OutcomeQueued {
		p.waiting = int64(d.Size)
		a.queued[d.Switch][at] += p.waiting
	}
}

// release takes a packet out of the queue that it waits in.
func (a *Analyzer) release(sw int, p *packet) {
	a.queued[sw][p.at] -= p.waiting
	p.waiting = 0
}

// withdrawn reports whether a packet was dropped for a reason for which what waits may be.
func (a *Analyzer) withdrawn(t *trace.SwitchTap) bool {
	r := a.view.Reason(t.Switch, t.Reason)
	return r.Outage || r.Evicts
}

// Observe implements analyzers.SwitchJudge.
func (a *Analyzer) Observe(t *trace.SwitchTap) {
	inside := a.inside[t.Switch]
	if t.Stage == trace.Entered {
		if inside[t.ID] == nil {
			inside[t.ID] = &packet{size: t.Size - int32(t.Shim)}
		}
		return
	}
	p := inside[t.ID]
	delete(inside, t.ID)
	left := place{t.Port, t.Queue}
	switch {
	case p == nil || !p.decided:
		if t.Stage == trace.Left || a.view.Reason(t.Switch, t.Reason).Decided {
			a.find(causeMissing(a.what(t.Switch, t.Time, t.ID), t), t.Switch, t.Time, t.ID, "a decision about it", stageText(t))
		}
	case t.Stage == trace.Left && (p.outcome != trace.OutcomeQueued || p.at != left):
		a.find(causeContradicted(a.what(t.Switch, t.Time, t.ID), p, t), t.Switch, t.Time, t.ID,
			"what was decided: "+p.text(), stageText(t))
	case t.Stage == trace.Dropped && p.outcome == trace.OutcomeQueued && !a.withdrawn(t):
		a.find(causeContradicted(a.what(t.Switch, t.Time, t.ID), p, t), t.Switch, t.Time, t.ID,
			"what was decided: "+p.text(), stageText(t))
	}
	if p != nil {
		a.release(t.Switch, p)
	}
}

func (p *packet) text() string {
	switch p.outcome {
	case trace.OutcomeQueued:
		return fmt.Sprintf("queue %d of port %d", p.at.queue, p.at.port)
	case trace.OutcomeDropped:
		return "it is dropped"
	default:
		return "nothing yet"
	}
}

func stageText(t *trace.SwitchTap) string {
	if t.Stage == trace.Left {
		return fmt.Sprintf("it leaves by queue %d of port %d", t.Queue, t.Port)
	}
	return "it is dropped"
}

func (a *Analyzer) find(c cause.Cause, sw int, now clock.Time, packet uint64, want, got string) {
	if a.report.Wants(c.Rule, 0) {
		a.report.Tell(c, analyzers.Finding{
			Packets: []uint64{packet}, TimeNS: now.Nanoseconds(), Expected: want, Actual: got,
			Message: fmt.Sprintf("switch %s: packet %d: %s", a.view.SwitchName(sw), packet, got),
		})
	}
}

// Finish implements analyzers.SwitchJudge.
func (a *Analyzer) Finish() (analyzers.Result, error) {
	return analyzers.Result{Findings: a.report.Findings(), Coverage: a.counts}, nil
}
