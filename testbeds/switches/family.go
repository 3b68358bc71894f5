// Package switches says what a family of switches under test is. A family has a folder beside this file for its models
// and one in analyzers for its judge, and is one line in the registry of package switchtest; everything else walks what
// it declares here.
package switches

import (
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Model is a switch under test as test files name it.
type Model struct {
	parameter.Model // parameters, and seeded bugs with the rules that must catch them
	// Configure gives every switch of a network the queues, scheduler and recirculation ports that the model needs.
	Configure func(v parameter.Values, s *fabric.SwitchSpec) error
	// New returns the mechanism of one switch.
	New func(sw *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error)
	// NIC gives the NICs of hosts queues and a mechanism of the family; nil: they have none. Judges see a NIC as a switch
	// with one port.
	NIC func(v parameter.Values, bugs []string, s *fabric.NICSpec) error
	// Shim returns what the family puts between the stack and the NIC of a host; nil, or a nil result: nothing.
	Shim func(h *fabric.Host, v parameter.Values, bugs []string) (fabric.Shim, error)
	// NoNIC says why `hosts: {nic: …}` can't name the model; empty: it can, unless it recirculates packets or has NICs or
	// shims of its own.
	NoNIC string
	// Ranks says that the mechanism or the shim gives every packet a rank.
	Ranks bool
}

// Family is models that share a judge, reasons, decisions and counters.
type Family struct {
	Name   string
	Models []Model
	// Reasons are those of the family's own drops: the first is fabric.ReasonOwn, and so on.
	Reasons []analyzers.DropReason
	// Makes says that its mechanisms send packets of their own (fabric.Switch.Make). If the family has decisions, one of
	// them is about each.
	Makes bool
	// NICs says that its judge judges the NICs of hosts as well: switches with one port, by which packets go in and out
	// with their TTL unchanged.
	NICs bool
	// Decisions are what its mechanisms record; none: the taps are all that judges have.
	Decisions []trace.DecisionKind
	// Counters adds what a mechanism counts beyond the fabric: names are completed by that of the switch.
	Counters func(sw *fabric.Switch, add func(name string, n int64)) error
	// Settings and Snapshot return what a switch is set to and what it counts, in the vocabulary of the family's judge;
	// nil: it asks for neither.
	Settings func(v parameter.Values, ports int) (any, error)
	Snapshot func(sw *fabric.Switch) (any, error)
	// Metrics are distributions that the family's judge measures, for expectations and reports.
	Metrics []Metric
}

// Metric is a distribution of the family's judge.
type Metric struct {
	Name  string // of test files, such as trim-latency-us
	Of    string // of the analysis, such as sai.trim-latency
	Doc   string
	Scale float64 // by which values of the analysis are divided
	Head  string  // of the column of its mean in tables of many runs; empty: none
}

// Changer is a mechanism whose parameters can be changed while it runs: set has those that change, all has every one as
// it is from then on.
type Changer interface {
	Change(set, all parameter.Values) error
}

// MaxReasons is how many reasons of its own a family may have.
const MaxReasons = int(fabric.ReasonStopped - fabric.ReasonOwn)

// Reason returns what a reason of drops is called: the fabric's, or one of the family's. The name is empty if neither
// has it.
func (f *Family) Reason(r fabric.Reason) analyzers.DropReason {
	if i := int(r) - int(fabric.ReasonOwn); i >= 0 && i < len(f.Reasons) {
		return f.Reasons[i]
	}
	return analyzers.DropReason{Name: r.Name(), Outage: r == fabric.ReasonStopped, Decided: r == fabric.ReasonTail ||
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
