package config

import "candela.dev/candela/clock"

// Testbed describes the machine room of a test: what stands there and how fast it is.
type Testbed struct {
	Name      string
	Kind      string // KindVirtual, KindNetns or KindLab
	Requester Link
	Responder Link
	Switch    Switch
	Mirror    Mirror
	Dumpers   []Dumper
	Live      *Live             // nil if the testbed is virtual
	Injector  *ExternalInjector // of a lab whose switch somebody else runs
	VM        *VM               // of virtual machines; nil: with every default

	TimeoutFloor *int // least exponent of a local ACK timeout; nil: the kind's, see Floor
	TimeoutScale *int // by which times are multiplied; nil: as much as the floor needs

	positions positions
}

// Link joins a host and the switch.
type Link struct {
	Rate        clock.BitRate
	Propagation clock.Duration // one way
}

// What drives the switch between the hosts.
const (
	DriverP4Runtime = "p4runtime" // it is an injector
	DriverNone      = "none"      // there is none: a machine of the lab is the switch under test
)

// HasInjector reports whether tests of NICs can run there.
func (t *Testbed) HasInjector() bool { return t.Switch.Driver != DriverNone }

// Switch is the injector between the hosts.
type Switch struct {
	Driver       string         // DriverP4Runtime, which empty stands for, or DriverNone
	Latency      clock.Duration // from the last bit in to the first bit out of an idle port
	EgressBuffer int            // bytes that wait at most for one egress port; more are dropped and counted
	MaxFrame     int            // longest Ethernet frame without FCS, in bytes
}

// Mirror says how packets are copied to the dumpers.
type Mirror struct {
	Snap int // bytes of each copy that are kept; 0: all
}

// Dumper is one host that records mirror copies.
type Dumper struct {
	Name       string
	Weight     int // share of the weighted round robin
	Rate       clock.BitRate
	Cores      int
	PPSPerCore int // packets that one core records per second
	Buffer     int // bytes that wait at most for one core
}

// Link returns the link of side s.
func (t *Testbed) Link(s Side) Link {
	if s == Responder {
		return t.Responder
	}
	return t.Requester
}
