package switchtest

// Follows reports whether the hosts of a flow are judged.
func (p *Plan) Follows(flow int) bool { return p.follows(flow) }
