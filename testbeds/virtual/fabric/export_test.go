package fabric

// LookAhead enables looking ahead also in small networks, or disables it.
func (n *Network) LookAhead(on bool) {
	for _, p := range n.parts {
		p.engine.look.on = on
	}
}

// Force makes that many workers simulate a network of s, however small it is.
func Force(s *Spec, workers int) { s.Workers, s.Forced = workers, true }

// Flap does so, and has partitions joined and divided all the time.
func Flap(s *Spec, workers int) {
	Force(s, workers)
	s.flaps = true
}
