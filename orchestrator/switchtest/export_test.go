package switchtest

// Follows reports whether the hosts of a flow are judged.
func (p *Plan) Follows(flow int) bool { return p.follows(flow) }

// Slowdown returns how much slower than the test a run on real frames is.
func (p *Plan) Slowdown() int64 { return p.slowdown() }
