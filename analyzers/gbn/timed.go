package gbn

import "candela.dev/candela/trace"

// punctual reports whether the hosts' delays are measured and every delivery to the requester is known, so that times
// prove what it had received.
func (s *session) punctual() bool {
	return s.a.cfg.HostDelayNS > 0 && !s.captured && !s.fateUnknown && !s.disturbed && !s.a.unpunctual()
}

// refusedSurely reports whether the requester had received the RNR NAK of state k when it sent r: it then waits for the
// RNR timer, not the ACK timer.
func (s *session) refusedSurely(r *trace.Record, k *knowledge) bool {
	return s.punctual() && k.nak == nakRNR && !k.dubious && r.TimeNS-k.nakNS > s.a.delay
}

// noteTimed keeps the earliest time of a restart that only the timer explains. The next one is at least T later,
// whatever the delays to the observer.
func (s *session) noteTimed(r *trace.Record, p pos, k *knowledge) {
	q, t := &s.req, s.limits.TimeoutNS
	start, _, ok := s.timerStart(p, k)
	if !s.punctual() || t <= 0 || !ok || q.carried > 0 || k.dubious {
		q.timedAt = -1
		return
	}
	since, timed := s.timedSince(p, start)
	if !timed {
		since = max(start-s.a.cfg.HostDelayNS, k.timeNS) // it sent the request before it passed, and got the response after
	}
	q.timedAt, q.timedNS, q.timedFromNS = p, r.TimeNS, max(r.TimeNS-s.a.cfg.HostDelayNS, since+t)
}

// noteNacked does the same for a restart that only one sequence NAK explains.
func (s *session) noteNacked(r *trace.Record, p pos, k *knowledge, forward bool) {
	q := &s.req
	if forward || !s.punctual() || k.asks != 1 || q.carried > 0 || k.dubious || !s.ruledOut(r, p, k) {
		q.timedAt = -1
		return
	}
	q.timedAt, q.timedNS, q.timedFromNS = p, r.TimeNS, max(r.TimeNS-s.a.cfg.HostDelayNS, k.nakNS)
}

// timedSince returns the earliest instant of the restart at p that was seen at startNS, if that is known.
func (s *session) timedSince(p pos, startNS int64) (int64, bool) {
	q := &s.req
	return q.timedFromNS, q.timedAt == p && q.timedNS == startNS
}
