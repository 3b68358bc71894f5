package tcp

import (
	"math"

	"candela.dev/candela/clock"
)

// samples is what is known of a sender's RTT samples.
type samples struct {
	sampled  bool           // the sender certainly has one
	shortest clock.Duration // no sample is shorter
	stamped  bool           // an ACK has given a sample by a time stamp
	taken    int            // samples, at most
}

// sample takes what may be a sample.
func (s *samples) sample(rtt clock.Duration) {
	if s.shortest == 0 || rtt < s.shortest {
		s.shortest = rtt
	}
}

// sample takes the first acknowledgement of a segment, which is no sample without time stamps if the segment was
// retransmitted (RFC 6298, 3: Karn's algorithm).
func (a *Analyzer) sample(s *stream, g *segment) {
	if g.times == 1 || a.cfg.Timestamps {
		s.sample(a.now.Sub(g.sent))
	}
}

// initialRTO returns the least timeout without a sample of the RTT.
func (a *Analyzer) initialRTO() clock.Duration { return max(a.cfg.InitialRTO, a.cfg.MinRTO) }

// ceiling returns where doubling may end.
func (a *Analyzer) ceiling() clock.Duration {
	if a.cfg.MaxRTO > 0 {
		return min(a.cfg.MaxRTO, maxBackoff)
	}
	return maxBackoff
}

// leastTimer returns the least that a timer runs for without backoff. SRTT is a mean of samples, hence no shorter than
// the shortest. RFC 6298, 2 adds 4·RTTVAR, which begins as half of the first sample and loses at most a quarter with
// each other.
func (a *Analyzer) leastTimer(s *stream) clock.Duration {
	switch {
	case s.sampled:
		rtt := s.shortest - a.cfg.Hold
		switch {
		case a.cfg.ThreeSRTT:
			rtt *= 3
		case !a.cfg.UnknownStack: // less what may be rounded off
			rtt += max(0, clock.Duration(2*float64(rtt)*math.Pow(0.75, float64(s.taken-1)))-clock.Nanosecond)
		}
		return min(max(a.cfg.MinRTO, rtt), a.ceiling())
	case s.shortest == 0 && (s.una == 0 && s.top == 0 || !a.cfg.UnknownStack): // nor can it have one
		return min(a.initialRTO(), a.ceiling())
	}
	return a.cfg.MinRTO
}

// timersWithin returns how often the timer may expire while a retransmission waits at its NIC: one packet may then be
// the effect of several timeouts.
func (a *Analyzer) timersWithin(s *stream, wait clock.Duration) int {
	return a.expiries(a.leastTimer(s)<<min(s.timeouts, 16), wait)
}

// expiries returns how often a timer that doubles may expire within a time.
func (a *Analyzer) expiries(least, wait clock.Duration) (count int) {
	for ; wait >= least && count < 64; count++ {
		wait -= least
		least = min(2*least, a.ceiling())
	}
	return count
}

// expired reports whether the timer may have expired, from its earliest start.
func (a *Analyzer) expired(s *stream) bool { return a.now.Sub(s.armed) >= a.leastTimer(s) }

// longestTimer returns the longest time for which the timer may run. SRTT and RTTVAR are at most the longest round trip
// (RFC 6298, 2).
func (a *Analyzer) longestTimer(s *stream) clock.Duration {
	const enough = 24 * 3600 * clock.Second // twice that does not overflow
	most := max(a.cfg.MinRTO, 5*(s.longest+a.cfg.Hold))
	if !s.sampled {
		most = max(most, a.cfg.InitialRTO)
	}
	for i := 0; i < s.doublings && most < enough; i++ {
		most *= 2
	}
	if a.cfg.MaxRTO > 0 {
		most = min(most, a.cfg.MaxRTO)
	}
	return most
}
