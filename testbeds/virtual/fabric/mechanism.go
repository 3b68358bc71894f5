package fabric

import "candela.dev/candela/clock"

// Action is what becomes of a packet.
type Action uint8

// Actions.
const (
	// Forward queues the packet at Verdict.Port and Verdict.Queue, or from Dequeued lets it leave.
	Forward Action = 1 + iota
	// Drop discards it, counted under Verdict.Reason.
	Drop
	// Consume leaves it to the mechanism, which has queued it (Switch.Place), discarded it (Switch.Discard), or will.
	Consume
)

// Reason is why a packet was dropped.
type Reason uint8

// Reasons. A mechanism with reasons of its own counts from ReasonOwn.
const (
	ReasonTail     Reason = 1 + iota // no room
	ReasonEarly                      // by an active queue management
	ReasonTTL                        // time to live spent
	ReasonNoRoute                    // destination unknown
	ReasonBounced                    // refused by one queue after another (see placements)
	ReasonHeadroom                   // a lossless class overran its headroom: the configuration is wrong
	ReasonConsumed                   // a message between pipelines that has done its work
	ReasonOwn
)

// Reasons is how many reasons a switch tells apart.
const Reasons = 24

// ReasonStopped is the last of them: the switch was stopped.
const ReasonStopped Reason = Reasons - 1

var reasonNames = [...]string{ReasonTail: "tail", ReasonEarly: "early", ReasonTTL: "ttl", ReasonNoRoute: "no-route",
	ReasonBounced:  "bounced",
	ReasonHeadroom: "headroom", ReasonConsumed: "consumed"}

// Name returns the reason in the words of counters; empty: one of a mechanism's own.
func (r Reason) Name() string {
	switch {
	case r == ReasonStopped:
		return "stopped"
	case int(r) < len(reasonNames):
		return reasonNames[r]
	}
	return ""
}

// Verdict says what to do with a packet, and where.
type Verdict struct {
	Action Action
	Reason Reason // of Drop
	Queue  uint8
	Port   uint16
}

// A Mechanism is what makes a switch the switch under test: where packets are queued, when they are cut, marked,
// deflected or dropped. One value serves one switch. The switch calls it on a packet's way, with v filled in as a plain
// switch would decide; returning v unchanged is tail drop. A mechanism sees queues, pipelines, random numbers and the
// rest through the Switch.
type Mechanism interface {
	// Ingress is called for every packet that enters the switch, also through a recirculation port (in says which), after
	// routing: v forwards to the routed port and the queue of the packet's class.
	Ingress(now clock.Time, sw *Switch, p *Packet, in *Port, v Verdict) Verdict
	// Overflow is called when the traffic manager has no room for p where v says. The default is to drop; v.Reason says
	// why (ReasonTail, or ReasonHeadroom for a lossless class). A verdict to forward elsewhere is tried in turn, and may
	// overflow again, up to eight times.
	Overflow(now clock.Time, sw *Switch, p *Packet, v Verdict) Verdict
	// Dequeued is called when the scheduler has chosen p, which has left its queue (v.Port, v.Queue): the egress pipeline.
	// It may edit p, emit copies and drop.
	Dequeued(now clock.Time, sw *Switch, p *Packet, v Verdict) Verdict
}

// Starter is a Mechanism that wants to prepare once the switch is built, before any packet: registers per port, first
// timers.
type Starter interface {
	Start(now clock.Time, sw *Switch)
}

// Timed is a Mechanism that asked for timers (Switch.Wake).
type Timed interface {
	// HandleTimer serves the timer that was asked for with token.
	HandleTimer(now clock.Time, sw *Switch, token uint64)
}

// TailDrop is the baseline mechanism, and for others the part to embed: it changes nothing.
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

// To returns v turned towards a queue of a port.
func (v Verdict) To(port *Port, queue int) Verdict {
	v.Action, v.Port, v.Queue = Forward, uint16(port.index), uint8(queue)
	return v
}

// Consumed returns v turned into Consume.
func (v Verdict) Consumed() Verdict {
	v.Action = Consume
	return v
}
