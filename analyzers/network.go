package analyzers

import (
	"math"
	"slices"

	"candela.dev/candela/clock"
)

// A NetworkView is a SwitchView that also knows the network around the switches: what the test declares, not what
// switches do.
type NetworkView interface {
	SwitchView
	// Network returns the network of all switches, also of those that are not judged.
	Network() *Network
	// Number returns the number of a switch in the network; not ok: it is a NIC.
	Number(sw int) (n int, ok bool)
}

// Network is how switches and hosts are wired, and what routes are to know of it. Switches have the numbers of
// [NetworkView.Number].
type Network struct {
	Peers   [][]int  // by switch and port: the switch at the other end, -1 for a host
	Homes   []Home   // by host
	Failed  [][2]int // pairs of switches whose trunk has failed from the start
	Learned []Learned
	Outages []Outage
	Spread  Spread
	// Routing is Spread as the routes of the network say it, whatever a model of switches does besides.
	Routing Spread
	// Open has trunks, as pairs of switches, by which both may send the other any packet.
	Open [][2]int
	// Deflects says that switches may send packets out of any port to another switch.
	Deflects bool
}

// Home is the port that a host is attached to.
type Home struct{ Switch, Port int }

// Learned is what routes learn of a trunk: from At on they avoid it, or use it again. They are in order of time.
type Learned struct {
	At     clock.Time
	Trunk  [2]int
	OneWay bool // from the first switch to the second
	Failed bool
}

// Outage is a time in which a trunk is out of service. From the start on it is since [Always].
type Outage struct {
	Trunk    [2]int
	From, To clock.Time
}

// Bounds of outages.
const (
	Always  clock.Time = math.MinInt64
	Forever clock.Time = math.MaxInt64
)

// OutOfService reports whether the trunk at a port of a switch is out of service, or fails or returns, at an instant.
func (n *Network) OutOfService(sw, port int, at clock.Time) bool {
	peer := n.Peers[sw][port]
	return slices.ContainsFunc(n.Outages, func(o Outage) bool {
		return o.From <= at && at <= o.To && (o.Trunk == [2]int{sw, peer} || o.Trunk == [2]int{peer, sw})
	})
}

// Spread is how a switch chooses among equally short paths.
type Spread uint8

// Ways to choose: nobody knows how, or hosts do; by a hash of what names a flow, so that each path is as likely; each
// path for as many packets.
const (
	SpreadUnknown Spread = iota
	SpreadFlows
	SpreadPackets
)
