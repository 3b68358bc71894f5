package config

import "candela.dev/candela/clock"

// Testbed describes the machines and links that a test runs on.
type Testbed struct {
	Name      string
	Kind      string // KindVirtual, KindNetns or KindLab
	Requester Link
	Responder Link
	Switch    Switch
	Mirror    Mirror
	Dumpers   []Dumper
	Live      *Live             // nil if the testbed is virtual
	Injector  *ExternalInjector // of a lab with a third-party switch
	VM        *VM               // of virtual machines; nil: with every default

	TimeoutFloor *int // least exponent of a local ACK timeout; nil: that of the kind, see Floor
	TimeoutScale *int // factor for times; nil: as the floor requires

	positions positions
}

// Link connects a host and the switch.
type Link struct {
	Rate        clock.BitRate
	Propagation clock.Duration // one way
}

// Drivers of the switch between the hosts.
const (
	DriverP4Runtime = "p4runtime" // the switch is an injector
	DriverNone      = "none"      // no injector: a machine of the lab is the switch under test
)

// HasInjector reports whether the testbed can run NIC tests.
func (t *Testbed) HasInjector() bool { return t.Switch.Driver != DriverNone }

// Switch is the injector between the hosts.
type Switch struct {
	Driver       string         // DriverP4Runtime (the default if empty) or DriverNone
	Latency      clock.Duration // from the last bit in to the first bit out of an idle port
	EgressBuffer int            // buffer of an egress port in bytes; packets that exceed it are dropped and counted
	MaxFrame     int            // longest Ethernet frame without FCS, in bytes
}

// Mirror holds the options of mirroring to the dumpers.
type Mirror struct {
	Snap int // bytes kept of each copy; 0: all
}

// Dumper is a host that records mirror copies.
type Dumper struct {
	Name       string
	Weight     int // share of the weighted round robin
	Rate       clock.BitRate
	Cores      int
	PPSPerCore int // packets that one core records per second
	Buffer     int // buffer of a core in bytes
}

// Link returns the link of side s.
func (t *Testbed) Link(s Side) Link {
	if s == Responder {
		return t.Responder
	}
	return t.Requester
}
