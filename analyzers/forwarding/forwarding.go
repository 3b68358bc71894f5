package forwarding

import (
	"fmt"
	"math"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Analyzer follows each packet through each switch by its headers: it does not use the simulator's packet numbers to
// distinguish a copy from its original. Memory is bounded by what is inside switches.
type Analyzer struct {
	view   analyzers.SwitchView
	report *analyzers.Reporter
	inside []visits // by switch
	routes *routes  // nil: the view does not know the network
	// Packets that switches make: those whose recorded decision names a cause, and whether any decision was recorded.
	caused   []map[uint64]bool // by switch and packet
	recorded bool
	made     int64
}

// New returns an analyzer.
func New(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	a := &Analyzer{view: v, report: analyzers.NewReporter(Name, Rules()),
		inside: make([]visits, v.Switches()), routes: newRoutes(v)}
	for range a.inside {
		a.caused = append(a.caused, make(map[uint64]bool))
	}
	return a, nil
}

// Changed implements analyzers.SwitchJudge.
func (a *Analyzer) Changed(clock.Time, int) {}

// Stopping implements analyzers.SwitchJudge: what the switch loses is shown as dropped.
func (a *Analyzer) Stopping(clock.Time, int) {}

// Started implements analyzers.SwitchJudge: nothing of before may leave.
func (a *Analyzer) Started(_ clock.Time, sw int) {
	a.inside[sw] = visits{}
	if a.routes != nil {
		a.routes.forget(sw)
	}
	clear(a.caused[sw])
}

// Decide implements analyzers.SwitchJudge: what a switch makes is caused by what it decides.
func (a *Analyzer) Decide(d *trace.Decision) {
	a.recorded = true
	kinds := a.view.Decisions()
	if int(d.Kind) < len(kinds) && kinds[d.Kind].Copy && int(d.Cause) < len(kinds[d.Kind].Causes) {
		a.caused[d.Switch][d.Packet] = true
	}
}

// Observe implements analyzers.SwitchJudge.
func (a *Analyzer) Observe(t *trace.SwitchTap) {
	if t.Internal && t.Stage != trace.Dropped || t.Flags&trace.Notification != 0 {
		return
	}
	if a.routes != nil {
		a.route(t)
	}
	switch t.Stage {
	case trace.Entered:
		a.inside[t.Switch].enter(identify(t), plain(t))
	case trace.Left:
		a.leave(t)
	case trace.Dropped:
		delete(a.caused[t.Switch], t.ID)
		// If a switch drops a packet as trimmed, a copy is still to leave, even of a copy that another switch made. If it
		// drops its own copy, nothing is left.
		if !a.view.Reason(t.Switch, t.Reason).Copied {
			inside := &a.inside[t.Switch]
			if v := inside.of(t); v != nil {
				inside.leave(v, plain(t))
			}
		}
	}
}

func (a *Analyzer) leave(t *trace.SwitchTap) {
	inside := &a.inside[t.Switch]
	v := inside.of(t)
	caused := false
	if of := a.caused[t.Switch]; len(of) > 0 {
		caused = of[t.ID]
		delete(of, t.ID)
	}
	switch {
	case v == nil && t.Flags&trace.Made != 0 && t.Flags&trace.Mirrored == 0:
		a.judgeMade(t, caused)
	case v == nil && t.Flags&trace.Trimmed != 0:
		a.find(causeHeader(a.what(t)), t, "the header of a packet that came in", "nothing like it is inside")
	case v == nil:
		a.find(causePacket(a.what(t)), t, "a packet that came in", "nothing like it is inside")
	default:
		came := v.largest()
		if same := inside.leave(v, plain(t)); !same && t.Flags&trace.Trimmed == 0 {
			a.find(causeChanged(a.what(t), came), t, fmt.Sprintf("%d bytes, as it came", came),
				fmt.Sprintf("%d bytes", plain(t)))
		}
	}
}

// plain is the size of a packet without its shim, which switches insert and remove.
func plain(t *trace.SwitchTap) int32 { return t.Size - int32(t.Shim) }

// route judges where a packet goes.
func (a *Analyzer) route(t *trace.SwitchTap) {
	r := a.routes
	if t.Stage == trace.Entered {
		r.enter(t)
		return
	}
	since := r.left(t)
	if t.Flags&trace.Mirrored != 0 { // they go where a mirror session says
		return
	}
	reason := ""
	if t.Stage == trace.Dropped {
		reason = a.view.Reason(t.Switch, t.Reason).Name
	}
	const want = "a port on a shortest path to the host, over trunks that routes do not avoid"
	switch {
	case t.Stage == trace.Left && !r.allows(t, since):
		a.find(causePort(a.what(t)), t, want, fmt.Sprintf("port %d", t.Port))
	case (reason == trunkDown || reason == trunkFailed) && r.inService(t):
		a.find(causeInService(a.what(t)), t, "the packet takes the trunk, which is in service", "dropped as "+reason)
	case reason == trunkDown && !r.allows(t, since):
		a.find(causeDown(a.what(t)), t, want, fmt.Sprintf("routed to port %d, whose trunk is down", t.Port))
	case reason == unreachable && r.always(t, since):
		a.find(causeUnreachable(a.what(t)), t, "a path, over trunks that routes do not avoid", "dropped for want of one")
	case reason != unreachable:
		r.choose(t, since)
	}
}

// Reasons of drops for trunks that have failed: on arrival, and of what waits for one.
const (
	trunkDown   = "trunk-down"
	unreachable = "unreachable"
	trunkFailed = "trunk-failed"
)

// unused judges the choices among equally short paths.
func (a *Analyzer) unused() {
	of := "packets"
	if a.routes.net.Spread == analyzers.SpreadFlows {
		of = "flows"
	}
	a.routes.unused(func(sw, port int, e *portEvidence) {
		if !a.report.Wants(PathUnused, 0) {
			return
		}
		got := fmt.Sprintf("none of %d %s; a fair choice does that with a probability of %.0e", e.choices, of,
			math.Exp(e.log))
		a.report.Tell(causeUnused(cause.Switch(a.view.SwitchName(sw)), port, e.choices), analyzers.Finding{
			TimeNS:   e.latest.Nanoseconds(),
			Expected: "each of equally short paths is chosen", Actual: got,
			Message: fmt.Sprintf("switch %s port %d: %s", a.view.SwitchName(sw), port, got),
		})
	})
}

// judgeMade judges a packet that leaves without having arrived and that the switch says it made. A copy of such a
// packet does not count.
func (a *Analyzer) judgeMade(t *trace.SwitchTap, caused bool) {
	a.made++
	switch {
	case !a.view.Makes(t.Switch):
		a.find(causeMadeNone(a.what(t)), t, "no packets but those that come in: this family makes none", "the switch made it")
	case a.recorded && !caused && t.Protocol != trace.ProtocolBolt: // Bolt is beside the family

		a.find(causeMadeUnexplained(a.what(t)), t, "a decision that names the cause",
			"the switch made it, and no decision says why")
	}
}

// find reports a finding about a packet that leaves.
func (a *Analyzer) find(c cause.Cause, t *trace.SwitchTap, want, got string) {
	flow := a.view.FlowOf(t)
	if !a.report.Wants(c.Rule, flow) {
		return
	}
	var seq int64
	if t.Protocol == trace.ProtocolNDP {
		seq = int64(t.Number >> 32)
	}
	a.report.Tell(c, analyzers.Finding{
		Connection: flow, Packets: []uint64{t.ID}, TimeNS: t.Time.Nanoseconds(), PSN: seq,
		Expected: want, Actual: got,
		Message: fmt.Sprintf("switch %s port %d sends a packet from host %d to %d (%s %s): %s", a.view.SwitchName(t.Switch),
			t.Port, t.Src, t.Dst,
			t.What(), t.Flags, got),
	})
}

// Finish implements analyzers.SwitchJudge.
func (a *Analyzer) Finish() (analyzers.Result, error) {
	if a.routes != nil {
		a.unused()
	}
	r := analyzers.Result{Findings: a.report.Findings()}
	if a.made > 0 {
		r.Coverage = map[string]int64{"made": a.made}
	}
	return r, nil
}
