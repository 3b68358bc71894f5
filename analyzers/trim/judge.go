package trim

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// reacts determines what a receiver that reacts owes for the header of l.
func (a *Analyzer) reacts(l *loss, step *rounds.Step) {
	l.expected = step.Is(rounds.TrimmedNext) && !step.Is(rounds.Unsure)
	l.alone = l.expected && !step.Is(rounds.Retransmitted)
}

// declared reports whether the receiver of l is said to react.
func (a *Analyzer) declared(l *loss) bool {
	return a.cfg.Follow == trace.EventTrim && a.meta.TrimReactions.Receiver(l.Flow) == trace.TrimAnswered
}

// answered handles a packet from the receiver of open losses: it may request one, or be wrong.
func (a *Analyzer) answered(f *flowState, r *trace.Record, step *rounds.Step) {
	for _, l := range f.open {
		if r.Flow != l.Flow.Peer() {
			continue
		}
		switch {
		case l.Response:
			a.asks(l, r, step)
		case r.Opcode == packet.Acknowledge && r.Syndrome == packet.SyndromeNakSequence:
			a.nacks(l, r, step.Place)
		case r.Opcode.IsResponse():
			a.acknowledges(l, r, step.Place)
			l.busy = l.busy || r.Opcode.IsReadResponse()
		}
	}
}

// asks handles a repeated READ request that covers the response of l.
func (a *Analyzer) asks(l *loss, r *trace.Record, step *rounds.Step) {
	if l.NackID != 0 || r.Opcode != packet.ReadRequest || !step.Is(rounds.Retransmitted) || step.Place > l.place {
		return
	}
	mtu := int64(1)
	if c, ok := a.meta.Connections.Get(l.Flow); ok {
		mtu = int64(max(c.MTU, 1))
	}
	if l.place < step.Place+max(1, (int64(r.DMALen)+mtu-1)/mtu) {
		if r.TimeNS-l.TimeNS >= a.cfg.timerNS() {
			a.missing(l, r.TimeNS)
			l.expected = false // judged
			return
		}
		a.asked(l, r)
	}
}

func (a *Analyzer) asked(l *loss, r *trace.Record) {
	l.NackID, l.NackNS = r.ID, r.TimeNS
	a.metrics.record(generation, l.Connection, r.TimeNS-l.TimeNS)
	a.keep(l)
}

// nacks looks at a NAK for place.
func (a *Analyzer) nacks(l *loss, r *trace.Record, place int64) {
	switch {
	case place == l.place && l.ResentID == 0:
		if l.nacks++; l.nacks == 1 {
			a.asked(l, r)
		} else if l.nacks == 2 && l.alone && a.declared(l) {
			a.finding(causeNackRepeat(l.what(), a.at(r)), l, []uint64{r.ID, l.NackID, l.ID}, r.TimeNS,
				fmt.Sprintf("one nack for the header of psn %d", l.PSN),
				"a second one before the packet was retransmitted", "a trimmed header was NAKed twice")
		}
	case place > l.place && l.expected && a.declared(l) && !l.blamed:
		l.blamed = true
		a.finding(causeNackPSN(l.what(), place, a.at(r)), l, []uint64{r.ID, l.ID}, r.TimeNS,
			fmt.Sprintf("nack psn %d, which was trimmed", l.PSN),
			fmt.Sprintf("nack psn %d", place),
			"the NAK for a trimmed header names a later packet, and so acknowledges the lost one")
	}
}

// acknowledges handles a response for place that acknowledges a request that never arrived whole.
func (a *Analyzer) acknowledges(l *loss, r *trace.Record, place int64) {
	if !l.expected || l.blamed || place < l.place || r.Opcode == packet.Acknowledge && !r.Syndrome.IsAck() {
		return
	}
	l.blamed = true
	a.finding(causeAcknowledged(l.what(), r.Class(), place, a.at(r)), l, []uint64{r.ID, l.ID}, r.TimeNS,
		fmt.Sprintf("nothing beyond psn %d: psn %d arrived without its payload", l.PSN-1, l.PSN),
		fmt.Sprintf("%v psn %d", r.Class(), place), "a trimmed packet counts as received: its data is lost")
}

// missing reports, when the packet is retransmitted or the trace ends, that a receiver that reacts has not requested
// it.
func (a *Analyzer) missing(l *loss, nowNS int64) {
	silent := a.cfg.ErrorsExpected && a.spoke[l.Flow.Peer()] <= l.TimeNS
	if l.NackID != 0 || !l.expected || !a.declared(l) || l.blamed || l.busy || silent ||
		nowNS-l.TimeNS < a.cfg.AnswerWithinNS {
		return
	}
	l.blamed = true
	what, why := "nack", causeNoNak(l.what(), nowNS-l.TimeNS)
	if l.Response {
		what, why = "read-request", causeNoRequest(l.what(), nowNS-l.TimeNS)
	}
	a.finding(why, l, []uint64{l.ID}, l.TimeNS,
		fmt.Sprintf("%s psn %d at once: its header arrived", what, l.PSN),
		fmt.Sprintf("none within %s", clock.TextNS(nowNS-l.TimeNS)),
		"the NIC is said to react to trimmed headers and kept silent")
}

func (a *Analyzer) finding(c cause.Cause, l *loss, packets []uint64, timeNS int64, expected, actual, message string) {
	if !a.report.Wants(c.Rule, l.Connection) {
		return
	}
	flow := l.Flow
	if l.Response {
		flow = flow.Peer()
	}
	first := a.meta.Connections.InitialPSN(flow, packet.Requests)
	a.report.Tell(c, analyzers.Finding{
		Connection: l.Connection, Packets: packets, TimeNS: timeNS, PSN: l.PSN,
		PSNAbs:   uint32(first.Add(int(l.PSN - 1))),
		Expected: expected, Actual: actual, Message: message,
	})
}
