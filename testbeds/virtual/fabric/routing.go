package fabric

import "slices"

// routes is a switch's forwarding table: for each host a group of ports on shortest paths.
type routes struct {
	group  []uint16 // by HostID
	groups []group
	salt   uint64 // of the hash: switches must not choose alike, or only some paths are used
}

// group is a set of ports on equally short paths.
type group struct {
	ports []uint16
	turn  int // SprayRoundRobin: the next of ports
}

// choose returns the port towards p's destination.
func (r *routes) choose(sw *Switch, p *Packet) (port int, ok bool) {
	if int(p.Dst) >= len(r.group) {
		return 0, false
	}
	g := &r.groups[r.group[p.Dst]]
	n := len(g.ports)
	switch n {
	case 0:
		return 0, false
	case 1:
		return int(g.ports[0]), true
	}
	switch sw.net.spec.Topology.Balance {
	case SprayRandom:
		return int(g.ports[sw.rand.IntN(n)]), true
	case SprayRoundRobin:
		if g.turn == n {
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

// digit returns which of n ports p's path tag names at this switch: the tag counts in base n, its lowest digit for the first
// switch. Tags 0 to k²/4−1 are the paths between pods of a fat tree, 0 to spines−1 those between leaves.
func digit(p *Packet, n int) int {
	tag := int(p.Entropy)
	for range p.Hops - 1 {
		tag /= n
	}
	return tag % n
}

// hash mixes what ECMP looks at: addresses, flow and entropy (which stand for ports and protocol).
func hash(p *Packet, salt uint64) uint64 {
	h := mix(salt ^ uint64(p.Src)<<32 ^ uint64(p.Dst))
	return mix(h^uint64(p.Flow)<<16^uint64(p.Entropy)) >> 32
}

// mix is the finaliser of SplitMix64 (Steele et al., OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// route computes all tables: for every switch that has hosts, a breadth-first search gives each switch its distance, and the
// ports that lead closer are the group. Hosts on one switch share it.
func (n *Network) route(p *plan) {
	for _, sw := range n.switches {
		sw.routes = routes{group: make([]uint16, len(n.hosts)), salt: sw.rand.Uint64()}
	}
	hosts := make([][]HostID, len(n.switches))
	for _, c := range p.cables {
		if c.host {
			hosts[c.a] = append(hosts[c.a], HostID(c.b))
		}
	}
	for at := range n.switches {
		if len(hosts[at]) > 0 {
			n.routeTo(at, hosts[at])
		}
	}
}

// routeTo enters the routes towards the hosts on one switch into every table.
func (n *Network) routeTo(at int, hosts []HostID) {
	distance := n.distances(at)
	for i, sw := range n.switches {
		if i == at {
			for port := range sw.front {
				if h, ok := sw.ports[port].HostAt(); ok {
					sw.routes.group[h] = sw.routes.intern([]uint16{uint16(port)})
				}
			}
			continue
		}
		var ports []uint16
		for port := range sw.front {
			if next, ok := sw.ports[port].peer.node.(*Switch); ok && distance[i] > 0 && distance[next.id] == distance[i]-1 {
				ports = append(ports, uint16(port))
			}
		}
		g := sw.routes.intern(ports)
		for _, h := range hosts {
			sw.routes.group[h] = g
		}
	}
}

// intern returns the number of the group with these ports.
func (r *routes) intern(ports []uint16) uint16 {
	for i := range r.groups {
		if slices.Equal(r.groups[i].ports, ports) {
			return uint16(i)
		}
	}
	r.groups = append(r.groups, group{ports: ports, turn: 0})
	return uint16(len(r.groups) - 1)
}

// distances returns each switch's distance from one of them in links.
func (n *Network) distances(from int) []int {
	distance := make([]int, len(n.switches))
	for i := range distance {
		distance[i] = -1
	}
	distance[from] = 0
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		sw := n.switches[queue[0]]
		for port := range sw.front {
			next, ok := sw.ports[port].peer.node.(*Switch)
			if ok && distance[next.id] < 0 {
				distance[next.id] = distance[sw.id] + 1
				queue = append(queue, next.id)
			}
		}
	}
	return distance
}
