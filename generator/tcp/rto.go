package tcp

import "candela.dev/candela/clock"

// timing has the constants of a retransmission timer.
type timing struct {
	initial, least, most clock.Duration
	triple               bool // 3·SRTT, not SRTT + 4·RTTVAR
}

func newTiming(cfg *Config) timing {
	return timing{initial: cfg.initialRTO(), least: cfg.MinRTO, most: cfg.maxRTO(), triple: cfg.ThreeSRTT}
}

// rto returns the retransmission timeout without backoff (RFC 6298, 2). Without a sample it is the initial one, which
// is the minimum unless configured: the omitted handshake would have measured the RTT.
func (s *sender) rto() clock.Duration {
	switch {
	case s.srtt == 0:
		return s.timing.initial
	case s.timing.triple:
		return max(3*s.srtt, s.timing.least)
	}
	return max(s.srtt+4*s.variance, s.timing.least)
}

// echoed takes the sample that an ACK without data gives by its time stamp. That of a handshake echoes nothing, as SYNs
// have no time stamps: it is 0 (RFC 7323, 3.2).
func (h *Host) echoed(now clock.Time, s *sender, a *Header) {
	if _, echo, ok := a.Times(); ok && s.timestamps && (echo != 0 || !h.cfg.Handshake) {
		s.measure(clock.Duration(uint32(now.Nanoseconds())-echo) * clock.Nanosecond)
	}
}

// restart restarts the retransmission timer if data is outstanding, otherwise stops it.
func (s *sender) restart(now clock.Time) {
	if len(s.segments) == 0 {
		s.expires = clock.Never
		return
	}
	s.start(now)
}

// start starts the retransmission timer.
func (s *sender) start(now clock.Time) {
	rto, most := s.spoilTimer(s.rto()), s.timing.most
	if s.bugs.Has(BugIgnoresMaxRTO) {
		most = mostRTO
	}
	for i := 0; i < s.backoff && rto < most; i++ {
		if !s.bugs.Has(BugNoBackoff) {
			rto = min(2*rto, most)
		}
	}
	s.expires = now.Add(min(rto, most))
	if s.bugs.Has(BugNoTimeout) {
		s.expires = clock.Never
	}
}
