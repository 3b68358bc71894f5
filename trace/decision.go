package trace

import "candela.dev/candela/clock"

// DecisionValues is how many values specific to its kind a decision has.
const DecisionValues = 8

// Decision is what a switch reports to have decided about a packet, and in what state. It is the device's claim: judges
// recompute what the taps allow and check the rest for contradictions.
type Decision struct {
	Time      clock.Time
	Switch    int
	Port      int
	Queue     int
	Kind      uint8 // index of the family's DecisionKinds
	Cause     uint8 // index of the kind's Causes
	Packet    uint64
	Flow      uint32
	Rank      uint64
	Size      int32
	Shim      uint8 // bytes of Size that a shim takes, as in SwitchTap
	Occupancy int64 // bytes in the queue before the decision
	Values    [DecisionValues]int64
}

// Outcome is what a decision claims that becomes of the packet.
type Outcome uint8

// Outcomes.
const (
	OutcomeNone    Outcome = iota // nothing yet
	OutcomeQueued                 // it waits in the queue of the decision and leaves by its port
	OutcomeDropped                // it is discarded
)

// DecisionKind declares one kind of decision of a family: its name, its outcome, and its values.
type DecisionKind struct {
	Name    string
	Doc     string
	Outcome Outcome
	Copy    bool // about a copy that the switch has made
	Causes  []string
	Values  []DecisionValue // at most DecisionValues
}

// DecisionValue declares one value.
type DecisionValue struct{ Name, Unit, Doc string }

// Column is the name of a value's column: with its unit, if it has one.
func (v *DecisionValue) Column() string {
	if v.Unit == "" {
		return v.Name
	}
	return v.Name + "_" + v.Unit
}
