package gbn

import "candela.dev/candela/trace"

// punctual reports whether the hosts' delays are measured and every delivery to the requester is known, so that
// instants prove what it had received.
func (s *session) punctual() bool {
	return s.a.cfg.HostDelayNS > 0 && !s.captured && !s.fateUnknown && !s.disturbed && !s.a.unpunctual()
}

// refusedSurely reports whether the requester had received the RNR NAK of state k when it sent r: it waits for that and
// no longer for the timer.
func (s *session) refusedSurely(r *trace.Record, k *knowledge) bool {
	return s.punctual() && k.nak == nakRNR && !k.dubious && r.TimeNS-k.nakNS > s.a.delay
}

// noteTimed remembers the earliest instant of a restart that only the timer explains. The next one comes T after that
// at the earliest, however long either took to the observer.
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

// noteNacked remembers the same of a restart that only one sequence NAK explains.
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
