// Package testbeds holds what every testbed has in common: the specification of what a test wants to stand there, and
// what a testbed reports. The testbeds themselves are the packages below; nothing above them may know which one it is
// on.
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

// Spec is everything a testbed must know of a test. It was validated before; testbeds rely on it.
type Spec struct {
	Seed        uint64
	Hosts       [2]Host
	Connections []Connection
	Switch      Switch
	Dumpers     []Dumper

	BarrierSync   bool
	RxDepth       int            // posted receives per QP
	RxRepostDelay clock.Duration // from consuming a receive to posting it again

	Quiesce  clock.Duration // without a RoCE packet, after which traffic counts as ended
	Deadline clock.Duration // of the traffic phase, in testbed time
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
	SlowRestart        bool   // send a CNP with a NAK, too
	AdaptiveRetrans    bool   // adaptive retransmission timeouts
	TrimReaction       bool   // ask at once for what a trimmed header names
	TrimDSCP           uint8  // marks trimmed headers

	ECN      packet.ECN // of data packets
	DSCP     uint8
	HopLimit uint8

	Rate        clock.BitRate
	Propagation clock.Duration // one way, to the switch
}

// Connection is one RC connection and what it carries. Traffic and InitialPSN are by side; a side with no messages only
// responds.
type Connection struct {
	IPs         [2]netip.Addr
	Traffic     [2]generator.Traffic
	InitialPSN  [2]*packet.PSN // nil: drawn from the seed
	MTU         int
	AckTimeout  uint8 // exponent; 0: no timer
	RetryCount  uint8
	RNRRetry    uint8
	MinRNRTimer uint8
}

// Switch is the injector between the hosts.
type Switch struct {
	Latency      clock.Duration // from the last bit in to the first bit out of an idle port
	EgressBuffer int            // bytes that wait at most for one egress port; more are dropped and counted
	Snap         int            // bytes kept of each mirror copy; 0: all
}

// Dumper is a host that records mirror copies.
type Dumper struct {
	Name       string
	Weight     int
	Rate       clock.BitRate
	Cores      int
	PPSPerCore int
	Buffer     int // bytes that wait at most for one core
}

// Access says how to reach and use the injector.
type Access struct {
	Conn     grpc.ClientConnInterface
	DeviceID uint64
	Target   string // its name in errors
	// Info is the P4Info of the pipeline that it shall run; nil: the base contract. Software targets add actions to that.
	Info *p4.Info
	// DeviceConfig is that pipeline compiled for the target; the software switch needs none.
	DeviceConfig []byte

	Forwarding []Port   // where hosts are
	Mirrors    []Mirror // where dumpers are
}

// Port says behind which switch port a host's MAC is.
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

// HostCounters are one host's NIC counters at one moment, under the vendor's names.
type HostCounters struct {
	Host   string
	Vendor string
	Values []Counter
	// Lacks are the features that the device declares not to have, as generator names them.
	Lacks []string
}

// Counter is one value.
type Counter struct {
	Name  string
	Value uint64
}

// Cable is what a host has recorded of the frames that passed its cable, in the encoding of package framelog.
type Cable struct {
	Host           string
	Port           uint16 // of the switch
	Sent, Received []byte
	// Ordered says that frames of different connections kept their order, too.
	Ordered bool
	// Trusted says why there is no record; empty: there is one.
	Trusted string
}

// Dump is what the dumpers have at the end.
type Dump struct {
	Shards  []string // names of the pcap files
	Dumpers []DumperCounters
	// Discards are frames that the switch itself lost on the way to a host, by port; ports without any may be left out.
	Discards []PortDiscards
	// TimeDisorder is how far stamps of packets from different ports or queues may be out of order, within a port and
	// queue they never are; 0: the switch stamps in the order of its sequence numbers.
	TimeDisorder clock.Duration
	// HostDelays bound how long each host held frames, in this run; hosts where that was not measured are left out.
	HostDelays []HostDelay
}

// HostDelay bounds the time that a frame took between the switch and a host's software, to it and back, queues
// included. It was measured while the traffic ran, by echoes that went the same way.
type HostDelay struct {
	Host    string `json:"host"`
	BoundNS int64  `json:"bound_ns"`
	Echoes  uint64 `json:"echoes"`
}

// PortDiscards counts frames that found the output queue of a switch port full. The trace shows them as delivered, so a
// run with discards must not be analysed.
type PortDiscards struct {
	Port    uint16 `json:"port"`
	Packets uint64 `json:"packets"`
}

// DumperCounters tell where copies were lost on the way from switch to file.
type DumperCounters struct {
	Name          string `json:"name"`
	Received      uint64 `json:"received"`       // copies that reached the dumper
	Written       uint64 `json:"written"`        // copies in its shards
	Dropped       uint64 `json:"dropped"`        // copies that it had no capacity for
	SwitchDropped uint64 `json:"switch_dropped"` // copies that the switch had no room for on the port
	// Foreign are frames of the cable's other end for its neighbour, such as LLDP: they are no copies, and none is missing
	// for them.
	Foreign uint64 `json:"foreign,omitempty"`
}

// Environment describes what a test ran on: every component with its properties, in the order to print them.
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
