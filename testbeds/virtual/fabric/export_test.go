package fabric

// LookAhead has the engine look ahead also in small networks, or not at all.
func (n *Network) LookAhead(on bool) { n.engine.look.on = on }
