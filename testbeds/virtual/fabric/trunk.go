package fabric

import (
	"fmt"
	"slices"

	"candela.dev/candela/clock"
)

// SetTrunk changes the link between two switches, both ways, between calls of Run. The caller says beforehand which
// links may come (TopologySpec.LaterTrunk).
//
// When a trunk fails, frames on it are lost, and packets that wait for it are dropped for ReasonTrunkFailed. Those that
// are routed to it until Reroute has routes avoid it are dropped for ReasonTrunkDown. Neither end is paused any more. A
// trunk that comes back signals the pauses in force. A new rate or delay holds for frames that have not begun to leave;
// with a shorter delay the next of them leaves so late that it does not overtake the last.
func (n *Network) SetTrunk(now clock.Time, a, b string, l *LinkSpec) error {
	var c check
	l.validate(&c, "trunk")
	if len(c) > 0 {
		return c[0]
	}
	at := n.trunkPort(a, b)
	if at == nil {
		return fmt.Errorf("there is no trunk between %s and %s", a, b)
	}
	peer := &n.ports[at.peer]
	for _, pt := range []*Port{at, peer} {
		least := n.windows.length
		if l.Delay+pt.sw.config.Latency < least && n.home(at) != n.home(peer) {
			return fmt.Errorf("trunk between %s and %s: a delay of %s was not foreseen: the least is %s", a, b, l.Delay, least)
		}
	}
	fails, returns := l.Failed && !at.failed, at.failed && !l.Failed
	for _, pt := range []*Port{at, peer} {
		if fails {
			pt.fail(now)
		}
		pt.retune(now, l)
	}
	for _, pt := range []*Port{at, peer} {
		if returns {
			pt.comeBack(now)
		}
	}
	return nil
}

// Trunk returns the ports at both ends of the link between two switches; nil: there is none.
func (n *Network) Trunk(a, b string) (from, to *Port) {
	if from = n.trunkPort(a, b); from != nil {
		to = &n.ports[from.peer]
	}
	return from, to
}

// home returns the partition of a port.
func (n *Network) home(pt *Port) uint8 { return n.parts[0].engine.home[pt.number] }

// trunkPort returns the port of switch a towards switch b; nil: there is none.
func (n *Network) trunkPort(a, b string) *Port {
	i := slices.IndexFunc(n.switches, func(sw *Switch) bool { return sw.name == a })
	if i < 0 {
		return nil
	}
	sw := n.switches[i]
	for j := range sw.ports[:sw.front] {
		if peer := sw.ports[j].Peer(); peer != nil && peer.name == b {
			return &sw.ports[j]
		}
	}
	return nil
}

// fail takes the port's link out of service.
func (pt *Port) fail(now clock.Time) {
	sw, peer := pt.sw, &pt.net.ports[pt.peer]
	pt.failed, sw.routes.cut = true, true
	peer.cut, peer.lostUntil = true, max(peer.lostUntil, pt.busyUntil.Add(pt.delay))
	pt.paused = 0
	sw.flush(now, pt, ReasonTrunkFailed)
	for i := range pt.queues {
		pt.queues[i].room = 0
	}
}

// comeBack returns the port's link to service.
func (pt *Port) comeBack(now clock.Time) {
	sw := pt.sw
	if pt.net.spec.Switch.Routing == StaysDown {
		return
	}
	pt.failed, sw.routes.cut = false, false
	for i := range sw.ports[:sw.front] {
		sw.routes.cut = sw.routes.cut || sw.ports[i].failed
	}
	for i := range pt.queues {
		pt.queues[i].restoreRoom()
	}
	if pt.pause != nil && pt.pause.paused != 0 {
		pt.signal(now)
	}
}

// retune gives the port's link another rate and delay.
func (pt *Port) retune(now clock.Time, l *LinkSpec) {
	busy, latency := pt.Counters().Busy, pt.delay
	pt.settled.busy, pt.settled.sent, pt.settled.bytes = busy, pt.sent, pt.sentBytes
	pt.counters.Busy = busy
	if pt.sw.bolt != nil {
		pt.sw.bolt.ports[pt.index].earn(now, pt)
	}
	pt.tune(l, pt.sw.config.Latency)
	if shorter := latency - pt.delay; shorter > 0 && pt.sent > 0 {
		pt.busyUntil = pt.busyUntil.Add(shorter)
	}
}

// lose ends a frame that was on the link to the port when that failed.
func (pt *Port) lose(now clock.Time, p *Packet) {
	pt.cutOff++
	part := pt.part()
	part.dropped[p.Kind()]++
	if pt.sw.watch != nil && p.Protocol != PFC {
		at := pt.sw.point(Lost, pt.Index(), 0)
		at.Reason = ReasonTrunkFailed
		pt.sw.watch(at, now, p)
	}
	part.pool.put(p)
}

// Reroute has routes avoid the trunks for which avoid is true, and no others. Packets under way are routed anew at each
// switch.
func (n *Network) Reroute(avoid func(a, b string) bool) {
	n.avoid = avoid
	populated := make([]bool, len(n.switches))
	for _, h := range n.homes {
		populated[h.sw] = true
	}
	for _, sw := range n.switches {
		for i := range sw.ports[:sw.front] {
			if peer := sw.ports[i].Peer(); peer != nil {
				pt := &sw.ports[i]
				pt.avoided = avoid(sw.name, peer.name) || n.spares(sw.name, peer.name)
				pt.shunned = pt.shunned || pt.avoided
			}
		}
	}
	if n.spec.Switch.Routing == ReroutesLate {
		n.rerouteLate(populated)
		return
	}
	n.fillTables(populated)
}

// latePackets is how many packets ReroutesLate loses beyond those of the time to reroute.
const latePackets = 20

// lateRoutes are routes that a switch is to follow.
type lateRoutes struct {
	group   []uint16
	groups  []group
	packets int // until then
}

// rerouteLate has switches keep their routes until they have lost packets to a failed trunk.
func (n *Network) rerouteLate(populated []bool) {
	before := make([]routes, len(n.switches))
	for i, sw := range n.switches {
		before[i] = sw.routes
	}
	n.fillTables(populated)
	for i, sw := range n.switches {
		sw.late = &lateRoutes{sw.routes.group, sw.routes.groups, latePackets}
		sw.routes = before[i]
	}
}

// lostToTrunk counts a packet that is lost as its route leads to a trunk that has failed.
func (sw *Switch) lostToTrunk() {
	if sw.late == nil {
		return
	}
	if sw.late.packets--; sw.late.packets == 0 {
		sw.routes.group, sw.routes.groups, sw.late = sw.late.group, sw.late.groups, nil
	}
}
