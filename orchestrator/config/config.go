// Package config reads the description of a test. A file goes through three steps and is never changed afterwards: YAML
// → defaults → validation → [Test]. It is strict: unknown keys, wrong types, values out of range and events that no
// packet can meet are errors, all errors of a file are reported at once, and each names the place, the value, what is
// allowed and why. Nothing is clamped or ignored, because a test tool that does so tests something else than was asked.
//
// The configuration language is declared once, as data. Decoding, the writer of config.yml ([Test.YAML]), the schema
// for editors ([JSONSchema]) and the reference for people ([Reference]) all walk that declaration, so they cannot drift
// apart.
//
// This package is the only one that knows YAML.
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

	// Testbeds are the kinds of testbeds that the test is meant for; empty: all.
	Testbeds []TestbedKind
	// TimeScale is what the test's times were multiplied by for its testbed, see Testbed.TimeoutScale; 0: by nothing. It
	// is no part of the written form, which has the times that the test runs with.
	TimeScale int

	// Point says which point of a sweep the test is; nil: none. It is no part of the written form.
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
	// IgnoresSlowRestart is a property of the profile: no CNP comes with a NAK, even if RoCE.SlowRestart asks for it.
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
	TrimReaction    bool // ask at once for what a trimmed header names
	TrimDSCP        int  // marks trimmed headers
}

// CNPPacing says which CNPs share one pacer.
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

// VerbsBy says what the list of verbs is dealt out to.
type VerbsBy uint8

// Ways of dealing out verbs.
const (
	ByMessage    VerbsBy = iota // message i of every connection uses verb i of the list, cyclically
	ByConnection                // connection i uses verb i of the list, cyclically, for all its messages
)

// String returns the way in the words of the configuration.
func (v VerbsBy) String() string {
	return [...]string{"message", "connection"}[v]
}

// Traffic is what the endpoints exchange and what happens to it on the way.
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
	RNRRetry      int // 7: for ever
	MinRNRTimer   int // IBTA RNR timer code
	InitialPSN    InitialPSN
	ECN           ECN
	DSCP          int
	HopLimit      int
	IterScope     injector.IterScope
	DataEvents    []DataEvent
	ControlEvents []ControlEvent
}

// InitialPSN fixes the first PSN of each side; nil: drawn from the seed.
type InitialPSN struct {
	Requester, Responder *packet.PSN
}

// Of returns what is fixed for side s.
func (i InitialPSN) Of(s Side) *packet.PSN {
	if s == Responder {
		return i.Responder
	}
	return i.Requester
}

// DataEvent is something that happens to a data packet.
type DataEvent struct {
	QPN  int   // connection, from 1
	From Side  // whose requests are numbered
	PSN  int64 // relative, from 1
	Iter uint16
	Type trace.EventType
	Trim *Trim // of a trim, else nil

	Params Params

	Pattern Pattern // nothing in a checked test: patterns are replaced by what they stand for
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
	Value int64  // of times in nanoseconds; a rewritten PSN is relative, from 1
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

// With returns the parameters with one more, or with another value of one.
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

// ControlEvent is something that happens to a control packet.
type ControlEvent struct {
	QPN    int
	From   Side // whose requests the packet belongs to
	Packet packet.Class
	SentBy *Side  // CNPs only: who sends it; nil: the receiver of the first message's data
	PSN    *int64 // relative; nil: addressed by ordinal alone
	Nth    uint16
	Type   trace.EventType
	Params Params

	Pattern Pattern // nothing in a checked test: patterns are replaced by what they stand for
	Origin  Origin
}

// Injector holds options of the event injector.
type Injector struct {
	Snap *int // bytes of each mirror copy that are kept; nil: as the testbed says; 0: all
}

// Hosts returns both hosts, requester first.
func (t *Test) Hosts() [2]*Host { return [2]*Host{&t.Requester, &t.Responder} }

// Host returns the host of side s.
func (t *Test) Host(s Side) *Host { return t.Hosts()[s] }

// TrafficFrom returns the requests that side s posts on the 1-based connection. Unless traffic is bidirectional the
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
	if s == Responder && !tr.Bidirectional {
		g.Messages = 0
	}
	return g
}

// IPs returns the addresses that the 1-based connection uses: the first of each list, or with multi-gid the lists'
// turns.
func (t *Test) IPs(connection int) (requester, responder netip.Addr) {
	i := 0
	if t.Traffic.MultiGID {
		i = connection - 1
	}
	a, b := t.Requester.NIC.IPs, t.Responder.NIC.IPs
	return a[i%len(a)].Addr(), b[i%len(b)].Addr()
}

// Where names the place of a configuration path, such as "drop.yml:14:9: traffic.data-pkt-events[1]". Of a value that
// the file leaves to its default it names the mapping around it.
func (t *Test) Where(path string) string { return t.positions.where(path) }
