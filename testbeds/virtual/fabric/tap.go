package fabric

import "candela.dev/candela/clock"

// Stage is where in a node a packet is seen.
type Stage uint8

// Stages.
const (
	Ingress Stage = 1 + iota // has arrived, nothing done to it yet
	Egress                   // is leaving: its first bit goes onto the wire
	Dropped                  // is being discarded
)

// String returns the stage in lower case.
func (s Stage) String() string { return [...]string{"unset", "ingress", "egress", "dropped"}[s] }

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
