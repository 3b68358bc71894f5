package gbn

// exhaustedBy reports whether the requester had to give up in state k: it used exactly the retries that a limit allows,
// and each attempt failed for a reason outside the requester. A requester that continues breaks RuleRetryExceeded; one
// that stops earlier breaks RuleIncomplete.
func (s *session) exhaustedBy(k *knowledge) (retries int, setting string, ok bool) {
	q, l := &s.req, &s.limits
	// the wait that it asks for costs no retry_cnt
	if k.nak == nakRNR && !k.answered && !s.captured && k.una != q.restartAt {
		return 0, "rnr_retry", l.RNRRetry.Known && l.RNRRetry.Max == 0
	}
	if k.una != q.restartAt {
		return 0, "retry_cnt", l.Retry.Known && l.Retry.Max == 0 && s.failed(k, 0)
	}
	ambiguous := q.vague + q.free
	if l.RNRRetry.exactly(q.rnrs, ambiguous) && l.RNRRetry.Max < infiniteRNRRetry && k.nak == nakRNR &&
		(!k.answered || s.captured) {
		return l.RNRRetry.Max, "rnr_retry", true
	}
	if l.Retry.exactly(q.restarts, ambiguous) && s.failed(k, q.restarts+ambiguous) {
		return l.Retry.Max, "retry_cnt", true
	}
	return 0, "", false
}

// exactly reports whether n retries, with up to ambiguous more, are all that l allows.
func (l *Limit) exactly(n, ambiguous int) bool { return l.Known && n <= l.Max && l.Max <= n+ambiguous }

// failed reports whether the request of state k and its retransmissions failed for reasons outside the requester: the
// injector dropped each of them or its response, or the responder's queue pair was in error.
func (s *session) failed(k *knowledge, restarts int) bool {
	q := &s.req
	lost := q.mute
	if w, ok := q.window.get(k.una); ok {
		lost += int(w.lost)
	}
	return lost > restarts || s.silenced(q.lastNS)
}

// mayHaveGivenUp reports whether the NACK of state k may have exceeded the retries, so that the requester owes nothing
// (IBTA volume 1, 9.9.2.1.1). An unknown limit may be 0.
func (s *session) mayHaveGivenUp(k *knowledge) bool {
	q, limit, used := &s.req, s.limits.Retry, 0
	if q.lastNack != 0 && q.lastNS-q.lastNack <= s.a.delay {
		return true // and it has sent nothing since that NACK arrived
	}
	if k.nak == nakRNR {
		limit = s.limits.RNRRetry
		if limit.Known && limit.Max >= infiniteRNRRetry {
			return false
		}
	}
	if k.una == q.restartAt {
		used = q.restarts
		if k.nak == nakRNR {
			used = q.rnrs
		}
		used += q.vague + q.free
	}
	if k.nak == nakRNR {
		used = max(used, int(k.rnrs)-1) // one that arrives during the wait for another may cost a retry, too
	}
	return !limit.Known || used >= limit.Max
}
