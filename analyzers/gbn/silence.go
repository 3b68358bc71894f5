package gbn

// silenced reports whether the responder may have been in error since fromNS. A queue pair is requester and responder
// in one: when its own requests failed, because its retries were exhausted, a NAK refused one or a response was
// malformed, it answers nothing more (IBTA volume 1, 9.9.2.4). Its last packet shows that it was not in error before.
func (s *session) silenced(fromNS int64) bool {
	if s.a.strangers(s.flow) {
		return true
	}
	peer := s.a.sessions[s.flow.Peer()]
	if peer == nil || fromNS < peer.req.lastNS-s.a.delay {
		return false
	}
	if peer.mayHaveFailed() {
		return true
	}
	if !peer.req.started {
		return false
	}
	q := &peer.req
	if q.fatalID != 0 {
		return true
	}
	unfinished := q.dubious || q.una.most().una < q.next
	if most := q.una.most(); unfinished && most.nak == nakRNR && peer.mayHaveGivenUp(most) {
		return true
	}
	return q.exhausted || unfinished && q.tried >= peer.fewest()
}

// endedByPeer reports whether the requester's queue pair is in error because it refused a request of the other host.
func (s *session) endedByPeer() bool {
	peer := s.a.sessions[s.flow.Peer()]
	return peer != nil && peer.rsp.fatalID != 0
}

// fewest returns the least number of restarts before the requester may give up; none if unknown.
func (s *session) fewest() int {
	l := &s.limits
	switch rnr := l.RNRRetry.Known && l.RNRRetry.Max < infiniteRNRRetry && s.req.refused; {
	case rnr && l.Retry.Known:
		return min(l.Retry.Max, l.RNRRetry.Max)
	case l.Retry.Known:
		return l.Retry.Max
	}
	return 0
}
