package cnp

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// notification follows a CNP.
func (a *Analyzer) notification(r *trace.Record) {
	if !r.Has(trace.Sent) {
		return
	}
	a.checkFormat(r)
	data := r.Flow.Peer()
	if data < 0 || int(data) >= len(a.flows) {
		if a.nStrays++; len(a.strays) < maxStrays {
			a.strays = append(a.strays, stray{r.ID, r.TimeNS, r.DestQP})
		}
		return
	}
	f := &a.flows[data]
	f.cnps++
	a.checkProvoked(r, data, f)
	a.checkInterval(r, data, f)
	a.measure(r, data, f)
	if f.credit > 0 {
		f.credit--
	}
	f.lastNS = r.TimeNS
}

// checkFormat checks the fields of a CNP.
func (a *Analyzer) checkFormat(r *trace.Record) {
	var wrong string
	var why flaw
	switch {
	case !r.Has(trace.BECN):
		wrong, why = "BECN is clear", flawBECN
	case r.PSN != 0:
		wrong, why = fmt.Sprintf("PSN is %v", r.PSN), flawPSN
	case r.Has(trace.FECN):
		wrong, why = "FECN is set", flawFECN
	case r.Has(trace.AckReq):
		wrong, why = "an acknowledgement is requested", flawAckReq
	case int(r.PayloadLen)+int(r.PadCount) != packet.CNPPayloadLen:
		why = flawPayload
		wrong = fmt.Sprintf("payload is %d bytes", int(r.PayloadLen)+int(r.PadCount))
	default:
		return
	}
	a.finding(r, causeFormat(cause.Host(r.Flow), why, cause.At(&a.meta, r.TimeNS)), text{
		expected: "BECN set, FECN clear, PSN 0, no acknowledge request, 16 bytes of payload",
		actual:   wrong,
		message:  "malformed CNP",
	})
}

// checkProvoked looks for a trigger of the latest CNP of f.
func (a *Analyzer) checkProvoked(r *trace.Record, data trace.FlowID, f *flow) {
	np := a.receiver(data)
	switch {
	case np.Known && !np.Enabled:
		a.finding(r, causeDisabled(cause.Host(r.Flow), cause.At(&a.meta, r.TimeNS)),
			text{expected: "no CNP", actual: "a CNP", message: "the notification point is off"})
		return
	case np.Known && f.cnps <= f.most():
		return
	case !np.Known && f.credit > 0:
		return
	case np.Known && f.credit > 0:
		return // enough triggers, but suppressed in every mode: the interval and the totals show it
	}
	t := text{
		expected: "a delivered packet with CE before each CNP",
		actual:   fmt.Sprintf("CNP %d of this connection after %d such packets", f.cnps, f.marks),
		message:  "no packet provoked this CNP",
	}
	switch {
	case a.meta.Kind == trace.KindMirror:
	case a.meta.MarkedLater:
		t.severity = analyzers.Warning
		t.message += "; packets are marked after the place of this capture"
	case !a.atReceiver(data) && !a.marked[f.group[PerIPPair]]:
		t.severity = analyzers.Warning
		t.message += "; the capture shows no mark in this direction, so it may have been taken before packets are marked"
	case a.meta.MayMiss, !a.meta.SeesAll(data.Peer()) && f.doubted < bounds.UnseenFrames+a.meta.CountedUnseen():
		f.doubted++
		t.severity = analyzers.Warning
		t.message += "; or the capture missed the packet that did (--complete rules that out)"
	}
	if f.cnps == 1 && a.midway() && a.meta.Kind == trace.KindMirror {
		t.severity = analyzers.Warning
		t.message += "; it may have passed before the trace began"
	}
	why := causeUnprovoked(cause.Host(r.Flow), f.cnps, f.marks)
	if other := a.markedInstead(data); f.marks == 0 && other > 0 {
		why = causeOtherConnection(cause.Host(r.Flow), data.Connection(), other)
		t.message = fmt.Sprintf("the CNP is for connection %d, whose data was not marked; that of connection %d was",
			data.Connection(), other)
	}
	a.finding(r, why, t)
}

// atReceiver reports whether no packet can be marked after the (downstream) tap, because it is at the receiver.
func (a *Analyzer) atReceiver(data trace.FlowID) bool {
	return a.meta.AtHosts || a.meta.AtTap(data.Peer())
}

// most returns the most CNPs that any mode predicts.
func (f *flow) most() int64 {
	most := int64(0)
	for m := PerPort; m < numModes; m++ {
		most = max(most, f.predicted[m].most)
	}
	return most
}

// markedInstead returns a connection with marked data to the same receiving port, 0 if there is none. It searches all
// flows, for findings only.
func (a *Analyzer) markedInstead(data trace.FlowID) int {
	if !a.report.Open(RuleWrongQP, data.Connection()) {
		return 0
	}
	for i := range a.flows {
		f := &a.flows[i]
		if f.marks > 0 && f.credit > 0 && f.group[PerPort] == a.flows[data].group[PerPort] {
			return trace.FlowID(i).Connection()
		}
	}
	return 0
}

// checkInterval checks the minimum time since the group's latest CNP.
func (a *Analyzer) checkInterval(r *trace.Record, data trace.FlowID, f *flow) {
	np := a.receiver(data)
	mode := np.scope()
	p := &a.pacers[mode][f.group[mode]]
	since, before := r.TimeNS-p.cnpNS, p.cnpID
	first := p.cnpID == 0
	p.cnpNS, p.cnpID = r.TimeNS, r.ID
	if !np.Known || !np.Enabled || first || since >= np.MinTimeNS-a.cfg.JitterNS {
		return
	}
	a.finding(r, causeInterval(cause.Host(r.Flow), duration(since), duration(np.MinTimeNS), mode), text{
		packets:  []uint64{r.ID, before},
		expected: fmt.Sprintf("at least %s between CNPs of one %v", micros(np.MinTimeNS), mode),
		actual:   micros(since),
		message:  fmt.Sprintf("CNPs too close (%s granted for jitter between host and switch)", micros(a.cfg.JitterNS)),
	})
}

// measure records the interval since the flow's latest CNP and the latency since its trigger.
func (a *Analyzer) measure(r *trace.Record, data trace.FlowID, f *flow) {
	c := data.Connection()
	if a.metrics[c].interval == nil {
		a.metrics[c] = newDistributions(c)
	}
	triggerNS, known := f.waiting.pop()
	for _, d := range [...]distributions{a.metrics[0], a.metrics[c]} {
		if f.cnps > 1 {
			d.interval.Record(r.TimeNS - f.lastNS)
		}
		if known {
			d.latency.Record(r.TimeNS - triggerNS)
		}
	}
}

// text is what distinguishes one finding from another of its rule.
type text struct {
	severity                  analyzers.Severity
	packets                   []uint64
	expected, actual, message string
}

func (a *Analyzer) finding(r *trace.Record, why cause.Cause, t text) {
	c := r.Flow.Connection()
	if !a.report.Wants(why.Rule, c) {
		return
	}
	if t.packets == nil {
		t.packets = []uint64{r.ID}
	}
	a.report.Tell(why, analyzers.Finding{
		Severity: t.severity, Connection: c, Packets: t.packets, TimeNS: r.TimeNS, PSNAbs: uint32(r.PSN),
		Expected: t.expected, Actual: t.actual, Message: t.message,
	})
}

// micros prints nanoseconds for people.
func micros(ns int64) string { return clock.TextNS(ns) }
