// Package config reads the description of a test. A file passes through three steps: YAML → defaults → validation. The
// result, a [Test], never changes afterwards.
//
// The package is strict. Errors are unknown keys, wrong types, values out of range, and events that match no packet.
// All errors of a file are reported at once; each names the place, the value, the allowed values and the reason.
// Nothing is clamped or ignored, because the tool would then run a different test than the one requested.
//
// The configuration language is declared once, as data. Decoding, the writer of config.yml ([Test.YAML]), the schema
// for editors ([JSONSchema]) and the reference for people ([Reference]) all use that declaration, so they always agree.
//
// No other package depends on YAML.
package config

import (
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Test is one validated test with every default made explicit. Treat it as immutable; copies share slices.
type Test struct {
	Name        string
	Metadata    *Metadata // nil: none
	TestbedFile string    // as written: a path, or "virtual" for the embedded description
	Seed        uint64
	Requester   Host
	Responder   Host
	Traffic     Traffic
	Injector    Injector
	Expect      Expect
	Compare     Compare
	Deadline    clock.Duration // of the whole run, in testbed time

	// Testbeds are the kinds of testbeds that the test may run on; empty: all.
	Testbeds []TestbedKind
	// TimeScale is the factor applied to the test's times for its testbed, see Testbed.TimeoutScale; 0: none. It is not
	// written, as the written times are already scaled.
	TimeScale int

	// Point is the test's point of a sweep; nil: none. It is not written.
	Point *Point

	// Testbed is the description that TestbedFile or [Options].Testbed names, checked together with the test.
	Testbed *Testbed

	positions positions
}

// Side names one of the two hosts.
type Side uint8

// Sides.
const (
	Requester Side = iota
	Responder
)

// String returns the side in the words of the configuration.
func (s Side) String() string {
	if s == Responder {
		return "responder"
	}
	return "requester"
}

// Peer returns the other side.
func (s Side) Peer() Side { return 1 - s }

// Host is one traffic host.
type Host struct {
	NIC  NIC
	RoCE RoCE
}

// NIC is a host's network adapter.
type NIC struct {
	Profile string         // name of the model
	Bugs    []string       // seeded bugs of the model, for tests of the harness itself
	IPs     []netip.Prefix // address with the length of its subnet
	MAC     *packet.MAC    // nil: the testbed chooses one
	// Settings are made on a NIC of hardware and restored afterwards.
	Settings NICSettings
	// IgnoresSlowRestart is a property of the profile: the NIC never sends a CNP with a NAK, even if RoCE.SlowRestart is
	// set.
	IgnoresSlowRestart bool
}

// RoCE holds a host's transport parameters. Defaults are those of the NIC's profile.
type RoCE struct {
	DCQCNRP         bool           // react to CNPs (reaction point)
	DCQCNNP         bool           // send CNPs for CE-marked packets (notification point)
	MinTimeBetween  clock.Duration // between CNPs of one pacing group
	Pacing          CNPPacing
	AdaptiveRetrans bool
	SlowRestart     bool // also send a CNP with a NAK
	TrimReaction    bool // request missing data immediately after a trimmed header
	TrimDSCP        int  // DSCP of trimmed headers
}

// CNPPacing is the set of CNPs that share one pacer.
type CNPPacing uint8

// Pacing modes (Lumina, section 5.4).
const (
	PerPort CNPPacing = iota
	PerDestinationIP
	PerIPPair
	PerQP
)

// String returns the mode in the words of the configuration.
func (p CNPPacing) String() string {
	return [...]string{"per-port", "per-destination-ip", "per-ip-pair", "per-qp"}[p]
}

// ECN is the codepoint that endpoints put on data packets.
type ECN packet.ECN

// String returns the codepoint in the words of the configuration.
func (e ECN) String() string {
	return [...]string{"not-ect", "ect1", "ect0", "ce"}[e&3]
}

// VerbsBy is the unit that verbs of the list are assigned to.
type VerbsBy uint8

// Assignments of verbs.
const (
	ByMessage    VerbsBy = iota // message i of every connection uses verb i of the list, cyclically
	ByConnection                // connection i uses verb i of the list, cyclically, for all its messages
)

// String returns the assignment in the words of the configuration.
func (v VerbsBy) String() string {
	return [...]string{"message", "connection"}[v]
}

// Traffic is what the endpoints exchange, and the events that happen to it.
type Traffic struct {
	Connections   int
	Verbs         []generator.Verb
	VerbsBy       VerbsBy
	Messages      int // per connection and direction
	MessageSize   int // bytes
	MTU           int // path MTU: payload bytes of a packet
	MultiGID      bool
	BarrierSync   bool
	Bidirectional bool
	StaleRKey     bool
	TxDepth       int // outstanding work requests per QP
	RxDepth       int // posted receives per QP
	RxRepostDelay clock.Duration
	AckTimeout    int // IBTA local ACK timeout exponent; 0: no timer
	RetryCount    int
	RNRRetry      int // 7: unlimited
	MinRNRTimer   int // IBTA RNR timer code
	InitialPSN    InitialPSN
	ECN           ECN
	DSCP          int
	HopLimit      int
	FlowLabels    []int // dealt out to the connections; empty: the hosts choose
	SourcePorts   []int // of UDP, dealt out to the connections; empty: the hosts choose
	MaxRDAtomic   int   // outstanding READs and atomics of each queue pair; 0: 16, or what the device has
	IterScope     injector.IterScope
	DataEvents    []DataEvent
	ControlEvents []ControlEvent
	External      *External // nil: the generator makes the traffic
}

// FlowLabelOf returns the flow label of the 1-based connection; 0: the hosts choose.
func (t *Traffic) FlowLabelOf(connection int) int { return dealt(t.FlowLabels, connection) }

// SourcePortOf returns the UDP source port of the 1-based connection; 0: the hosts choose.
func (t *Traffic) SourcePortOf(connection int) int { return dealt(t.SourcePorts, connection) }

func dealt(list []int, connection int) int {
	if len(list) == 0 {
		return 0
	}
	return list[(connection-1)%len(list)]
}

// InitialPSN fixes the first PSN of each side; nil: drawn from the seed.
type InitialPSN struct {
	Requester, Responder *packet.PSN
}

// Of returns the first PSN of side s, nil if it is drawn.
func (i InitialPSN) Of(s Side) *packet.PSN {
	if s == Responder {
		return i.Responder
	}
	return i.Requester
}

// DataEvent is an event on a data packet.
type DataEvent struct {
	QPN  int   // connection, from 1
	From Side  // whose requests are numbered
	PSN  int64 // relative, from 1
	Iter uint16
	Type trace.EventType
	Trim *Trim // parameters of a trim; nil for other types

	Params Params

	Pattern Pattern // zero in a checked test: patterns are expanded to single events
	Origin  Origin
}

// Trim holds the parameters of a trim.
type Trim struct {
	Size            int    // bytes kept, from the start of the IP header
	DSCP            *uint8 // mark of the trimmed packet; nil: unchanged
	UpdateIPLength  bool
	UpdateUDPLength bool
}

// A Param is a parameter of an event's action.
type Param struct {
	Key   string // as [trace.Actions] declares it
	Value int64  // times are in nanoseconds; a rewritten PSN is relative, from 1
}

// Params are the parameters of an event's action that have keys of their own, in the order of [trace.Actions].
type Params []Param

// Get returns the parameter with a key.
func (p Params) Get(key string) (v int64, ok bool) {
	for _, x := range p {
		if x.Key == key {
			return x.Value, true
		}
	}
	return 0, false
}

// With returns the parameters with key set to v.
func (p Params) With(key string, v int64) Params {
	var out Params
	forParams(func(_ *trace.Action, d *trace.ActionParam) {
		if d.Key == key {
			out = append(out, Param{key, v})
		} else if old, ok := p.Get(d.Key); ok {
			out = append(out, Param{d.Key, old})
		}
	})
	return out
}

// ControlEvent is an event on a control packet.
type ControlEvent struct {
	QPN    int
	From   Side // whose requests the packet belongs to
	Packet packet.Class
	SentBy *Side  // CNPs only: the sender; nil: the receiver of the first message's data
	PSN    *int64 // relative; nil: selected by ordinal alone
	Nth    uint16
	Type   trace.EventType
	Params Params

	Pattern Pattern // zero in a checked test: patterns are expanded to single events
	Origin  Origin
}

// Injector holds options of the event injector.
type Injector struct {
	Snap *int // bytes kept of each mirror copy; nil: the testbed's; 0: all
}

// Hosts returns both hosts, requester first.
func (t *Test) Hosts() [2]*Host { return [2]*Host{&t.Requester, &t.Responder} }

// Host returns the host of side s.
func (t *Test) Host(s Side) *Host { return t.Hosts()[s] }

// TrafficFrom returns the requests that side s posts on the 1-based connection. Unless traffic is bidirectional, the
// responder posts none: Messages is 0.
func (t *Test) TrafficFrom(s Side, connection int) generator.Traffic {
	tr := &t.Traffic
	g := generator.Traffic{
		Verbs: tr.Verbs, Messages: tr.Messages, MessageSize: tr.MessageSize, MTU: tr.MTU, TxDepth: tr.TxDepth,
		StaleRKey: tr.StaleRKey,
	}
	if tr.VerbsBy == ByConnection {
		i := (connection - 1) % len(tr.Verbs)
		g.Verbs = tr.Verbs[i : i+1 : i+1]
	}
	if tr.External != nil {
		g = tr.external(g)
	}
	if s == Responder && !tr.Bidirectional {
		g.Messages = 0
	}
	return g
}

// IPs returns the addresses of the 1-based connection: the first of each list or, with multi-gid, the lists in
// rotation.
func (t *Test) IPs(connection int) (requester, responder netip.Addr) {
	i := 0
	if t.Traffic.MultiGID {
		i = connection - 1
	}
	a, b := t.Requester.NIC.IPs, t.Responder.NIC.IPs
	return a[i%len(a)].Addr(), b[i%len(b)].Addr()
}

// Where returns the place of a configuration path, such as "drop.yml:14:9: traffic.data-pkt-events[1]". For a value
// that the file does not give, it returns the place of the enclosing mapping.
func (t *Test) Where(path string) string { return t.positions.where(path) }
