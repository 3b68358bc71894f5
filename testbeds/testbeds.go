// Package testbeds holds what all testbeds share: the specification of a test's testbed and the records a testbed
// returns. The testbeds are the packages below. Packages above them must not depend on a particular testbed.
package testbeds

import (
	"net/netip"

	"google.golang.org/grpc"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// Sides of a connection, as indices.
const (
	Requester = 0
	Responder = 1
)

// Spec is what a testbed needs to know about a test. It has been validated; testbeds rely on that.
type Spec struct {
	Seed        uint64
	Hosts       [2]Host
	Connections []Connection
	Switch      Switch
	Dumpers     []Dumper

	BarrierSync   bool
	RxDepth       int            // posted receives per QP
	RxRepostDelay clock.Duration // from consuming a receive to reposting it

	Quiesce  clock.Duration // time without a RoCE packet after which traffic counts as ended
	Deadline clock.Duration // of the traffic phase, in testbed time

	External *External // nil: the hosts make the traffic
}

// External says that an application of the user makes the traffic.
type External struct {
	Pause bool           // the application, from its last connection until it is programmed
	Wait  clock.Duration // for its connections
}

// Host is a traffic host.
type Host struct {
	Name    string
	MAC     *packet.MAC // nil: the testbed chooses
	IPs     []netip.Addr
	Profile string
	Bugs    []string

	DCQCNRP            bool // react to CNPs
	DCQCNNP            bool // send CNPs
	MinTimeBetweenCNPs clock.Duration
	CNPPacing          string // per-port, per-destination-ip, per-ip-pair or per-qp
	SlowRestart        bool   // send a CNP with each NAK
	AdaptiveRetrans    bool   // adaptive retransmission timeouts
	TrimReaction       bool   // request what a trimmed header names at once
	TrimDSCP           uint8  // of trimmed headers

	ECN      packet.ECN // of data packets
	DSCP     uint8
	HopLimit uint8

	// Settings are made on a NIC of hardware, in this order, and restored afterwards; a model has none.
	Settings []Setting
	// DCQCNPriority is the priority that DCQCN is switched on or off for, where the NIC has a switch for each.
	DCQCNPriority uint8

	Rate        clock.BitRate
	Propagation clock.Duration // one way, to the switch
}

// Setting is a setting of a NIC and its value, by the names of package agent/nic.
type Setting struct{ Name, Value string }

// Connection is one RC connection and its traffic. Traffic and InitialPSN are indexed by side; a side without messages
// only responds.
type Connection struct {
	IPs         [2]netip.Addr
	Traffic     [2]generator.Traffic
	InitialPSN  [2]*packet.PSN // nil: drawn from the seed
	MTU         int
	AckTimeout  uint8 // exponent; 0: no timer
	RetryCount  uint8
	RNRRetry    uint8
	MinRNRTimer uint8
	MaxRDAtomic int    // outstanding READs and atomics of each side; 0: the host's choice
	FlowLabel   uint32 // of both sides; 0: the host's choice
	SourcePort  uint16 // of UDP, of both sides; 0: the host's choice
}

// Switch is the injector between the hosts.
type Switch struct {
	Latency      clock.Duration // from the last bit in to the first bit out of an idle port
	EgressBuffer int            // bytes that may wait for one egress port; more are dropped and counted
	Snap         int            // bytes kept of each mirror copy; 0: all
}

// Dumper is a host that records mirror copies.
type Dumper struct {
	Name       string
	Weight     int
	Rate       clock.BitRate
	Cores      int
	PPSPerCore int
	Buffer     int // bytes that may wait for one core
}

// Access is the access to the injector.
type Access struct {
	Conn     grpc.ClientConnInterface
	DeviceID uint64
	Target   string // its name in errors
	// Info is the P4Info of the pipeline to run; nil: the base contract. Software targets add actions to it.
	Info *p4.Info
	// DeviceConfig is that pipeline, compiled for the target; empty for the software switch.
	DeviceConfig []byte

	Forwarding []Port   // where hosts are
	Mirrors    []Mirror // where dumpers are
}

// Port maps a host's MAC to its switch port.
type Port struct {
	Number uint16
	MAC    packet.MAC
}

// Mirror is a switch port with a dumper.
type Mirror struct {
	Number uint16
	Weight int
	Name   string
}

// HostCounters are the counters of one host's NIC at one moment, under the vendor's names.
type HostCounters struct {
	Host   string
	Vendor string
	Values []Counter
	// Lacks are the features that the device declares to lack, named as in package generator.
	Lacks []string
}

// Counter is one value.
type Counter struct {
	Name  string
	Value uint64
}

// Cable is a host's record of the frames that passed its cable, in the encoding of package framelog.
type Cable struct {
	Host           string
	Port           uint16 // of the switch
	Sent, Received []byte
	// Ordered reports that frames of different connections kept their order, too.
	Ordered bool
	// Trusted is the reason for a missing record; empty: the record exists.
	Trusted string
}

// Dump is the result of the dumpers.
type Dump struct {
	Shards  []string // names of the pcap files
	Dumpers []DumperCounters
	// Discards are frames that the switch lost towards a host, by port; ports without losses may be left out.
	Discards []PortDiscards
	// TimeDisorder bounds how far stamps of packets from different ports or queues may be out of order; within a port and
	// queue they are in order. 0: the switch stamps in the order of its sequence numbers.
	TimeDisorder clock.Duration
	// HostDelays bound how long each host held frames in this run; hosts without a measurement are left out.
	HostDelays []HostDelay
}

// HostDelay bounds the time of a frame from the switch to a host's software and back, queues included, as measured by
// echoes on the same path during the traffic.
type HostDelay struct {
	Host    string `json:"host"`
	BoundNS int64  `json:"bound_ns"`
	Echoes  uint64 `json:"echoes"`
}

// PortDiscards counts frames dropped at a full output queue of a switch port. The trace shows them as delivered, so a
// run with discards must not be analysed.
type PortDiscards struct {
	Port    uint16 `json:"port"`
	Packets uint64 `json:"packets"`
}

// DumperCounters locate the loss of copies between switch and file.
type DumperCounters struct {
	Name          string `json:"name"`
	Received      uint64 `json:"received"`       // copies that reached the dumper
	Written       uint64 `json:"written"`        // copies in its shards
	Dropped       uint64 `json:"dropped"`        // copies dropped for lack of capacity
	SwitchDropped uint64 `json:"switch_dropped"` // copies that the switch dropped at the port for lack of buffer
	// Foreign are frames between the neighbours on the cable, such as LLDP. They are not copies.
	Foreign uint64 `json:"foreign,omitempty"`
}

// Environment describes every component of a testbed with its properties, in the order to print them.
type Environment struct {
	Testbed    string      `json:"testbed"`
	Components []Component `json:"components"`
}

// Component is one host, switch or dumper.
type Component struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind"` // host, switch, dumper
	Properties []Property `json:"properties"`
}

// Property is one setting as read back, or one parameter of a model.
type Property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
