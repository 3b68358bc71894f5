package fabric

import "candela.dev/candela/clock"

// Action is what to do with a packet.
type Action uint8

// Actions.
const (
	// Forward queues the packet at Verdict.Port and Verdict.Queue; returned by Dequeued, it lets the packet leave.
	Forward Action = 1 + iota
	// Drop discards it, counted under Verdict.Reason.
	Drop
	// Consume leaves it to the mechanism, which queues it (Switch.Place) or discards it (Switch.Discard), now or later.
	Consume
)

// Reason is why a packet was dropped.
type Reason uint8

// Reasons. A mechanism's own reasons start at ReasonOwn.
const (
	ReasonTail     Reason = 1 + iota // no room
	ReasonEarly                      // by active queue management
	ReasonTTL                        // time to live spent
	ReasonNoRoute                    // destination unknown
	ReasonBounced                    // refused by one queue after another (see placements)
	ReasonHeadroom                   // a lossless class overran its headroom: the configuration is wrong
	ReasonConsumed                   // a message between pipelines, processed
	ReasonOwn
)

// Reasons is the number of drop reasons of a switch.
const Reasons = 24

// Reasons of outages, the last: nobody is at fault.
const (
	ReasonStopped     Reason = Reasons - 1 - iota // the switch was stopped
	ReasonTrunkFailed                             // it was on a trunk that failed, or waited for it
	ReasonUnreachable                             // as trunks have failed, no path leads to the destination
	ReasonTrunkDown                               // the route leads to a trunk that has failed
)

// LeastOutage is the least reason that is an outage.
const LeastOutage = ReasonTrunkDown

// Unseen reports whether the mechanism has not decided about packets that are dropped for this reason.
func (r Reason) Unseen() bool { return r == ReasonUnreachable || r == ReasonTrunkDown }

// Outage reports whether switches or trunks out of service are the reason.
func (r Reason) Outage() bool { return r >= LeastOutage && r < Reasons }

var reasonNames = [...]string{ReasonTail: "tail", ReasonEarly: "early", ReasonTTL: "ttl", ReasonNoRoute: "no-route",
	ReasonBounced:  "bounced",
	ReasonHeadroom: "headroom", ReasonConsumed: "consumed"}

var outageNames = [...]string{"stopped", "trunk-failed", "unreachable", "trunk-down"}

// Name returns the reason's name in counters; empty: a mechanism's own reason.
func (r Reason) Name() string {
	switch {
	case r.Outage():
		return outageNames[Reasons-1-r]
	case int(r) < len(reasonNames):
		return reasonNames[r]
	}
	return ""
}

// Verdict is the action on a packet, with its port and queue.
type Verdict struct {
	Action Action
	Reason Reason // of Drop
	Queue  uint8
	Port   uint16
}

// A Mechanism makes a switch the switch under test: it decides where packets are queued and when they are trimmed,
// marked, deflected or dropped. One value serves one switch. Each call has v filled in with the decision of a plain
// switch; returning v unchanged gives tail drop. Queues, pipelines and random numbers are available from the Switch.
type Mechanism interface {
	// Ingress is called after routing for every packet that enters the switch by port in, which may be a recirculation
	// port. v forwards to the routed port and the queue of the packet's class.
	Ingress(now clock.Time, sw *Switch, p *Packet, in *Port, v Verdict) Verdict
	// Overflow is called when the traffic manager has no room for p at v.Port and v.Queue. The default is to drop;
	// v.Reason is ReasonTail, or ReasonHeadroom for a lossless class. A verdict that forwards elsewhere is tried in turn
	// and may overflow again, up to eight times.
	Overflow(now clock.Time, sw *Switch, p *Packet, v Verdict) Verdict
	// Dequeued is the egress pipeline: it is called when the scheduler has chosen p, which has left its queue (v.Port,
	// v.Queue). It may edit p, emit copies and drop.
	Dequeued(now clock.Time, sw *Switch, p *Packet, v Verdict) Verdict
}

// Starter is a Mechanism with state to prepare after the switch is built and before any packet, such as registers per
// port and first timers.
type Starter interface {
	Start(now clock.Time, sw *Switch)
}

// Maker is a Mechanism that has to know what waits: also packets that the switch makes beside it, SRC packets of Bolt.
type Maker interface {
	// Made is called when the switch has made p in answer to a packet of the ID of, before p is queued as v says. No
	// ingress pipeline sees p.
	Made(now clock.Time, sw *Switch, p *Packet, of uint64, v Verdict) Verdict
}

// Chooser is a Mechanism of a switch with queues whose packets it chooses (QueueSpec.Chosen).
type Chooser interface {
	// Choose returns the packet that leaves next of those that wait in a queue of port, at least one; nil: none may leave
	// now, and the mechanism has the port served (Switch.Serve) when one may.
	Choose(now clock.Time, sw *Switch, port *Port, queue int) *Packet
}

// Timed is a Mechanism that uses timers (Switch.Wake).
type Timed interface {
	// HandleTimer serves the timer that was requested with token.
	HandleTimer(now clock.Time, sw *Switch, token uint64)
}

// TailDrop is the baseline mechanism, to be embedded by others: it changes nothing.
type TailDrop struct{}

// Ingress implements Mechanism.
func (TailDrop) Ingress(_ clock.Time, _ *Switch, _ *Packet, _ *Port, v Verdict) Verdict { return v }

// Overflow implements Mechanism.
func (TailDrop) Overflow(_ clock.Time, _ *Switch, _ *Packet, v Verdict) Verdict {
	return v.Drop(ReasonTail)
}

// Dequeued implements Mechanism.
func (TailDrop) Dequeued(_ clock.Time, _ *Switch, _ *Packet, v Verdict) Verdict { return v }

// Drop returns v turned into a drop.
func (v Verdict) Drop(why Reason) Verdict {
	v.Action, v.Reason = Drop, why
	return v
}

// To returns v as a forward to a queue of a port.
func (v Verdict) To(port *Port, queue int) Verdict {
	v.Action, v.Port, v.Queue = Forward, uint16(port.index), uint8(queue)
	return v
}

// Consumed returns v turned into Consume.
func (v Verdict) Consumed() Verdict {
	v.Action = Consume
	return v
}
