package orchestrator

import (
	"context"
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A run ends after a quiet time, but a user may stop a capture in the middle of traffic. A packet missing at the end of
// two captures is a violation only if it was due long before.

// unfinishedRules report a missing packet at the end of a trace. True: the responder owes it.
var unfinishedRules = map[string]bool{
	"gbn.ack-missing": true, "gbn.nak-missing": true, "gbn.read-missing": true, "gbn.nak-fatal-missing": true,
	"gbn.incomplete": false, "gbn.nak-unanswered": false,
}

const (
	// answerNS is the time that a responder may take for an answer if the timeout is unknown.
	answerNS = 20_000_000
	// A requester retries between T and 4 T after the request (IBTA volume 1, 9.7.6.1.3).
	latestTimeout = 4
)

// softenUnfinished downgrades violations about the end of two captures to warnings, unless the packet was due earlier.
func softenUnfinished(ctx context.Context, checked *trace.Checked, a *analyzers.Analysis, given *trace.Settings) error {
	if checked.Meta().Kind != trace.KindPair {
		return nil
	}
	return softenEnd(ctx, checked, a, given)
}

// softenEnd does the same at an end that the device has not made: that of the captures, or of an application, which may
// destroy its queue pairs in the middle of traffic.
func softenEnd(ctx context.Context, checked *trace.Checked, a *analyzers.Analysis, given *trace.Settings) error {
	meta := checked.Meta()
	if a.Verdict != analyzers.Fail {
		return nil
	}
	var list []*analyzers.Finding
	askedNS, lastNS := map[uint64]int64{}, map[int]int64{} // by packet, by connection
	answers := map[uint64]bool{}                           // packets that are responses
	for i := range a.Findings {
		f := &a.Findings[i]
		if _, ok := unfinishedRules[f.Rule]; !ok || f.Severity != analyzers.Violation || f.TimeNS < meta.EndNS {
			continue
		}
		list = append(list, f)
		if len(f.Packets) > 0 {
			askedNS[f.Packets[0]] = meta.EndNS
		}
	}
	if len(list) == 0 {
		return nil
	}
	err := checked.ForEach(ctx, func(r *trace.Record) error {
		if r.Flow != trace.NoFlow {
			lastNS[r.Flow.Connection()] = r.TimeNS
		}
		if _, ok := askedNS[r.ID]; ok {
			askedNS[r.ID] = r.TimeNS // of the latest record, which is its arrival
			answers[r.ID] = r.Opcode.IsResponse()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range list {
		if unfinishedRules[f.Rule] && len(f.Packets) > 0 && answers[f.Packets[0]] {
			continue // a later response proves the loss: a responder keeps the order
		}
		since := meta.EndNS - lastNS[f.Connection]
		if unfinishedRules[f.Rule] {
			since = 0
			if len(f.Packets) > 0 {
				since = meta.EndNS - askedNS[f.Packets[0]]
			}
		}
		if needs := neededNS(f.Rule, timeoutOf(&meta, f.Connection, given)); needs == 0 {
			f.Doubt(analyzers.Warning,
				" Or it came after the captures ended: the timeout of the requester is not known (--timeout).")
		} else if since < needs {
			later, certain := clock.TextApartNS(since, needs)
			f.Doubt(analyzers.Warning, fmt.Sprintf(
				" Or it came after the captures ended, %s later: a violation is certain after %s.", later, certain))
		}
	}
	a.Reconsider()
	return nil
}

// neededNS returns how long a capture must continue before a missing packet is certain, in ns; 0: unknown.
func neededNS(rule string, timeoutNS int64) int64 {
	switch {
	case rule == "gbn.nak-missing" && timeoutNS > 0:
		return timeoutNS / 2 // a gap that no NAK reports stays open for a timeout
	case unfinishedRules[rule] && timeoutNS > 0:
		return 2 * timeoutNS
	case unfinishedRules[rule]:
		return answerNS
	case timeoutNS > 0:
		return latestTimeout*timeoutNS + packet.RNRTimer(0)
	}
	return 0
}

// timeoutOf returns the local ACK timeout of a connection, in ns; 0: unknown.
func timeoutOf(meta *trace.Meta, connection int, given *trace.Settings) int64 {
	exponent := given.Timeout
	for _, c := range meta.Connections.All() {
		if c.Index == connection && c.Timeout != nil {
			exponent = c.Timeout
		}
	}
	if exponent == nil || *exponent <= 0 {
		return 0
	}
	return plan.AckTimeout(*exponent).Nanoseconds()
}
