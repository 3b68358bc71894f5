package rank

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

func causeThrown(who cause.Switch, id uint64, at clock.Time) cause.Cause {
	return cause.Of(ruleRefused, "waited", "%v dropped packet %v, which was waiting, at %v.", who, packet(id),
		cause.Clock(at))
}

func causeReason(who cause.Switch, id uint64, reason string) cause.Cause {
	return cause.Of(ruleRefused, "reason", "%v dropped packet %v as it came, for the reason %v, which its scheme has not.",
		who, packet(id), cause.Name(reason))
}

func causeClaim(who cause.Switch, id uint64, value string, got, want int64) cause.Cause {
	return cause.Of(ruleRecord, "value", "%v recorded of packet %v that %v is %v; it was %v.", who, packet(id),
		cause.Name(value), cause.Count(got), cause.Count(want))
}

func causeCause(who cause.Switch, id uint64, got, want string) cause.Cause {
	return cause.Of(ruleRecord, "cause", "%v recorded the cause %v of what became of packet %v; it was %v.", who,
		cause.Name(got), packet(id), cause.Name(want))
}

func causeTwice(who cause.Switch, id uint64) cause.Cause {
	return cause.Of(ruleRecord, "twice", "%v recorded two decisions about packet %v.", who, packet(id))
}

func causePauses(who cause.Switch, port int, at, could clock.Time) cause.Cause {
	return cause.Of(ruleIdle, "pauses", "Port %v of %v sent nothing until %v although a packet could leave at %v.",
		cause.Port{Number: port}, who, cause.Clock(at), cause.Clock(could))
}

func causeUnrepeated(who cause.Switch, at clock.Time) cause.Cause {
	return cause.Of(ruleNotJudged, "log", "%v is not judged after %v: too much has happened since a packet came of which "+
		"the port is still unknown.", who, cause.Clock(at))
}

// plain reports whether the switch is a PIFO with ranks of packets, which is judged by intervals, too: that needs no
// memory of what waits.
func (r *replay) plain() bool { return r.set.Scheme == PIFO && !r.set.STFQ }

// left returns how many packets of the log are not judged: they came after one of which the port is unknown.
func (r *replay) left() (n int) {
	for _, e := range r.log.Waiting() {
		if !e.leaving {
			n++
		}
	}
	return n
}

// sorts reports whether the line is sorted by rank, and drops its last packets.
func (l *line) sorts() bool { return l.r.set.Scheme == PIFO || l.r.set.Scheme == PIEO }

// overtakes reports that a packet has left before another that was first.
func (l *line) overtakes(now clock.Time, a, first *arrival) {
	c := causeDeparture(l.r.who, a.id, now, first.id)
	switch {
	case l.r.plain() && first.rank < a.rank:
		c = causeOrder(l.r.who, a.id, first.id, now, a.rank, first.rank)
	case l.r.plain():
		c = causeFIFO(l.r.who, first.id, first.rank, now)
	}
	l.r.tell(a, now, c, "", "", first.id)
}

// reasoned judges the reason for which a packet was refused.
func (l *line) reasoned(a *arrival) {
	if a.fate != refused {
		return
	}
	switch own := a.reason == "quantile" && l.r.set.Scheme != AIFO || a.reason == "horizon" && l.r.set.Scheme != AFQ; {
	case own, a.reason == "evicted":
		l.r.tell(a, a.at, causeReason(l.r.who, a.id, a.reason), "", "")
	}
}

// ranked judges the rank that the port has given a packet.
func (l *line) ranked(a *arrival, at clock.Time) {
	if a.seen != a.rank {
		l.r.tell(a, at, causeStart(l.r.who, a.id, a.seen, a.rank), "", "")
	}
}

// causes are those of records, by the reason of a drop.
var causes = map[string]string{"tail": "full", "quantile": "quantile", "horizon": "horizon"}

// claims compares what was recorded of a packet with what its arrivals and departures show.
func (l *line) claims(a *arrival, values ...int64) {
	d, kinds := a.claim, l.r.judge.view.Decisions
	if d == nil || int(d.Kind) >= len(kinds()) {
		return
	}
	k := &kinds()[d.Kind]
	for i, want := range values {
		if got := d.Values[i]; got != want && i < len(k.Values) {
			l.r.tell(a, a.at, causeClaim(l.r.who, a.id, k.Values[i].Name, got, want), "", "")
			return
		}
	}
	want, got := "", ""
	if a.fate == refused {
		want = causes[a.reason]
	}
	if int(d.Cause) < len(k.Causes) {
		got = k.Causes[d.Cause]
	}
	if queued := k.Outcome == trace.OutcomeQueued; got != want && queued == (a.fate == admitted) {
		l.r.tell(a, a.at, causeCause(l.r.who, a.id, named(got), named(want)), "", "")
	}
}

func named(cause string) string {
	if cause == "" {
		return "none"
	}
	return cause
}

func number01(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// idles judges that until now the port has sent what it could. Flows with a pace are judged as they leave.
func (l *line) idles(now clock.Time) {
	waits := len(l.waiting) > 0
	if l.tree != nil {
		waits = l.tree.count() > 0
	}
	if !waits || !l.prompt() || l.r.set.Pace > 0 {
		return
	}
	could := max(l.since, l.sent)
	if now <= could {
		return
	}
	l.since = now // is told once
	if c := causePauses(l.r.who, l.port, now, could); l.r.judge.report.Wants(c.Rule, 0) {
		l.r.judge.report.Tell(c, analyzers.Finding{TimeNS: now.Nanoseconds(),
			Message: "switch " + l.r.judge.view.SwitchName(l.r.number)})
	}
}

// prompt reports whether the port sends as soon as it can: nobody pauses it, and how long its link is taken is known.
func (l *line) prompt() bool { return !l.r.untimed && !l.r.links[l.port].changed }

// ends judges, at the end, what ports keep that they could have sent. All that has left by then has been seen.
func (r *replay) ends() {
	if r.ended || r.out || len(r.log.Waiting()) > 0 {
		return
	}
	for _, l := range r.ports {
		l.idles(r.judge.now)
		if r.set.Pace == 0 || !l.prompt() {
			continue
		}
		if first, could := l.kept(r.judge.now, l.sent); first != nil {
			r.tell(first, r.judge.now, causeIdle(r.who, first.id, r.judge.now, could), "", "")
		}
	}
}

// Relinked implements analyzers.LinkJudge: how long frames take the link is not known from then on.
func (j *Judge) Relinked(_ clock.Time, sw, port int, _ *analyzers.Relink) {
	j.replays[sw].links[port].changed = true
}

// earliest returns the least virtual time that the port can have from now on: what waits may be served at lower ranks
// than what was served.
func (l *line) earliest() int64 {
	least := l.virtual
	for _, w := range l.waiting {
		least = min(least, w.rank)
	}
	return int64(least)
}
