package fabric

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Stage is the place in a node where a packet is observed.
type Stage uint8

// Stages.
const (
	Ingress Stage = 1 + iota // arrived, before any processing; at a host: its stack receives it
	Egress                   // its first bit goes onto the wire; at a host: its stack sends it
	Dropped                  // being discarded
	// Only for hosts whose NIC has queues, or with a shim; at others the stack and the wire coincide.
	Offered  // accepted by the NIC, from the stack or the shim
	Departed // its first bit leaves the NIC onto the wire
	Arrived  // received whole, passed to the shim
	// Only for taps of queues (Switch.WatchQueues).
	Queued    // has joined a queue
	Served    // chosen by the scheduler of its port
	Withdrawn // taken out of its queue by the mechanism, or as the switch stops
	Refused   // the traffic manager has no room for it in the queue
	// Only for taps of the whole network and of switches.
	Lost // it was on the link to the port when that failed
)

// String returns the stage in lower case.
func (s Stage) String() string {
	return [...]string{"unset", "ingress", "egress", "dropped", "offered", "departed", "arrived", "queued", "served",
		"withdrawn", "refused", "lost"}[s]
}

// ShimPort is the Point.Port of packets dropped by a host's shim.
const ShimPort = -1

// Point is where a packet is observed.
type Point struct {
	Host   bool // Node is a HostID rather than a switch
	Stage  Stage
	Reason Reason // of Dropped
	Node   int
	Port   int
	Queue  int // of Egress, Dropped and stages at queues
}

// Tap is called for every packet at every point, on one clock. p is valid only during the call and must not be changed.
type Tap func(at Point, now clock.Time, p *Packet)

// AtSwitch fills t with a switch tap's view of p for judges, and reports whether at is a switch. NICs with queues count
// as switches: the NIC of host h has number Switches()+h and one port.
func (n *Network) AtSwitch(at Point, now clock.Time, p *Packet, t *trace.SwitchTap) bool {
	stage, node, internal := trace.SwitchStage(at.Stage), at.Node, false
	if at.Stage == Lost { // on the way to the switch
		return false
	}
	if at.Host {
		if stage = n.stageAtNIC(at); stage == 0 {
			return false
		}
		node += len(n.switches)
	} else {
		internal = at.Port >= n.switches[at.Node].front
	}
	// one by one: a literal is built elsewhere and copied
	t.Time, t.Stage, t.Internal, t.Switch, t.Port, t.Queue = now, stage, internal, node, at.Port, at.Queue
	t.Reason, t.ID, t.Protocol, t.Kind, t.Flags, t.IPv6 = uint8(at.Reason), p.ID, p.Protocol, p.NDP.Kind, p.Flags, p.IPv6
	t.Src, t.Dst, t.Flow, t.Connection = uint32(p.Src), uint32(p.Dst), p.Flow, p.NDP.Connection
	t.Number, t.Rank, t.Entropy = uint64(p.Number), p.Rank, p.Entropy
	t.DSCP, t.ECN, t.TTL, t.Class, t.Size, t.Original = p.DSCP, uint8(p.ECN), p.TTL, p.Class, p.Size, p.Original
	t.Weight, t.Shim = n.weights[p.share], uint8(n.shimOf(p))
	if p.Protocol == NDP {
		t.Number = uint64(p.NDP.Seq)<<32 | uint64(p.NDP.Counter)
	}
	return true
}

// stageAtNIC returns the switch stage of a packet at the NIC of a host; 0: not at a NIC with queues.
func (n *Network) stageAtNIC(at Point) trace.SwitchStage {
	switch {
	case !n.NICs() || at.Port == ShimPort:
	case at.Stage == Offered:
		return trace.Entered
	case at.Stage == Departed:
		return trace.Left
	case at.Stage == Dropped:
		return trace.Dropped
	}
	return 0
}

// SetDecisions calls f for every decision that a mechanism records; the decision is valid only during the call.
func (n *Network) SetDecisions(f func(*trace.Decision)) { n.decided = n.orderedDecisions(f) }

// Decides reports whether decisions are recorded; otherwise a mechanism need not prepare them.
func (sw *Switch) Decides() bool { return sw.net.decided != nil }

// Decide records the mechanism's decision about p. The caller sets kind, cause, port, queue and values in d; the rest
// is filled in.
func (sw *Switch) Decide(now clock.Time, p *Packet, d trace.Decision) {
	if sw.net.decided == nil {
		return
	}
	d.Time, d.Switch, d.Packet, d.Flow, d.Rank, d.Size = now, int(sw.id), p.ID, p.Flow, p.Rank, p.Size
	d.Shim = uint8(sw.net.shimOf(p))
	sw.decision = d // not allocated anew
	sw.net.decided(sw, &sw.decision)
}
