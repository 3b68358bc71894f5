package fabric

import "candela.dev/candela/generator/wire"

import "slices"

// home is the attachment of a host.
type home struct {
	sw   int32
	port uint16
}

// routes is a switch's forwarding table: for each switch with hosts, a group of ports on shortest paths. It is keyed by
// switch, not host, so that the tables of all switches fit into a cache.
type routes struct {
	group  []uint16 // by number of a switch
	groups []group
	salt   uint64 // of the hash: differs per switch, because equal choices would leave paths unused
	random bool   // Topology.Balance is SprayRandom
	cut    bool   // trunks of the switch have failed
	own    [1]uint16
}

// group is a set of ports on equally short paths.
type group struct {
	ports []uint16
	first uint16 // of ports
	turn  uint32 // SprayRoundRobin: the next of ports
}

// choose returns the port towards p's destination.
func (r *routes) choose(sw *Switch, p *Packet) (port int, ok bool) {
	if int(p.Dst) >= len(sw.net.homes) {
		return 0, false
	}
	to := sw.net.homes[p.Dst]
	if to.sw == sw.id {
		return int(to.port), true
	}
	g := &r.groups[r.group[to.sw]]
	n := len(g.ports)
	switch n {
	case 0:
		return 0, false
	case 1:
		return int(g.first), true
	}
	if r.random {
		return int(g.ports[sw.source.below(uint64(n))]), true
	}
	switch sw.net.spec.Topology.Balance {
	case SprayRoundRobin:
		if int(g.turn) == n {
			sw.rand.Shuffle(n, func(i, j int) { g.ports[i], g.ports[j] = g.ports[j], g.ports[i] })
			g.turn = 0
		}
		g.turn++
		return int(g.ports[g.turn-1]), true
	case SourcePath:
		return int(g.ports[digit(p, n)]), true
	default:
		return int(g.ports[hash(p, r.salt)%uint64(n)]), true
	}
}

// all returns every port that choose may return for p.
func (r *routes) all(sw *Switch, p *Packet) []uint16 {
	if int(p.Dst) >= len(sw.net.homes) {
		return nil
	}
	to := sw.net.homes[p.Dst]
	if to.sw == sw.id {
		r.own[0] = to.port
		return r.own[:]
	}
	return r.groups[r.group[to.sw]].ports
}

// likely returns the network-wide number of the port that choose will return for p, unless another draw comes first, or
// −1.
func (r *routes) likely(sw *Switch, p *Packet) int32 {
	if int(p.Dst) >= len(sw.net.homes) {
		return -1
	}
	to := sw.net.homes[p.Dst]
	if to.sw == sw.id {
		return sw.first + int32(to.port)
	}
	g := &r.groups[r.group[to.sw]]
	switch n := len(g.ports); {
	case n == 1:
		return sw.first + int32(g.first)
	case n > 1 && r.random:
		return sw.first + int32(g.ports[sw.source.peek(uint64(n))])
	}
	return -1
}

// digit returns the index, below n, of the port that p's path tag selects at this switch. The tag is a number in base
// n; its lowest digit belongs to the first switch. Tags 0 to k²/4−1 are the paths between pods of a fat tree, 0 to
// spines−1 those between leaves.
func digit(p *Packet, n int) int {
	tag := int(p.Entropy)
	for range p.Hops - 1 {
		tag /= n
	}
	return tag % n
}

// hash mixes the input of ECMP: addresses, flow and entropy (which represent ports and protocol).
func hash(p *Packet, salt uint64) uint64 {
	h := wire.Mix(salt ^ uint64(p.Src)<<32 ^ uint64(p.Dst))
	return wire.Mix(h^uint64(p.Flow)<<16^uint64(p.Entropy)) >> 32
}

// route computes all tables. For every switch with hosts, a breadth-first search gives the distance of each switch; the
// ports that lead closer form the group.
func (n *Network) route() {
	n.homes = make([]home, len(n.hosts))
	populated := make([]bool, len(n.switches))
	for _, h := range n.hosts {
		edge := &n.ports[h.port.peer]
		n.homes[h.id] = home{edge.sw.id, edge.index}
		populated[edge.sw.id] = true
	}
	for _, sw := range n.switches {
		sw.routes.salt, sw.routes.random = sw.rand.Uint64(), n.spec.Topology.Balance == SprayRandom
	}
	n.avoid = func(a, b string) bool { l := n.spec.Topology.trunkOf(a, b); return l.Failed }
	if n.spec.Topology.Kind == Standby {
		n.Prefer(false)
		return
	}
	n.fillTables(populated)
}

// fillTables fills in the routes to every switch with hosts.
func (n *Network) fillTables(populated []bool) {
	for _, sw := range n.switches {
		sw.routes.group, sw.routes.groups = make([]uint16, len(n.switches)), nil
	}
	for to, has := range populated {
		if has {
			n.routeTo(to)
		}
	}
}

// NoRoute returns why a packet that Route finds no port for is dropped.
func (sw *Switch) NoRoute(p *Packet) Reason {
	if int(p.Dst) < len(sw.net.homes) {
		return ReasonUnreachable
	}
	return ReasonNoRoute
}

// routeTo adds the routes towards a switch to the tables of the others.
func (n *Network) routeTo(to int) {
	distance := n.distances(to)
	for i, sw := range n.switches {
		if i == to {
			continue
		}
		var ports []uint16
		for port := range sw.front {
			next := n.ports[sw.ports[port].peer].sw
			if next != nil && !sw.ports[port].avoided && distance[i] > 0 && distance[next.id] == distance[i]-1 {
				ports = append(ports, uint16(port))
			}
		}
		if fault := n.spec.Switch.Routing; fault != "" {
			ports = n.misroute(fault, sw, to, ports, distance)
		}
		sw.routes.group[to] = sw.routes.intern(ports)
	}
}

// misroute returns what a switch with a fault has instead of the ports of a group.
func (n *Network) misroute(fault RouteFault, sw *Switch, to int, ports []uint16, distance []int) []uint16 {
	failed := false
	for i := range sw.ports[:sw.front] {
		pt := &sw.ports[i]
		next := pt.Peer()
		if next == nil {
			continue
		}
		failed = failed || pt.shunned
		closer := distance[next.id] >= 0 && distance[next.id] < distance[sw.id]
		switch {
		case fault == KeepsFailed && pt.avoided && closer, fault == LeadsAway && !closer && len(ports) > 0 && !pt.avoided:
			ports = append(ports, uint16(i))
		case fault == IgnoresReturn && pt.shunned && !pt.avoided:
			ports = slices.DeleteFunc(ports, func(p uint16) bool { return int(p) == i })
		}
	}
	if fault == ForgetsRoutes && failed && to%2 == 1 {
		return nil
	}
	return ports
}

// Unreachable returns two hosts without a path between them, if there are any.
func (n *Network) Unreachable() (a, b HostID, ok bool) {
	first := make(map[int32]HostID) // a host of each switch that has hosts
	for id := len(n.homes) - 1; id >= 0; id-- {
		first[n.homes[id].sw] = HostID(id)
	}
	for id := range n.homes {
		from := n.homes[id].sw
		if first[from] != HostID(id) {
			continue
		}
		sw := n.switches[from]
		for _, to := range n.homes {
			if to.sw != from && len(sw.routes.groups[sw.routes.group[to.sw]].ports) == 0 {
				return HostID(id), first[to.sw], true
			}
		}
	}
	return 0, 0, false
}

// intern returns the number of the group with these ports.
func (r *routes) intern(ports []uint16) uint16 {
	for i := range r.groups {
		if slices.Equal(r.groups[i].ports, ports) {
			return uint16(i)
		}
	}
	g := group{ports: ports}
	if len(ports) > 0 {
		g.first = ports[0]
	}
	r.groups = append(r.groups, g)
	return uint16(len(r.groups) - 1)
}

// distances returns each switch's distance to the given switch in links that routes do not avoid.
func (n *Network) distances(to int) []int {
	distance := make([]int, len(n.switches))
	for i := range distance {
		distance[i] = -1
	}
	distance[to] = 0
	for queue := []int{to}; len(queue) > 0; queue = queue[1:] {
		sw := n.switches[queue[0]]
		for port := range sw.front {
			peer := &n.ports[sw.ports[port].peer]
			if next := peer.sw; next != nil && !peer.avoided && distance[next.id] < 0 {
				distance[next.id] = distance[sw.id] + 1
				queue = append(queue, int(next.id))
			}
		}
	}
	return distance
}
