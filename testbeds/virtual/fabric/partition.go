package fabric

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/prefetch"
)

// part is a partition of a network: switches and hosts with their own calendar, counters and free packets. Packets pass
// between partitions as letters (see windows).
type part struct {
	net    *Network
	number int
	engine engine
	pool   pool
	fault  error
	failed moment  // when the fault happened
	before uint64  // hops before the current window
	sights []sight // of the current window

	sent, delivered, dropped, copied [kinds]uint64
}

func (p *part) fail(err error) {
	if p.fault == nil {
		p.fault, p.failed, p.engine.halted = err, p.engine.moment(), true
	}
}

// fewHops is the least number of hops in a window for which several workers pay off.
const fewHops = 2000

// patience is the number of windows with few hops after which partitions are joined.
const patience = 64

// division assigns a partition to each switch and then to each host.
type division struct {
	of     []int
	parts  int
	window clock.Duration // the shortest delay between partitions
	why    string         // there are not more partitions
}

func (n *Network) partition(p *plan) {
	d := n.divide(p)
	n.windows = windows{length: d.window, workers: max(1, n.spec.Workers), forced: n.spec.Forced, why: d.why,
		flaps: n.spec.flaps, span: 1}
	all := new(slabs)
	if d.parts > 1 {
		all.all = make([]*Packet, maxSlabs)
	}
	// Looking ahead costs a quarter of the time of a fat tree of 128 hosts (384 links), whose state nearly fits into a
	// second cache of 1 MB; with one of 250 hosts (750 links) it saves a tenth, with one of 432 hosts (1296) a third.
	const ofLink = 2 << 10 // bytes
	many := max(256, prefetch.Cache/ofLink)
	reach, day := n.scales()
	home, exits := make([]uint8, len(n.ports)), n.exits()
	for i := range d.parts {
		part := &part{net: n, number: i, pool: pool{slabs: all}}
		part.pool.full = func() {
			part.fail(fmt.Errorf("%d packets exist, which is how many have numbers", 1<<packetBits))
		}
		e := &part.engine
		e.packets, e.ports = &part.pool, n.ports
		e.portWidth = uint(bits.Len(uint(len(n.ports) - 1)))
		e.span(reach, day)
		e.look = ahead{on: prefetch.Works && len(p.cables) > many, exits: exits, hosts: n.machines,
			nics: len(n.ports) - len(n.hosts), foreseers: n.foreseers}
		e.home, e.outbox, e.sent, e.posted = home, make([][]letter, d.parts), make([][]letter, d.parts), clock.Never
		n.parts = append(n.parts, part)
	}
	for i, sw := range n.switches {
		for j := range sw.ports {
			home[sw.ports[j].number] = uint8(d.of[i])
		}
	}
	for i, h := range n.hosts {
		home[h.port.number] = uint8(d.of[len(n.switches)+i])
	}
	n.windows.joined = d.parts > 1 && !n.spec.Forced
	n.assign()
}

// edge is a link between two nodes; the numbers of hosts follow those of the switches.
type edge struct {
	a, b   int
	host   bool
	length clock.Duration // the shorter of both directions
}

// maxUnits bounds the number of units to divide: finding neighbours takes quadratic time.
const maxUnits = 8192

// divide cuts the network at its longest links into one partition per worker, or fewer if they would be too unequal or
// a window would hold too few hops.
func (n *Network) divide(p *plan) division {
	nodes := len(n.switches) + len(n.hosts)
	whole := division{of: make([]int, nodes), parts: 1}
	workers := min(n.spec.Workers, 1<<8)
	if workers < 2 {
		return whole
	}
	if nodes > 1<<16 {
		whole.why = fmt.Sprintf("%d switches and hosts; networks of up to %d are divided", nodes, 1<<16)
		return whole
	}
	edges := n.edges(p)
	lengths := make([]clock.Duration, 0, len(edges))
	for _, e := range edges {
		lengths = append(lengths, e.length)
	}
	slices.Sort(lengths)
	lengths = slices.Compact(lengths)
	slices.Reverse(lengths)
	best, most := whole, 0
	for _, window := range lengths {
		for _, apart := range []bool{false, true} { // hosts from their switches
			hops := n.capacity(window)
			most = max(most, hops)
			if window <= 0 || !n.spec.Forced && hops < fewHops {
				continue
			}
			d := n.cut(edges, window, apart, workers)
			if d.parts > best.parts {
				best = d
			}
		}
		if best.parts == workers {
			break
		}
	}
	switch {
	case best.parts == workers:
	case most < fewHops && !n.spec.Forced:
		best.why = fmt.Sprintf("a window of the longest delay, %v, has at most %d hops; several workers need %d",
			lengths[0], most, fewHops)
	default:
		best.why = "no cut at links that are long enough divides the network into more parts of similar size"
	}
	return best
}

func (n *Network) edges(p *plan) []edge {
	edges := make([]edge, 0, len(p.cables))
	for i := range n.ports {
		pt := &n.ports[i]
		peer := &n.ports[pt.peer]
		if pt.number >= peer.number { // the other direction, or recirculation
			continue
		}
		e := edge{a: int(pt.sw.id), host: peer.host != nil, length: min(pt.delay, peer.delay)}
		if e.host {
			e.b = len(n.switches) + int(peer.host.id)
		} else {
			e.b = int(peer.sw.id)
			for _, l := range n.spec.Topology.statesOf(Trunk{pt.sw.name, peer.sw.name}) {
				e.length = min(e.length, l.Delay+pt.sw.config.Latency, l.Delay+peer.sw.config.Latency)
			}
		}
		edges = append(edges, e)
	}
	return edges
}

// capacity returns the hops in a window with all links busy: full packets, each with a small packet in return.
func (n *Network) capacity(window clock.Duration) int {
	const frame = 1500
	hops := 0.0
	for i := range n.ports {
		if n.ports[i].kind != RecirculationPort {
			hops += 2 * float64(window) / float64(n.ports[i].serialise(frame))
		}
	}
	return int(hops)
}

// cut returns a division that cuts no link shorter than window, and cuts links of hosts only if apart.
func (n *Network) cut(edges []edge, window clock.Duration, apart bool, workers int) division {
	nodes := len(n.switches) + len(n.hosts)
	leader := make([]int, nodes)
	for i := range leader {
		leader[i] = i
	}
	find := func(i int) int {
		for leader[i] != i {
			leader[i] = leader[leader[i]]
			i = leader[i]
		}
		return i
	}
	for _, e := range edges {
		if e.length < window || e.host && !apart {
			a, b := find(e.a), find(e.b)
			leader[max(a, b)] = min(a, b)
		}
	}
	g := graph{units: make([]unit, 0, nodes)}
	number := make([]int, nodes)
	for i := range nodes {
		if find(i) == i {
			number[i] = len(g.units)
			g.units = append(g.units, unit{part: -1})
		}
		number[i] = number[find(i)]
	}
	for _, e := range edges {
		g.link(number[e.a], number[e.b])
	}
	whole := division{of: make([]int, nodes), parts: 1}
	if len(g.units) > maxUnits {
		return whole
	}
	parts := g.share(workers)
	if parts < 2 {
		return whole
	}
	d := division{of: make([]int, nodes), parts: parts, window: clock.Duration(clock.Never)}
	for i := range nodes {
		d.of[i] = g.units[number[i]].part
	}
	for _, e := range edges {
		if d.of[e.a] != d.of[e.b] {
			d.window = min(d.window, e.length)
		}
	}
	return d
}

type unit struct {
	weight int   // ends of links
	to     []int // linked units, without duplicates
	part   int
}

type graph struct{ units []unit }

func (g *graph) link(a, b int) {
	g.units[a].weight++
	g.units[b].weight++
	if a != b {
		g.units[a].to = append(g.units[a].to, b)
		g.units[b].to = append(g.units[b].to, a)
	}
}

// share assigns each unit a partition and returns the number of partitions: workers, if no partition then exceeds its
// share by more than half.
func (g *graph) share(workers int) int {
	total, most := 0, 0
	for i := range g.units {
		total += g.units[i].weight
		most = max(most, g.units[i].weight)
	}
	parts := min(workers, len(g.units))
	for parts > 1 && 2*most*parts > 3*total {
		parts--
	}
	left := total
	gain := make([]int, len(g.units))
	for part := range parts {
		clear(gain)
		goal := left / (parts - part)
		for has := 0; has < goal || part == parts-1; {
			next := g.nearest(gain)
			if next < 0 {
				break
			}
			u := &g.units[next]
			if has > 0 && part < parts-1 && 2*(has+u.weight-goal) > u.weight {
				break
			}
			u.part = part
			has += u.weight
			left -= u.weight
			for _, to := range u.to {
				gain[to]++
			}
		}
	}
	used := make([]int, 0, parts)
	for i := range g.units {
		used = append(used, g.units[i].part)
	}
	slices.Sort(used)
	used = slices.Compact(used)
	for i := range g.units { // renumber without the empty partitions
		g.units[i].part, _ = slices.BinarySearchFunc(used, g.units[i].part, cmp.Compare[int])
	}
	return len(used)
}

// nearest returns the first unassigned unit with the greatest gain; -1: none is left.
func (g *graph) nearest(gain []int) int {
	best := -1
	for i := range g.units {
		if g.units[i].part < 0 && (best < 0 || gain[i] > gain[best]) {
			best = i
		}
	}
	return best
}
