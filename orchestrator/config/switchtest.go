package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// SwitchTest is one validated test of a switch, with every default made explicit: the second kind of test file,
// recognised by its key switch-under-test. Treat it as immutable. Hosts, ports, queues and switches count from 0, flows
// from 1.
type SwitchTest struct {
	Name         string
	Metadata     *Metadata // nil: none
	TopologyFile string    // as written: a testbed description with a topology; empty: the test has its own
	Topology     Topology
	Seed         uint64
	Switch       Modelled
	Hosts        Hosts
	Workload     []Workload
	Changes      []Change
	Duration     clock.Duration // traffic stops and the run ends here; 0: when every flow has finished
	Deadline     clock.Duration // of the whole run, in simulated time
	Taps         Taps
	Results      Results
	Judge        *Judging       // never nil once the test is checked
	SizeClasses  []int64        // edges between classes of flow sizes, in bytes, in order
	queues       *status        // how they are measured; never nil once the test is checked
	Series       clock.Duration // between two samples of the time series; 0: none
	Expect       SwitchExpect

	// Point says which point of a sweep the test is; nil: none. It is no part of the written form.
	Point *Point

	positions positions
	open      workload.Open // files that the workload names
}

// Modelled is something that has a model with parameters.
type Modelled struct {
	Model  string
	Values parameter.Values
	Bugs   []string // seeded bugs, for tests of the harness itself
}

// Hosts is how hosts send and receive: a transport, and what its packets meet between it and the wire.
type Hosts struct {
	Modelled
	NIC *HostNIC // nil: NICs have no queues
}

// HostNIC gives the NIC of every host the queues and the mechanism of a switch's model.
type HostNIC struct {
	Modelled
	Backlog   int // packets that the transport may have at its NIC
	DropBurst int // packets that may be dropped at one instant
}

// Topology is how hosts and switches are wired.
type Topology struct {
	Modelled            // kind, with hosts, leaves, spines … as its parameters
	Link     LinkSpec   // between a host and its switch
	Trunk    LinkSpec   // between switches
	Links    []HostLink // hosts with a link of their own
	Trunks   []Trunk    // links between switches that differ from the others
	reroute  *clock.Duration
}

// Pair reports whether the topology has an original switch and a backup.
func (t *Topology) Pair() bool { return t.Model == string(fabric.Standby) }

// Reroute returns how long after a trunk, or the original of a pair, fails or comes back routes follow.
func (t *Topology) Reroute() clock.Duration {
	if t.reroute == nil {
		return 0
	}
	return *t.reroute
}

// LinkSpec is a cable.
type LinkSpec struct {
	Rate    clock.BitRate
	Delay   clock.Duration // propagation, one way
	Framing int            // bytes that the link adds to each frame
}

// HostLink overrides the link of one host.
type HostLink struct {
	Host  int
	Rate  *clock.BitRate
	Delay *clock.Duration
}

// Trunk overrides the link between two switches.
type Trunk struct {
	From, To string // switches
	Rate     *clock.BitRate
	Delay    *clock.Duration
	Failed   bool
}

// TrunkChange is what becomes of the link between two switches. Nil: that stays.
type TrunkChange struct {
	From, To string
	Rate     *clock.BitRate
	Delay    *clock.Duration
	Failed   *bool
}

// Joins is [Trunk.Joins].
func (t *TrunkChange) Joins(a, b string) bool {
	return t.From == a && t.To == b || t.From == b && t.To == a
}

// apply changes a link.
func (t *TrunkChange) apply(l *LinkSpec, failed *bool) {
	if t.Rate != nil {
		l.Rate = *t.Rate
	}
	if t.Delay != nil {
		l.Delay = *t.Delay
	}
	if t.Failed != nil {
		*failed = *t.Failed
	}
}

// String says what becomes of the trunk.
func (t *TrunkChange) String() string {
	var list []string
	if t.Failed != nil {
		list = append(list, map[bool]string{true: "fails", false: "comes back"}[*t.Failed])
	}
	if t.Rate != nil {
		list = append(list, fmt.Sprintf("gets %g Gb/s", float64(*t.Rate)/float64(clock.Gbps)))
	}
	if t.Delay != nil {
		list = append(list, fmt.Sprintf("gets a delay of %s", *t.Delay))
	}
	return fmt.Sprintf("the trunk between %s and %s %s", t.From, t.To, strings.Join(list, " and "))
}

// Joins reports whether the trunk is between two switches, in either order.
func (t *Trunk) Joins(a, b string) bool { return t.From == a && t.To == b || t.From == b && t.To == a }

// TrunkBetween returns the link between two switches, and whether it has failed.
func (t *Topology) TrunkBetween(a, b string) (l LinkSpec, failed bool) {
	l = t.Trunk
	for i := range t.Trunks {
		o := &t.Trunks[i]
		if !o.Joins(a, b) {
			continue
		}
		if o.Rate != nil {
			l.Rate = *o.Rate
		}
		if o.Delay != nil {
			l.Delay = *o.Delay
		}
		failed = failed || o.Failed
	}
	return l, failed
}

// Workload is one item of the workload.
type Workload struct {
	Kind   string           // as package workload has it
	Values parameter.Values // of the kind's parameters
	Offer  Offer
}

// Offer is what the kinds of workload have in common: how much each flow sends, when, and how its packets look.
type Offer struct {
	Packets    *int64
	Bytes      *int64 // neither: until the end of the test
	PacketSize *int   // bytes of a whole frame; nil: as hosts has it
	Rate       *clock.BitRate
	Start      clock.Duration
	Stop       *clock.Duration // of each flow, after its start; nil: it does not leave
	Stagger    clock.Duration  // from one flow of the item to the next
	DSCP       int
	Class      *int   // traffic class; nil: by the switch's map from DSCP
	IP         int    // 4 or 6
	Tenant     *int   // whose flows these are; nil: nobody's
	Weight     *int64 // beside others, in millionths; nil: 1
	Deadline   *clock.Duration
	Rank       *wire.Ranking // of packets; nil: none
	Transport  string
}

// WeightUnit is Offer.Weight of 1.
const WeightUnit = 1_000_000

// Change is something that is set while traffic runs.
type Change struct {
	At     clock.Duration
	Switch *int             // number of the switch; nil: every one that is under test
	Set    parameter.Values // those that are set; none if the change is one of state
	state  *status          // stopped or running
	Trunk  *TrunkChange     // nil: the change is one of switches
}

// States of switches.
const (
	Stopped = "stopped"
	Running = "running"
)

// State returns the state that the switch takes, Stopped or Running; empty: it stays as it is.
func (c *Change) State() string {
	if c.state == nil {
		return ""
	}
	return string(*c.state)
}

// Taps says what is recorded.
type Taps struct {
	Capture   bool    // pcap files before and after the switch under test
	decisions *status // csv or json
}

// Decisions returns the format of decision records; empty: none are kept.
func (t *Taps) Decisions() string {
	return wordOf(t.decisions)
}

// Results says which results are written as tables.
type Results struct {
	flows, queues, metrics, deflections *status // csv or parquet
}

// Flows returns the format of the table of flows; empty: none is written.
func (r *Results) Flows() string { return wordOf(r.flows) }

// Queues returns the same of queues.
func (r *Results) Queues() string { return wordOf(r.queues) }

// Metrics returns the same of metrics.
func (r *Results) Metrics() string { return wordOf(r.metrics) }

// Deflections returns the same of deflections over time.
func (r *Results) Deflections() string { return wordOf(r.deflections) }

func wordOf(s *status) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// SwitchExpect is what the author of a switch test expects. An analyzer that it doesn't mention is expected to pass.
type SwitchExpect struct {
	Analyzers []AnalyzerExpect
	Metrics   []MetricExpect
	Flows     []FlowExpect
	Counters  []CounterExpect
	Relations []Relation
	Baseline  BaselineExpect
}

// AnalyzerExpect is what is expected of one analyzer.
type AnalyzerExpect struct {
	Name string
	Judgement
}

// Limit bounds a number, in millionths of the metric's unit. Nil: no limit on that side.
type Limit struct{ Min, Max *int64 }

// MetricUnit is how many steps of a Limit make one unit of the metric.
const MetricUnit = 1_000_000

// MetricExpect bounds a metric: every value of it, or a quantity of its distribution.
type MetricExpect struct {
	Name           string
	Each           Limit
	Mean, P50, P99 *Limit
	Count          *int64

	place int // of the metric in documents
}

// FlowExpect is what is expected of some flows only.
type FlowExpect struct {
	Flows   Numbers
	Metrics []MetricExpect
}

// Of returns what is expected of an analyzer.
func (e *SwitchExpect) Of(analyzer string) Judgement {
	for i := range e.Analyzers {
		if e.Analyzers[i].Name == analyzer {
			return e.Analyzers[i].Judgement
		}
	}
	return Judgement{}
}

// Spec describes the shape to the fabric, without links; an unknown shape has no hosts.
func (t *Topology) Spec() fabric.TopologySpec {
	spec := fabric.TopologySpec{Kind: fabric.TopologyKind(t.Model)}
	if shape := fabric.ShapeOf(spec.Kind); shape != nil {
		shape.Describe(t.Values, &spec)
	}
	return spec
}

// HostCount returns how many hosts the topology has.
func (t *Topology) HostCount() int { return t.Spec().Hosts }

// SwitchCount returns how many switches the topology has.
func (t *Topology) SwitchCount() int {
	spec := t.Spec()
	if shape := fabric.ShapeOf(spec.Kind); shape != nil {
		return shape.Switches(&spec)
	}
	return 0
}

// Scope is what the flows of an item of the workload depend on besides its parameters.
func (t *SwitchTest) Scope(item int) workload.Scope {
	spec := t.Topology.Spec()
	in := workload.Scope{Hosts: spec.Hosts, Seed: t.Seed, Item: item, Rack: spec.Hosts, Open: t.open}
	for h := range spec.Hosts {
		in.Access += float64(t.Topology.HostLinkOf(h).Rate)
	}
	switch spec.Kind {
	case fabric.LeafSpine:
		in.Rack = spec.Hosts / max(spec.Leaves, 1)
		for _, l := range spec.Trunks() {
			if trunk, failed := t.Topology.TrunkBetween(l.A, l.B); !failed {
				in.Fabric += float64(trunk.Rate)
			}
		}
	case fabric.FatTree:
		in.Rack = spec.K / 2
		in.Fabric = float64(spec.Hosts) * float64(t.Topology.Trunk.Rate)
	case fabric.Dumbbell:
		in.Rack = spec.Hosts / 2
	case fabric.SingleSwitch, fabric.Standby:
	}
	return in
}

// HostLinkOf returns the link of a host.
func (t *Topology) HostLinkOf(host int) LinkSpec {
	l := t.Link
	for _, o := range t.Links {
		if o.Host == host {
			if o.Rate != nil {
				l.Rate = *o.Rate
			}
			if o.Delay != nil {
				l.Delay = *o.Delay
			}
		}
	}
	return l
}

// TrunkState is a link between two switches from an instant on.
type TrunkState struct {
	LinkSpec
	Failed bool
	Since  clock.Duration
}

// TrunkStates returns what the link between two switches is from the start, and after each of its changes.
func (t *SwitchTest) TrunkStates(a, b string) []TrunkState {
	var now TrunkState
	now.LinkSpec, now.Failed = t.Topology.TrunkBetween(a, b)
	states := []TrunkState{now}
	for _, i := range t.inOrder() {
		if c := &t.Changes[i]; c.Trunk != nil && c.Trunk.Joins(a, b) {
			c.Trunk.apply(&now.LinkSpec, &now.Failed)
			now.Since = c.At
			states = append(states, now)
		}
	}
	return states
}

// Outline returns which trunks have failed from the start, and after each change.
func (t *SwitchTest) Outline() []map[fabric.Trunk]bool {
	failed := make(map[fabric.Trunk]bool)
	spec := t.Topology.Spec()
	trunks := spec.Trunks()
	set := func(of interface{ Joins(a, b string) bool }, state bool) {
		if i := slices.IndexFunc(trunks, func(l fabric.Trunk) bool { return of.Joins(l.A, l.B) }); i >= 0 && state {
			failed[trunks[i]] = true
		} else if i >= 0 {
			delete(failed, trunks[i])
		}
	}
	for i := range t.Topology.Trunks {
		set(&t.Topology.Trunks[i], t.Topology.Trunks[i].Failed)
	}
	list := []map[fabric.Trunk]bool{maps.Clone(failed)}
	for _, i := range t.inOrder() {
		if c := t.Changes[i].Trunk; c != nil && c.Failed != nil {
			set(c, *c.Failed)
			list = append(list, maps.Clone(failed))
		}
	}
	return list
}

// inOrder returns the indices of changes in their order of time.
func (t *SwitchTest) inOrder() []int {
	order := make([]int, len(t.Changes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.Changes[a].At, t.Changes[b].At) })
	return order
}

// ChangesTrunks reports whether trunks change while the test runs.
func (t *SwitchTest) ChangesTrunks() bool {
	return slices.ContainsFunc(t.Changes, func(c Change) bool { return c.Trunk != nil })
}

// Outages reports whether packets may be lost because a switch is stopped or a trunk fails.
func (t *SwitchTest) Outages() bool { return t.Stops() || t.ChangesTrunks() }

// Stops reports whether the test takes a switch out of service.
func (t *SwitchTest) Stops() bool {
	return slices.ContainsFunc(t.Changes, func(c Change) bool { return c.State() == Stopped })
}

// Title returns the name of the test, of a point with the values that it stands for.
func (t *SwitchTest) Title() string {
	if t.Point == nil {
		return t.Name
	}
	return t.Name + " [" + t.Point.String() + "]"
}

// Where names the place of a configuration path, as [Test.Where].
func (t *SwitchTest) Where(path string) string { return t.positions.where(path) }

// WithSeed returns a copy of t that draws from another seed.
func (t *SwitchTest) WithSeed(seed uint64) *SwitchTest {
	c := *t
	c.Seed = seed
	return &c
}

// WithBaseSeed is [Test.WithBaseSeed] for switch tests.
func (t *SwitchTest) WithBaseSeed(seed uint64) *SwitchTest {
	c := *t
	c.Seed, c.Point = t.Point.reseeded(t.Seed, seed)
	return &c
}

// PacketSizeOf returns the frame size of an item's packets.
func (t *SwitchTest) PacketSizeOf(l *Offer) int {
	if l.PacketSize != nil {
		return *l.PacketSize
	}
	return t.Hosts.Values.Int("packet-size")
}

// TransportOf returns the transport of an item.
func (t *SwitchTest) TransportOf(l *Offer) string { return cmp.Or(l.Transport, t.Hosts.Model) }
