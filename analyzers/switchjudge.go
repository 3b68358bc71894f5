package analyzers

import (
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// A SwitchView is what a judge of switches may know besides packets and decisions: what the test declares and what the
// device reports.
type SwitchView interface {
	Switches() int
	SwitchName(sw int) string
	// Ports returns how many ports of a switch lead outside; they have the numbers from 0.
	Ports(sw int) int
	// HostAt returns the host that a port leads to directly.
	HostAt(sw, port int) (host uint32, ok bool)
	Address(host uint32, v6 bool) netip.Addr
	// Link returns the rate of a port's link, and the bytes that each frame takes on it beyond its size.
	Link(sw, port int) (rate clock.BitRate, framing int)
	// Settings and Counters return what a switch is set to and what it counts, in the types of its family.
	Settings(sw int) (any, error)
	Counters(sw int) (any, error)
	// Reason returns what a reason of a switch's drops is called.
	Reason(sw int, code uint8) DropReason
	// FlowOf returns the number of the flow that a packet belongs to, 0 if none.
	FlowOf(t *trace.SwitchTap) int
	// Bounded and InFlight report whether packets may be inside when the observation ends: Bounded is known from the
	// start, InFlight at the end.
	Bounded() bool
	InFlight() bool
	Decisions() []trace.DecisionKind
	// Makes reports whether a switch sends packets of its own.
	Makes(sw int) bool
}

// OneOfMany reports whether the network of a judge has several switches, also if it judges one of them.
func OneOfMany(v SwitchView) bool {
	if part, ok := v.(interface{ OneOfMany() bool }); ok {
		return part.OneOfMany()
	}
	return v.Switches() > 1
}

// OnRealFrames reports whether the switches of a judge pass on real frames: when they do is not exact.
func OnRealFrames(v SwitchView) bool {
	real, ok := v.(interface{ OnRealFrames() bool })
	return ok && real.OnRealFrames()
}

// Pauses reports whether flow control may keep the ports of switches, and NICs, from sending.
func Pauses(v SwitchView) bool {
	paused, ok := v.(interface{ Pauses() bool })
	return ok && paused.Pauses()
}

// DropReason is a reason for which a switch drops packets.
type DropReason struct {
	Name string
	Doc  string
	// Copied says that a copy of the packet goes on in its place.
	Copied bool
	// Consumed says that the packet was for the switch, which has processed it: nothing is lost.
	Consumed bool
	// Outage says that the switch, or a trunk, was out of service: the switch is not at fault.
	Outage bool
	// Unseen says that the packet was dropped on arrival, before the switch decided about it.
	Unseen bool
	// Evicts says that the packet waited, and another has taken its place.
	Evicts bool
	// Decided says that a decision record precedes such a drop, if the switch keeps records.
	Decided bool
}

// A BackupJudge is a SwitchJudge that is told when a backup has taken over from another switch.
type BackupJudge interface {
	TakesOver(now clock.Time, sw int)
}

// A LinkJudge is a SwitchJudge that is told when the rate or delay of a port's link has changed.
type LinkJudge interface {
	Relinked(now clock.Time, sw, port int, l *Relink)
}

// Relink is what a link has become.
type Relink struct {
	Rate    clock.BitRate
	Framing int
	// Shorter is by how much its delay fell; negative: it rose. The next frame leaves so much later that it does not
	// overtake the last.
	Shorter clock.Duration
}

// A SwitchJudge judges all switches of a run. It is fed in order of time, then finished.
type SwitchJudge interface {
	Observe(t *trace.SwitchTap)
	// Decide receives a decision record, if the device keeps records.
	Decide(d *trace.Decision)
	// Changed says that the settings of a switch change at now.
	Changed(now clock.Time, sw int)
	// Stopping says that a switch goes out of service at now, Started that it returns. Packets inside, its state and its
	// counters are lost; Stopping can read the counters a last time.
	Stopping(now clock.Time, sw int)
	Started(now clock.Time, sw int)
	Finish() (Result, error)
}
