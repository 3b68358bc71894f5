package fabric

// LookAhead has the engine look ahead also in small networks, or not at all.
func (n *Network) LookAhead(on bool) {
	for _, p := range n.parts {
		p.engine.look.on = on
	}
}

// Force has so many workers simulate a network of s, however small it is.
func Force(s *Spec, workers int) { s.Workers, s.forced = workers, true }
