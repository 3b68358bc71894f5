package gbn

import (
	"fmt"

	"candela.dev/candela/trace"
)

const msnMask = 1<<24 - 1

// An msnTrack turns the 24-bit MSNs of a responder into counts. Where the trace may begin midway, the first one seen sets
// the origin.
type msnTrack struct {
	known  bool
	offset int64 // added to counts of ours to get those of the responder
}

// checkMSN judges the MSN of r: the responder has completed at least the requests that the response shows as completed, and
// at most all that can have arrived (IBTA volume 1, 9.7.7.1). A READ counts from the first of its responses or from the last.
func (s *session) checkMSN(r *trace.Record, p pos, atLeast int64) {
	if !r.Has(trace.HasAETH) {
		return
	}
	q := &s.rsp
	atMost := q.log.most.msn
	atLeast = max(0, atLeast)
	if s.midway && !q.msn.known {
		q.msn = msnTrack{known: true, offset: int64(r.MSN) - atLeast}
		return
	}
	lo, hi := atLeast+q.msn.offset, atMost+q.msn.offset
	if got := int64(r.MSN); (got-lo)&msnMask <= hi-lo {
		return
	}
	expected := fmt.Sprintf("msn %d", lo&msnMask)
	if hi > lo {
		expected = fmt.Sprintf("msn %d to %d", lo&msnMask, hi&msnMask)
	}
	say(s.report(RuleMSN, r, p), expected, fmt.Sprintf("%s with msn %d", response(r, p), r.MSN))
}
