package gbn

import (
	"fmt"

	"candela.dev/candela/trace"
)

const msnMask = 1<<24 - 1

// An msnTrack bounds what to add to counts of ours to get the 24-bit MSNs of a responder: nothing, or where the trace may
// begin midway a constant that the MSNs seen so far narrow down.
type msnTrack struct {
	seen        bool
	least, most int64
}

// checkMSN judges the MSN of r: the responder has completed at least the requests that the response shows as completed, and
// at most all that can have arrived (IBTA volume 1, 9.7.7.1). A READ counts from the first of its responses or from the last.
func (s *session) checkMSN(r *trace.Record, p pos, atLeast int64) {
	if !r.Has(trace.HasAETH) {
		return
	}
	q, t := &s.rsp, &s.rsp.msn
	atMost := q.log.most.msn
	atLeast = max(0, atLeast)
	if s.midway && !t.seen {
		*t = msnTrack{seen: true, least: int64(r.MSN) - atMost, most: int64(r.MSN) - atLeast}
		return
	}
	lo, hi := atLeast+t.least, atMost+t.most
	if above := (int64(r.MSN) - lo) & msnMask; above <= hi-lo {
		got := lo + above
		t.least, t.most = max(t.least, got-atMost), min(t.most, got-atLeast)
		return
	}
	expected := fmt.Sprintf("msn %d", lo&msnMask)
	if hi > lo {
		expected = fmt.Sprintf("msn %d to %d", lo&msnMask, hi&msnMask)
	}
	say(s.report(RuleMSN, r, p), expected, fmt.Sprintf("%s with msn %d", response(r, p), r.MSN))
}
