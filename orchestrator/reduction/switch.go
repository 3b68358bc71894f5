package reduction

import (
	"context"
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// SwitchRunner runs a test of a switch.
type SwitchRunner func(context.Context, *config.SwitchTest) (*orchestrator.Outcome, error)

// SwitchOptions bound a reduction of a test of a switch.
type SwitchOptions struct {
	Config   config.Options
	Runs     int // at most; 0: no limit
	Progress func(runs int, t *config.SwitchTest)
}

// SwitchResult is the smallest test of a switch.
type SwitchResult struct{ Smallest[*config.SwitchTest] }

// ReduceSwitch is [Reduce] for tests of switches: the fewest flows and changes, then the least traffic, then the
// simplest switch, hosts and network. Seeded bugs stay: they are the device.
func ReduceSwitch(ctx context.Context, t *config.SwitchTest, target Target, run SwitchRunner,
	o SwitchOptions) (*SwitchResult, error) {
	check := func(t *config.SwitchTest) (*config.SwitchTest, error) {
		checked, err := config.ParseSwitchTests("candidate", t.YAML(), o.Config)
		if err != nil {
			return nil, err
		}
		if _, err := switchtest.New(checked[0]); err != nil { // what only the models know
			return nil, err
		}
		return checked[0], nil
	}
	r := &switchReducer{newSearch(ctx, target, run, check, o.Runs, o.Progress)}
	start, err := check(t)
	if err != nil {
		return nil, fmt.Errorf("minimize %s: %w", t.Name, err)
	}
	if err := r.exhaust(start, r.expectations, r.items, r.counts, r.flows, r.amounts, r.offers, r.settings,
		r.network); err != nil {
		return nil, err
	}
	return &SwitchResult{r.Smallest}, nil
}

// switchReducer is one reduction of a test of a switch in progress.
type switchReducer struct{ *search[*config.SwitchTest] }

// change tries a copy of the smallest test with one change.
func (r *switchReducer) change(f func(*config.SwitchTest)) bool {
	c := *r.Test
	c.Workload = copied(c.Workload)
	f(&c)
	return r.try(&c)
}

// copied returns workload items that may be changed.
func copied(list []config.Workload) []config.Workload {
	items := slices.Clone(list)
	for i := range items {
		items[i].Values = items[i].Values.Clone()
	}
	return items
}

// expectations drops what the failure does not need: of a broken rule everything.
func (r *switchReducer) expectations() {
	if r.Target.Rule != "" && r.change(func(t *config.SwitchTest) { t.Expect = config.SwitchExpect{} }) {
		return
	}
	r.leave(func(e *config.SwitchExpect) int { return len(e.Analyzers) },
		func(e *config.SwitchExpect, i int) { e.Analyzers = without1(e.Analyzers, i) })
	r.leave(func(e *config.SwitchExpect) int { return len(e.Metrics) },
		func(e *config.SwitchExpect, i int) { e.Metrics = without1(e.Metrics, i) })
	r.leave(func(e *config.SwitchExpect) int { return len(e.Flows) },
		func(e *config.SwitchExpect, i int) { e.Flows = without1(e.Flows, i) })
	r.leave(func(e *config.SwitchExpect) int { return len(e.Counters) },
		func(e *config.SwitchExpect, i int) { e.Counters = without1(e.Counters, i) })
	r.leave(func(e *config.SwitchExpect) int { return len(e.Relations) },
		func(e *config.SwitchExpect, i int) { e.Relations = without1(e.Relations, i) })
}

// leave drops expectations of one kind, one at a time from the last.
func (r *switchReducer) leave(count func(*config.SwitchExpect) int, drop func(*config.SwitchExpect, int)) {
	for i := count(&r.Test.Expect) - 1; i >= 0; i-- {
		r.change(func(t *config.SwitchTest) { drop(&t.Expect, i) })
	}
}

func without1[T any](list []T, i int) []T { return slices.Delete(slices.Clone(list), i, i+1) }

// action is a workload item or a change.
type action struct {
	item   *config.Workload
	change *config.Change
}

// items leaves only the workload items and changes that the failure needs.
func (r *switchReducer) items() {
	from := r.Test
	var all []action
	for i := range from.Workload {
		all = append(all, action{item: &from.Workload[i]})
	}
	for i := range from.Changes {
		all = append(all, action{change: &from.Changes[i]})
	}
	ddmin(all, func(list []action) bool { return r.try(withActions(from, list)) })
}

func withActions(t *config.SwitchTest, list []action) *config.SwitchTest {
	c := *t
	c.Workload, c.Changes = nil, nil
	for _, a := range list {
		if a.item != nil {
			c.Workload = append(c.Workload, *a.item)
		} else {
			c.Changes = append(c.Changes, *a.change)
		}
	}
	return &c
}

// flows splits items of many flows and keeps only the flows that the failure needs. If it needs all of them, the items
// are not changed.
func (r *switchReducer) flows() {
	plan, err := switchtest.New(r.Test)
	if err != nil || len(plan.Flows) == len(r.Test.Workload) {
		return
	}
	before := r.Smallest
	if !r.try(plan.Unrolled()) {
		return
	}
	r.items()
	if runs := r.Runs; len(r.Test.Workload) >= len(plan.Flows) {
		r.Smallest = before
		r.Runs = runs
	}
}

// counts lowers the number of flows and exchanges of an item, before the amounts: a few packets of many flows are not
// smaller than many of a few.
func (r *switchReducer) counts() {
	for i := range r.Test.Workload {
		for _, name := range workload.Find(r.Test.Workload[i].Kind).Counts {
			count := func() int { return r.Test.Workload[i].Values.Int(name) }
			set := func(n int) bool {
				return n < count() && r.change(func(t *config.SwitchTest) { t.Workload[i].Values.SetStep(name, int64(n)) })
			}
			lower(count, 1, set, r.exhausted)
		}
	}
}

// amounts lowers how much is sent, and for how long.
func (r *switchReducer) amounts() {
	for i := range r.Test.Workload {
		r.amount(func(t *config.SwitchTest) **int64 { return &t.Workload[i].Offer.Packets })
		r.amount(func(t *config.SwitchTest) **int64 { return &t.Workload[i].Offer.Bytes })
	}
	r.duration()
}

// amount lowers what may be absent.
func (r *switchReducer) amount(of func(*config.SwitchTest) **int64) {
	if *of(r.Test) == nil {
		return
	}
	set := func(v int) bool {
		return int64(v) < **of(r.Test) && r.change(func(t *config.SwitchTest) { *of(t) = new(int64(v)) })
	}
	lower(func() int { return int(**of(r.Test)) }, 1, set, r.exhausted)
}

// duration shortens a test that has a duration, to whole microseconds.
func (r *switchReducer) duration() {
	if r.Test.Duration == 0 {
		return
	}
	of := func() int { return int(r.Test.Duration / clock.Microsecond) }
	set := func(v int) bool {
		return v < of() && r.change(func(t *config.SwitchTest) { t.Duration = clock.Duration(v) * clock.Microsecond })
	}
	lower(of, 1, set, r.exhausted)
}

// lower makes a value smaller while set, which says whether it could, agrees.
func lower(value func() int, least int, set func(int) bool, exhausted func() bool) {
	if set(least) {
		return
	}
	for step := (value() - least) / 2; step > 0; {
		if v := value() - step; v < least || !set(v) {
			step /= 2
		}
		if exhausted() {
			return
		}
	}
}

// offers makes packets and times of the items plain.
func (r *switchReducer) offers() {
	for i := range r.Test.Workload {
		for _, plain := range []func(*config.Offer){
			func(o *config.Offer) { o.Start = 0 },
			func(o *config.Offer) { o.Stagger = 0 },
			func(o *config.Offer) { o.DSCP = 0 },
			func(o *config.Offer) { o.Class = nil },
			func(o *config.Offer) { o.IP = 4 },
			func(o *config.Offer) { o.PacketSize = nil },
			func(o *config.Offer) { o.Rate = nil },
		} {
			r.change(func(t *config.SwitchTest) { plain(&t.Workload[i].Offer) })
		}
	}
}

// settings gives every parameter that has another value its default.
func (r *switchReducer) settings() {
	for _, f := range []func(*config.SwitchTest){
		func(t *config.SwitchTest) { t.Taps.Capture = false },
		func(t *config.SwitchTest) { t.Series = 0 },
		func(t *config.SwitchTest) { t.Seed = 1 },
		func(t *config.SwitchTest) { t.Topology.Links = nil },
		func(t *config.SwitchTest) { t.Hosts.NIC = nil },
	} {
		r.change(f)
	}
	r.defaults(func(t *config.SwitchTest) *parameter.Values { return &t.Switch.Values })
	r.defaults(func(t *config.SwitchTest) *parameter.Values { return &t.Hosts.Values })
}

func (r *switchReducer) defaults(of func(*config.SwitchTest) *parameter.Values) {
	table := of(r.Test).Table()
	for i := range table {
		p := &table[i]
		r.change(func(t *config.SwitchTest) {
			v := of(t).Clone()
			switch {
			case p.Kind == parameter.List:
				v.SetList(p.Name, nil)
			case p.Kind == parameter.Integers:
				v.SetIntegers(p.Name, nil)
			case p.Default != "":
				if v.Set(p.Name, p.Default) != nil {
					return
				}
			}
			*of(t) = v
		})
	}
}

// network removes unused hosts, and numbers the others from 0.
func (r *switchReducer) network() {
	if hosts, ok := usedHosts(r.Test); ok {
		r.change(func(t *config.SwitchTest) { renumber(t, hosts) })
	}
	if v := r.Test.Topology.Values; v.Table().Find("hosts") >= 0 {
		set := func(n int) bool {
			return n < r.Test.Topology.HostCount() && r.change(func(t *config.SwitchTest) {
				t.Topology.Values = t.Topology.Values.Clone()
				t.Topology.Values.SetStep("hosts", int64(n))
			})
		}
		lower(func() int { return r.Test.Topology.HostCount() }, 2, set, r.exhausted)
	}
}

// usedHosts lists the hosts of the workload in order; ok is false if an item chooses hosts itself.
func usedHosts(t *config.SwitchTest) (hosts []int, ok bool) {
	for i := range t.Workload {
		w := &t.Workload[i]
		names := workload.Find(w.Kind).Hosts
		if names == nil {
			return nil, false
		}
		for _, name := range names {
			hosts = append(hosts, w.Values.Int(name))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), true
}

// renumber puts the hosts at the first ports of a network whose hosts can be counted.
func renumber(t *config.SwitchTest, hosts []int) {
	for i := range t.Workload {
		w := &t.Workload[i]
		for _, name := range workload.Find(w.Kind).Hosts {
			w.Values.SetStep(name, int64(slices.Index(hosts, w.Values.Int(name))))
		}
	}
}
