package cnp

import (
	"fmt"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// Finish compares the CNPs seen with those predicted and returns the results.
func (a *Analyzer) Finish() analyzers.Result {
	a.reportStrays()
	for side := range 2 {
		a.finishSide(side)
	}
	return analyzers.Result{Findings: a.report.Findings(), Metrics: a.list()}
}

// reportStrays reports CNPs to queue pairs of no connection, unless other packets show that not all connections are
// known.
func (a *Analyzer) reportStrays() {
	severity := analyzers.Violation
	if a.foreign || a.flows == nil || a.halfKnown() || a.midway() {
		severity = analyzers.Warning
	}
	for i := range a.nStrays {
		if !a.report.Wants(RuleWrongQP, 0) || i >= int64(len(a.strays)) {
			continue
		}
		s := a.strays[i]
		a.report.Tell(causeNoConnection(s.destQP, cause.At(&a.meta, s.ns)), analyzers.Finding{
			Severity: severity, Packets: []uint64{s.id}, TimeNS: s.ns,
			Expected: "the queue pair number of a data sender", Actual: s.destQP.String(),
			Message: "the CNP is for a queue pair of no connection",
		})
	}
}

// halfKnown reports whether some connection lacks the number of a queue pair.
func (a *Analyzer) halfKnown() bool {
	all := a.meta.Connections.All()
	for i := range all {
		if all[i].Requester.QPN == 0 || all[i].Responder.QPN == 0 {
			return true
		}
	}
	return false
}

// finishSide judges what the connections' responders (side 0) or requesters (side 1) received.
func (a *Analyzer) finishSide(side int) {
	np := a.receiver(trace.FlowID(side))
	if !np.Known {
		a.noteUnanswered(side)
		return
	}
	if np.Absent {
		a.noteAbsent(side)
		return
	}
	if !np.Enabled || !a.any(side) {
		return
	}
	a.noteJitter(side, np)
	var fitting []string
	best, fewest := np.Mode, -1
	for m := PerPort; m < numModes; m++ {
		n := a.misfits(side, m)
		if n == 0 {
			fitting = append(fitting, m.String())
		}
		if np.Mode == ModeUnknown && (fewest < 0 || n < fewest) {
			best, fewest = m, n
		}
	}
	a.noteModes(side, fitting)
	for i := side; i < len(a.flows); i += 2 {
		a.compare(trace.FlowID(i), best, len(fitting) == 0)
	}
}

// noteAbsent says that marked data of a side stays without CNPs because its device has no notification point.
func (a *Analyzer) noteAbsent(side int) {
	marks := int64(0)
	for i := side; i < len(a.flows); i += 2 {
		marks += a.flows[i].marks
	}
	if marks == 0 || !a.report.Wants(RuleNotOffered, 0) {
		return
	}
	a.report.Tell(causeNotOffered(side, marks), analyzers.Finding{
		Expected: "no CNPs", Actual: a.sent(side),
		Message: fmt.Sprintf("the %s's device declares that it has no notification point: %d packets with CE were "+
			"delivered to it, and their CNPs are not judged",
			[...]string{"responder", "requester"}[side], marks),
	})
}

// noteJitter notes that hosts may delay packets for longer than the minimum time between CNPs. The default jitter is
// not noted: every NIC with pacing this short would get the note.
func (a *Analyzer) noteJitter(side int, np *NotificationPoint) {
	if np.MinTimeNS == 0 || np.MinTimeNS > a.cfg.JitterNS || a.cfg.JitterNS <= bounds.IdleJitterNS ||
		!a.report.Wants(RuleNotJudged, 0) {
		return
	}
	a.report.Tell(causeNotJudged(side, duration(a.cfg.JitterNS), duration(np.MinTimeNS)), analyzers.Finding{
		Expected: "a minimum time longer than hosts may hold packets, " + micros(a.cfg.JitterNS),
		Actual:   micros(np.MinTimeNS),
		Message:  fmt.Sprintf("how far the %s's CNPs are apart is not judged", [...]string{"responder", "requester"}[side]),
	})
}

// any reports whether a side had a trigger or sent a CNP.
func (a *Analyzer) any(side int) bool {
	for i := side; i < len(a.flows); i += 2 {
		if a.flows[i].credit > 0 || a.flows[i].cnps > 0 {
			return true
		}
	}
	return false
}

// misfits counts the flows of a side whose CNPs mode m does not explain.
func (a *Analyzer) misfits(side int, m Mode) int {
	n := 0
	for i := side; i < len(a.flows); i += 2 {
		if f := &a.flows[i]; f.cnps < f.predicted[m].least || f.cnps > f.predicted[m].most {
			n++
		}
	}
	return n
}

// noteModes names the modes that fit.
func (a *Analyzer) noteModes(side int, fitting []string) {
	if !a.report.Wants(RuleMode, 0) {
		return
	}
	actual, fits := strings.Join(fitting, ", "), "no scope"
	switch {
	case len(fitting) == 0:
		actual = "none"
	case len(fitting) == int(numModes-PerPort):
		fits = "any scope: " + actual
	default:
		fits = actual
	}
	a.report.Tell(causeMode(side, fits), analyzers.Finding{
		Expected: "port, destination-ip, ip-pair or qp", Actual: actual,
		Message: fmt.Sprintf("the %s's CNPs fit pacing by %s; it sent %s", [...]string{"responder", "requester"}[side], fits,
			a.sent(side)),
	})
}

// sent lists how many CNPs a side sent on which connections: "2 on qpn 1, 1 on each of qpn 2-4, none on qpn 5".
func (a *Analyzer) sent(side int) string {
	const most = 8 // spans of connections with as many CNPs
	var list []string
	for i := side; i < len(a.flows); {
		n, first := a.flows[i].cnps, i/2+1
		for i < len(a.flows) && a.flows[i].cnps == n {
			i += 2
		}
		if len(list) == most {
			return strings.Join(append(list, "…"), ", ")
		}
		list = append(list, sentOn(n, first, i/2))
	}
	return strings.Join(list, ", ")
}

// sentOn says that each of the connections first to last got n CNPs.
func sentOn(n int64, first, last int) string {
	count, on := "none", fmt.Sprintf("qpn %d", first)
	if n > 0 {
		count = fmt.Sprint(n)
	}
	if last > first {
		on = fmt.Sprintf("qpn %d-%d", first, last)
		if n > 0 {
			on = "each of " + on
		}
	}
	return count + " on " + on
}

// compare reports a flow whose CNPs mode m does not explain.
func (a *Analyzer) compare(data trace.FlowID, m Mode, none bool) {
	f := &a.flows[data]
	want := f.predicted[m]
	why, severity := causeTooFew, analyzers.Violation
	switch {
	case f.cnps < want.least:
		if a.meta.Kind != trace.KindMirror {
			severity = analyzers.Warning // a capture may end, or drop packets
		}
	case f.cnps > want.most:
		why = causeTooMany
	default:
		return
	}
	told := why(sender(data), f.cnps, f.marks, want, m)
	if !a.report.Wants(told.Rule, data.Connection()) {
		return
	}
	message := fmt.Sprintf("CNPs do not follow pacing per %v", m)
	if none {
		message += ", nor any other scope"
	}
	expected := fmt.Sprint(want.least)
	if want.most > want.least {
		expected = fmt.Sprintf("%d to %d", want.least, want.most)
	}
	a.report.Tell(told, analyzers.Finding{
		Severity: severity, Connection: data.Connection(), Expected: expected + " CNPs",
		Actual: fmt.Sprintf("%d, after %d delivered packets with CE", f.cnps, f.marks), Message: message,
	})
}

// noteUnanswered notes marked data without any CNP if it is unknown whether there should be one: Linux's soft-RoCE
// never sends them.
func (a *Analyzer) noteUnanswered(side int) {
	for i := side; i < len(a.flows); i += 2 {
		f, c := &a.flows[i], trace.FlowID(i).Connection()
		if f.marks > 0 && f.cnps == 0 && a.report.Wants(RuleNoResponse, c) {
			a.report.Tell(causeNoResponse(sender(trace.FlowID(i)), f.marks), analyzers.Finding{
				Connection: c, Expected: "CNPs if the notification point is on", Actual: "none",
				Message: fmt.Sprintf("%d delivered packets with CE and no CNP", f.marks),
			})
		}
	}
}

// list lists the totals, then the connections in order. A count is one value.
func (a *Analyzer) list() []analyzers.Metric {
	list := []analyzers.Metric{a.metrics[0].interval.Metric(), a.metrics[0].latency.Metric()}
	counts := func(name string, connection int, values ...int64) {
		d := analyzers.NewDistribution(name, analyzers.UnitCount, connection)
		for _, v := range values {
			d.Record(v)
		}
		list = append(list, d.Metric())
	}
	var cnps, marks int64
	for i := range a.flows {
		cnps, marks = cnps+a.flows[i].cnps, marks+a.flows[i].marks
	}
	counts("cnp.count", 0, cnps)
	counts("cnp.marked", 0, marks)
	for i := 0; i < len(a.flows); i += 2 {
		there, back := &a.flows[i], &a.flows[i+1]
		c := trace.FlowID(i).Connection()
		counts("cnp.count", c, there.cnps+back.cnps)
		counts("cnp.marked", c, there.marks+back.marks)
		if d := a.metrics[c]; d.interval != nil {
			list = append(list, d.interval.Metric(), d.latency.Metric())
		}
		if a.cfg.Requester.Known || a.cfg.Responder.Known {
			for m := PerPort; m < numModes; m++ {
				p, q := there.predicted[m], back.predicted[m]
				counts("cnp.predicted."+m.String(), c, p.least+q.least, p.most+q.most)
			}
		}
	}
	return list
}
