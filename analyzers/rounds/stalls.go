package rounds

// stalls is the longest recent wait for progress: the maximum over the present and the previous window.
type stalls struct {
	windowNS          int64 // start of the present window
	present, previous int64
}

// turn starts a new window when the present one is over.
func (s *stalls) turn(ns int64) {
	switch age := ns - s.windowNS; {
	case age < StallWindowNS:
		return
	case age < 2*StallWindowNS:
		s.previous = s.present
	default:
		s.previous = 0
	}
	s.present, s.windowNS = 0, ns
}

func (s *stalls) add(ns, quietNS int64) {
	s.turn(ns)
	s.present = max(s.present, quietNS)
}

func (s *stalls) recent(ns int64) int64 {
	s.turn(ns)
	return max(s.present, s.previous)
}
