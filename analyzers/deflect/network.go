package deflect

import (
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
)

// network is how far apart switches are, by what routes know at an instant.
type network struct {
	*analyzers.Network
	places []int // of judged switches; -1: a NIC
	direct []int // by host: its port
	by     []int // judged switch, by its place; -1: not judged
	epochs []epoch
}

// epoch is a time in which routes are the same.
type epoch struct {
	since   clock.Time
	avoided map[[2]int]bool
	hops    map[int][]int // by switch of the destination, then by switch; -1: no path
	ports   [][][]int     // by switch, then by that of the destination: ports on shortest paths; nil: not asked for
}

func newNetwork(v analyzers.NetworkView) *network {
	n := &network{Network: v.Network()}
	for sw := range v.Switches() {
		place, ok := v.Number(sw)
		if !ok {
			place = -1
		}
		n.places = append(n.places, place)
	}
	n.by = slices.Repeat([]int{-1}, len(n.Peers))
	for sw, place := range n.places {
		if place >= 0 {
			n.by[place] = sw
		}
	}
	for _, home := range n.Homes {
		n.direct = append(n.direct, home.Port)
	}
	first := epoch{avoided: make(map[[2]int]bool), hops: make(map[int][]int)}
	for _, f := range n.Failed {
		first.avoid(f, true)
	}
	n.epochs = []epoch{first}
	for i := range n.Learned {
		l := &n.Learned[i]
		next := epoch{since: l.At, avoided: make(map[[2]int]bool), hops: make(map[int][]int)}
		for pair, avoided := range n.epochs[len(n.epochs)-1].avoided {
			next.avoided[pair] = avoided
		}
		next.avoid(l.Trunk, l.Failed)
		n.epochs = append(n.epochs, next)
	}
	return n
}

func (e *epoch) avoid(trunk [2]int, yes bool) {
	e.avoided[trunk], e.avoided[[2]int{trunk[1], trunk[0]}] = yes, yes
}

// at returns the epoch of an instant; nil: routes change at it.
func (n *network) at(now clock.Time) *epoch {
	if len(n.epochs) == 1 {
		return &n.epochs[0]
	}
	latest := 0
	for i := range n.epochs {
		if i > 0 && n.epochs[i].since == now {
			return nil
		}
		if n.epochs[i].since <= now {
			latest = i
		}
	}
	return &n.epochs[latest]
}

// from returns how many trunks lie between each switch and one of them.
func (n *network) from(e *epoch, to int) []int {
	if h := e.hops[to]; h != nil {
		return h
	}
	h := make([]int, len(n.Peers))
	for i := range h {
		h[i] = -1
	}
	h[to] = 0
	for list := []int{to}; len(list) > 0; list = list[1:] {
		for _, next := range n.Peers[list[0]] {
			if next >= 0 && h[next] < 0 && !e.avoided[[2]int{list[0], next}] {
				h[next] = h[list[0]] + 1
				list = append(list, next)
			}
		}
	}
	e.hops[to] = h
	return h
}

// routes returns the ports on shortest paths from a switch to a host; not ok: that is not known.
func (n *network) routes(place int, to uint32, now clock.Time) (ports []int, ok bool) {
	if place < 0 || int(to) >= len(n.Homes) {
		return nil, false
	}
	home := n.Homes[to]
	if home.Switch == place {
		return n.direct[to : to+1 : to+1], true
	}
	e := n.at(now)
	if e == nil {
		return nil, false
	}
	if e.ports == nil {
		e.ports = make([][][]int, len(n.Peers))
		for i := range e.ports {
			e.ports[i] = make([][]int, len(n.Peers))
		}
	}
	known := &e.ports[place][home.Switch]
	if *known == nil {
		*known = append(make([]int, 0, 1), n.shortest(e, place, home.Switch)...)
	}
	if len(*known) == 0 {
		return nil, true
	}
	return *known, true
}

// shortest returns the ports of a switch on shortest paths to another.
func (n *network) shortest(e *epoch, place, to int) (ports []int) {
	hops := n.from(e, to)
	for port, next := range n.Peers[place] {
		if next >= 0 && hops[next] >= 0 && hops[next] == hops[place]-1 && !e.avoided[[2]int{place, next}] {
			ports = append(ports, port)
		}
	}
	return ports
}

// broken reports whether a trunk of a switch fails or returns at an instant.
func (n *network) broken(place int, now clock.Time) bool {
	for i := range n.Outages {
		if o := &n.Outages[i]; (o.Trunk[0] == place || o.Trunk[1] == place) && (o.From == now || o.To == now) {
			return true
		}
	}
	return false
}

// down reports whether the trunk at a port is out of service.
func (d *device) down(port int, now clock.Time) bool {
	n := d.judge.network
	return n != nil && d.place >= 0 && len(n.Outages) > 0 && n.OutOfService(d.place, port, now)
}

// candidates returns the ports on shortest paths of a packet; nil: they are not known.
func (d *device) candidates(a *arrival) []int {
	if n := d.judge.network; n != nil {
		ports, ok := n.routes(d.place, a.key.dst, a.at)
		if !ok {
			return nil
		}
		return ports
	}
	for port := range d.ports {
		if host, ok := d.judge.view.HostAt(d.number, port); ok && host == a.key.dst {
			return []int{port}
		}
	}
	return nil
}

// broken reports whether what a switch knows of its trunks is in doubt at an instant.
func (d *device) broken(now clock.Time) bool {
	return d.judge.network != nil && d.judge.network.broken(d.place, now)
}

// hashes reports whether a flow keeps its path, unless its settings say otherwise.
func (n *network) hashes() bool { return n.Routing == analyzers.SpreadFlows }

// sees reports whether a switch of the network is judged; what is not a switch is not.
func (n *network) sees(place int) bool { return place >= 0 && n.by[place] >= 0 }
