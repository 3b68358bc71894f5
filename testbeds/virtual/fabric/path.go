package fabric

import "candela.dev/candela/clock"

// Leg is one link of a path, in the direction of travel.
type Leg struct {
	Rate    clock.BitRate
	Delay   clock.Duration // propagation, plus the forwarding latency of the switch that sends into it
	Framing int            // bytes that the link adds to each frame
}

// Path returns the links of a shortest path between two hosts; of several the first. It is empty if there is none.
func (n *Network) Path(from, to HostID) []Leg {
	h := n.hosts[from]
	legs := []Leg{h.port.leg()}
	for at := &n.ports[h.port.peer]; at.host == nil; {
		goal := n.homes[to]
		port := int(goal.port)
		if at.sw.id != goal.sw {
			g := &at.sw.routes.groups[at.sw.routes.group[goal.sw]]
			if len(g.ports) == 0 {
				return nil
			}
			port = int(g.first)
		}
		out := &at.sw.ports[port]
		legs = append(legs, out.leg())
		at = &n.ports[out.peer]
	}
	return legs
}

func (pt *Port) leg() Leg { return Leg{Rate: pt.rate, Delay: pt.delay, Framing: int(pt.framing)} }

// Edge returns the number of the switch that a host is attached to.
func (n *Network) Edge(h HostID) int32 { return n.homes[h].sw }

// Access returns the link of a host into the network, and that of another out of it.
func (n *Network) Access(from, to HostID) (in, out Leg) {
	home := n.homes[to]
	return n.hosts[from].port.leg(), n.switches[home.sw].ports[home.port].leg()
}
