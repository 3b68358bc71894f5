package fabric

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Stage is where in a node a packet is seen.
type Stage uint8

// Stages.
const (
	Ingress Stage = 1 + iota // has arrived, nothing done to it yet; at a host: its stack receives it
	Egress                   // is leaving: its first bit goes onto the wire; at a host: its stack sends it
	Dropped                  // is being discarded
	// Of hosts whose NIC has queues, or with a shim; at others the stack and the wire are one place.
	Offered  // the NIC takes it, from the stack or the shim
	Departed // leaves the NIC: its first bit goes onto the wire
	Arrived  // has come in whole, and the shim takes it
)

// String returns the stage in lower case.
func (s Stage) String() string {
	return [...]string{"unset", "ingress", "egress", "dropped", "offered", "departed", "arrived"}[s]
}

// ShimPort is the Point.Port of what a host's shim drops.
const ShimPort = -1

// Point is where a packet is seen.
type Point struct {
	Host   bool // Node is a HostID rather than a switch
	Stage  Stage
	Reason Reason // of Dropped
	Node   int
	Port   int
	Queue  int // of Egress and Dropped
}

// Tap sees every packet at every point, on one clock; p is valid during the call only, and not to be changed.
type Tap func(at Point, now clock.Time, p *Packet)

// AtSwitch fills t with what a tap of a switch shows of p, as judges see it, and reports whether at is one. NICs with
// queues are switches, too: that of host h has the number Switches()+h and one port.
func (n *Network) AtSwitch(at Point, now clock.Time, p *Packet, t *trace.SwitchTap) bool {
	stage, node, internal := trace.SwitchStage(at.Stage), at.Node, false
	if at.Host {
		if stage = n.stageAtNIC(at); stage == 0 {
			return false
		}
		node += len(n.switches)
	} else {
		internal = at.Port >= n.switches[at.Node].front
	}
	*t = trace.SwitchTap{
		Time: now, Stage: stage, Internal: internal, Switch: node, Port: at.Port, Queue: at.Queue,
		Reason: uint8(at.Reason), ID: p.ID, Protocol: p.Protocol, Kind: p.NDP.Kind, Flags: p.Flags, IPv6: p.IPv6,
		Src: uint32(p.Src),
		Dst: uint32(p.Dst), Flow: p.Flow, Connection: p.NDP.Connection, Number: uint64(p.Number), Rank: p.Rank,
		Entropy: p.Entropy,
		DSCP:    p.DSCP, ECN: uint8(p.ECN), TTL: p.TTL, Size: p.Size, Original: p.Original,
	}
	if p.Protocol == NDP {
		t.Number = uint64(p.NDP.Seq)<<32 | uint64(p.NDP.Counter)
	}
	return true
}

// stageAtNIC returns the stage of a packet at the NIC of a host, as at a switch; 0: it is not at a NIC with queues.
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

// SetDecisions has every decision that a mechanism records shown to f, which reads it during the call only.
func (n *Network) SetDecisions(f func(*trace.Decision)) { n.decided = n.orderedDecisions(f) }

// Decides reports whether somebody wants decisions; a mechanism need not prepare them otherwise.
func (sw *Switch) Decides() bool { return sw.net.decided != nil }

// Decide records what the mechanism decides about p. d names kind, cause, port, queue and values; the rest is filled
// in.
func (sw *Switch) Decide(now clock.Time, p *Packet, d trace.Decision) {
	if sw.net.decided == nil {
		return
	}
	d.Time, d.Switch, d.Packet, d.Flow, d.Rank, d.Size = now, int(sw.id), p.ID, p.Flow, p.Rank, p.Size
	sw.net.decided(sw, &d)
}
