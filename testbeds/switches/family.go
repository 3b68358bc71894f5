// Package switches describes a family of switches under test. A family has a folder here for its models, a folder in
// analyzers for its judge, and a line in the registry of package switchtest. Everything else reads these declarations.
package switches

import (
	"io"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Model is a switch under test as named in test files.
type Model struct {
	parameter.Model // parameters, and seeded bugs with the rules that must catch them
	// Configure gives every switch of a network the queues, scheduler and recirculation ports that the model needs.
	Configure func(v parameter.Values, s *fabric.SwitchSpec) error
	// New returns the mechanism of one switch.
	New func(sw *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error)
	// NIC gives the hosts' NICs queues and a mechanism of the family; nil: none. Judges treat a NIC as a switch with one
	// port.
	NIC func(v parameter.Values, bugs []string, s *fabric.NICSpec) error
	// Shim returns the family's layer between the stack and the NIC of a host; nil, or a nil result: none.
	Shim func(h *fabric.Host, v parameter.Values, bugs []string) (fabric.Shim, error)
	// NoNIC is the reason why `hosts: {nic: …}` can't name the model. If empty, it can, unless the model recirculates
	// packets or has NICs or shims of its own.
	NoNIC string
	// Ranks reports that the mechanism or the shim gives every packet a rank; otherwise hosts may (rank of the workload).
	Ranks bool
	// NeedsRanks reports that the mechanism reads the rank of every packet. Queues by rank need them in any case.
	NeedsRanks bool
	// ByBytes reports that the shim makes marks of the rank `remaining`, so that flows may have no other.
	ByBytes bool
	// Weighs reports that the mechanism shares by the weights of flows (fabric.Switch.Weight), of at least WeighsFrom; 0:
	// LeastWeight.
	Weighs     bool
	WeighsFrom int64
	// OwnQueues reports that parameters of the model describe its queues, buffer and scheduler. Otherwise every model has
	// queues, buffer-bytes and what belongs to them: its first queue of a port is that of data, of which there may be
	// several; others keep their own memory.
	OwnQueues bool
	// Holds reports that ports may let packets wait although their links are free; nil: they never do.
	Holds func(v parameter.Values) bool
	// Distort makes the switches differ from what the test declares, for seeded bugs of queues, buffers and schedulers.
	Distort func(bugs []string, s *fabric.SwitchSpec)
	// Check returns settings with which the model cannot do its task, although each is allowed by itself; nil: there are
	// none. ports is the largest number of ports of a switch.
	Check func(v parameter.Values, ports int, offered []Frames) []Problem
	// Pairs returns a setting with which two switches cannot be a pair (topology standby), and nil if they can; nil: they
	// never can. Mechanisms of a pair are Standby.
	Pairs func(v parameter.Values) *Problem
	// Outages returns a setting with which a switch cannot be correct after it has returned without its state, or its
	// backup after it has taken over; nil, or a nil result: there is none.
	Outages func(v parameter.Values) *Problem
	// Locks says whether switches manage locks.
	Locks Locks
}

// Locks is where the hosts of a lock manager have to be for its switch.
type Locks int8

// Kinds of lock switches.
const (
	NoLocks            Locks = iota // they manage none
	LocksAlone                      // all clients are attached to the switch
	LocksBesideServers              // lock servers, too; a pair is between clients and servers
)

// LeastWeight is the least weight of a flow that mechanisms share by: what it is served, over its weight, has to fit in
// an integer.
const LeastWeight = fabric.WeightUnit / 100

// Frames are the data packets of an item of the workload.
type Frames struct {
	Item     int    // of the workload, from 0
	What     string // kind of the item: incast
	Size     int    // bytes of the largest
	DSCP     int
	Reliable bool // the transport retransmits what does not arrive
}

// Problem is a parameter that cannot have its value.
type Problem struct {
	Key  string // such as watermark-bytes or profiles[0].limit-bytes
	What string // what is wrong
	Why  string // what is needed
}

// Family is a set of models that share a judge, reasons, decisions and counters.
type Family struct {
	Name   string
	Models []Model
	// Reasons are the family's own drop reasons; the first is fabric.ReasonOwn.
	Reasons []analyzers.DropReason
	// Makes reports that its mechanisms send packets of their own (fabric.Switch.Make). If the family has decisions, each
	// such packet has one.
	Makes bool
	// Deflects reports that its mechanisms may send any packet out of a port to another switch, on a shortest path or not.
	Deflects bool
	// Deflected returns how many packets the mechanism of a switch has deflected since it started; nil: none does.
	Deflected func(sw *fabric.Switch) int64
	// Closed reports that its judge takes no packets of an option of every switch model, such as Bolt's SRC: it does not
	// judge tests with such an option.
	Closed bool
	// RecordsMade reports that its mechanisms record the packets of such an option, so that with decision records its
	// judge takes them.
	RecordsMade bool
	// NICs reports that its judge also judges the hosts' NICs: switches with one port that leave the TTL unchanged.
	NICs bool
	// Decisions are the decisions that its mechanisms record; none: judges have only the taps.
	Decisions []trace.DecisionKind
	// Counters adds a mechanism's counters beyond those of the fabric. The caller adds the switch's name.
	Counters func(sw *fabric.Switch, add func(name string, n int64)) error
	// HostCounters adds those of the family's shim; nil, or a host without one: none. The caller adds the host's name.
	HostCounters func(h *fabric.Host, add func(name string, n int64)) error
	// Settings and Snapshot return a switch's settings and counters in the vocabulary of the family's judge; nil: the
	// judge needs neither.
	Settings func(v parameter.Values, ports int) (any, error)
	Snapshot func(sw *fabric.Switch) (any, error)
	// Show writes the counters of the switch in a slot, from 1, as `show queuing interface` does; nil: nothing does.
	Show func(sw *fabric.Switch, slot int, w io.Writer) error
	// Metrics are the distributions that the family's judge measures, for expectations and reports.
	Metrics []Metric
}

// Metric is a distribution measured by the family's judge.
type Metric struct {
	Name  string // in test files, such as trim-latency-us
	Of    string // in the analysis, such as sai.trim-latency
	Doc   string
	Scale float64 // divisor of the analysis's values
	Head  string  // heading of its mean in tables of many runs; empty: no column
}

// Changer is a mechanism whose parameters can change while it runs. set has the changed parameters, all has every
// parameter with its new value.
type Changer interface {
	Change(set, all parameter.Values) error
}

// Standby is a mechanism of a pair of switches. It is told what becomes of the original between calls of Run.
type Standby interface {
	// TakeOver tells the backup that the original has failed: packets come to the backup from now on.
	TakeOver(now clock.Time, sw *fabric.Switch)
	// Return tells an original that has started again that the backup has taken over.
	Return(now clock.Time)
}

// MaxReasons is how many reasons of its own a family may have.
const MaxReasons = int(fabric.LeastOutage - fabric.ReasonOwn)

// Reason returns the drop reason r of the fabric or of the family. The name is empty if r is unknown.
func (f *Family) Reason(r fabric.Reason) analyzers.DropReason {
	if i := int(r) - int(fabric.ReasonOwn); i >= 0 && i < len(f.Reasons) {
		return f.Reasons[i]
	}
	return analyzers.DropReason{Name: r.Name(), Outage: r.Outage(), Unseen: r.Unseen(), Decided: r == fabric.ReasonTail ||
		r == fabric.ReasonEarly}
}

// Model returns the model of a name.
func (f *Family) Model(name string) (Model, bool) {
	i := slices.IndexFunc(f.Models, func(m Model) bool { return m.Name == name })
	if i < 0 {
		return Model{}, false
	}
	return f.Models[i], true
}
