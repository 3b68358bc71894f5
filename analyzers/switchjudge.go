package analyzers

import (
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// A SwitchView is what a judge of switches may know beside packets and decisions: what the test declares, and what the
// device says of itself.
type SwitchView interface {
	Switches() int
	SwitchName(sw int) string
	// Ports returns how many ports of a switch lead outside; they have the numbers from 0.
	Ports(sw int) int
	// HostAt returns the host that a port leads to directly.
	HostAt(sw, port int) (host uint32, ok bool)
	Address(host uint32, v6 bool) netip.Addr
	// Settings returns what a switch is set to, and Counters what it counts, in the vocabulary of its family.
	Settings(sw int) (any, error)
	Counters(sw int) (any, error)
	// Reason returns what a reason of a switch's drops is called.
	Reason(sw int, code uint8) DropReason
	// FlowOf returns the number of the flow that a packet belongs to, 0 if none.
	FlowOf(t *trace.SwitchTap) int
	// Cut reports whether packets may be inside when the observation ends: Bounded from the beginning, InFlight at the
	// end.
	Bounded() bool
	InFlight() bool
	Decisions() []trace.DecisionKind
	// Makes reports whether a switch sends packets of its own, as answers to others or by itself.
	Makes(sw int) bool
}

// DropReason is a reason for which a switch drops packets.
type DropReason struct {
	Name string
	Doc  string
	// Copied says that a copy of the packet goes on in its place.
	Copied bool
	// Outage says that the switch was out of service: it decided nothing and is not to blame.
	Outage bool
	// Decided says that a decision record precedes such a drop, if the switch keeps records.
	Decided bool
}

// A SwitchJudge judges all switches of a run. It is fed in order of time, then finished.
type SwitchJudge interface {
	Observe(t *trace.SwitchTap)
	// Decide takes a decision record; of a device without records there are none.
	Decide(d *trace.Decision)
	// Changed says that the settings of a switch are others from now on.
	Changed(now clock.Time, sw int)
	// Stopping says that a switch goes out of service now, Started that it is in service again. What is inside is lost,
	// and so are its state and its counters, which can be read a last time by Stopping.
	Stopping(now clock.Time, sw int)
	Started(now clock.Time, sw int)
	Finish() (Result, error)
}
