package lock

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

func (j *Judge) giveUp(why string) {
	if !j.overrun {
		j.overrun = true
		j.forget()
		clear(j.crossings)
		j.note("the rest of the run", why)
	}
}

// note says once that something is not judged.
func (j *Judge) note(what, why string) {
	if j.noted[what+why] {
		return
	}
	j.noted[what+why] = true
	if j.report.Wants(ruleNotJudged, 0) {
		c := notJudged(what, why)
		j.report.Tell(c, analyzers.Finding{TimeNS: j.now.Nanoseconds(), Message: c.Sentence()})
	}
}

// doubts counts a finding that a packet explains which the taps may have missed.
func (j *Judge) doubts(l *state) bool {
	if !j.facts.Complete || j.overrun || l != nil && l.doubt {
		j.unsure++
		return true
	}
	return false
}

// tell reports a finding about packets.
func (j *Judge) tell(l *state, c cause.Cause, at clock.Time, packets ...uint64) {
	if j.doubts(l) {
		return
	}
	if j.report.Wants(c.Rule, 0) {
		j.report.Tell(c, analyzers.Finding{Packets: slices.Clone(packets), TimeNS: at.Nanoseconds(),
			Message: c.Sentence()})
	}
}

// Finish judges what is left at the end of the observation.
func (j *Judge) Finish(end clock.Time) analyzers.Result {
	j.now = max(j.now, end)
	if !j.overrun {
		j.quiescence()
		j.swallowed()
		j.kept()
	}
	for _, t := range sortedTenants(j.tenants) {
		t.finish(j)
	}
	if j.unsure > 0 {
		j.note("whoever may be to blame", fmt.Sprintf("packets may be missing: %d findings are withheld", j.unsure))
	}
	findings := j.report.Findings()
	slices.SortStableFunc(findings, func(a, b analyzers.Finding) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	return analyzers.Result{Findings: findings, Metrics: j.measures.metrics(), Tables: j.measures.tables(j),
		Coverage: j.coverage()}
}

func (j *Judge) coverage() map[string]int64 {
	m := &j.measures
	return map[string]int64{"packets": m.packets, "requests": m.requests, "grants-switch": m.bySwitch,
		"grants-server": m.byServer, "rejects": m.rejects, "releases": m.released, "buffered": m.buffered,
		"pushed-back": m.pushed, "orders": m.orders, "delays": m.delays, "unsure": j.unsure,
		"to-database": m.toDatabase,
		"others":      m.others}
}
