package gbn

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

const msnMask = 1<<24 - 1

// checkMSN judges the MSN of r: the responder has completed at least the requests that the response shows as completed,
// and at most all that can have arrived (IBTA volume 1, 9.7.7.1). A READ counts from the first of its responses or from
// the last. If a capture may begin midway only the lower bound is known.
func (s *session) checkMSN(r *trace.Record, p pos, atLeast int64) {
	q := &s.rsp
	if !r.Has(trace.HasAETH) || s.captured && q.adrift {
		return
	}
	atLeast = max(0, atLeast)
	atMost := max(q.log.most.msn, atLeast)
	if r.Opcode == packet.Acknowledge && r.Syndrome.IsNak() && r.Syndrome != packet.SyndromeNakSequence ||
		r.Syndrome.IsRNR() {
		atMost = atLeast // what comes after the refused request is not executed
		if q.log.len > 0 && q.log.at(0).op == packet.ReadRequest && !r.Syndrome.IsRNR() {
			atMost++ // it may count as executed before its answer turns out to be impossible
		}
	}
	if !s.captured && p > q.acked-1 && !q.stream.replay {
		// it counts up; a repeated answer may have the count of its first time
		atLeast = max(atLeast, q.msn)
	}
	if s.captured && s.midway {
		atMost = atLeast + msnMask/2
	}
	atMost = max(atMost, atLeast)
	if above := (int64(r.MSN) - atLeast) & msnMask; above <= atMost-atLeast {
		if q.counts++; atMost == atLeast {
			q.counted = true // a connection with requests from before the trace would have counted more
		}
		q.msn = atLeast + above
		return
	}
	if s.midway && !q.counted && q.counts < 2 && int64(r.MSN) > atMost {
		s.rsp.adrift, s.captured = true, true // the responder has counted requests from before the trace
		return
	}
	expected := fmt.Sprintf("msn %d", atLeast&msnMask)
	if atMost > atLeast {
		expected = fmt.Sprintf("msn %d to %d", atLeast&msnMask, atMost&msnMask)
	}
	say(s.report(RuleMSN, r, p), expected, fmt.Sprintf("%s with msn %d", response(r, p), r.MSN),
		causeMSN(s.responder(), reply{r, p}, int64(r.MSN), cause.Between{Least: atLeast & msnMask, Most: atMost & msnMask}))
}
