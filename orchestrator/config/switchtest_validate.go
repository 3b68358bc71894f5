package config

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// finishSwitchExpectations gives each judgement its outcome.
func (d *decoder) finishSwitchExpectations(e *SwitchExpect) {
	for i := range e.Analyzers {
		a := &e.Analyzers[i]
		d.finishJudgement("expect."+a.Name, a.Name, &a.Judgement)
	}
}

// validateSwitchTest checks what several values show together. It skips what has a problem already.
func (d *decoder) validateSwitchTest(t *SwitchTest) {
	d.validateTopology(&t.Topology)
	hosts := t.Topology.HostCount()
	if d.touched["topology"] || d.touched["testbed"] || t.Topology.Model == "" {
		hosts = 0
	}
	flows := 0
	d.completeRanks(t)
	for i := range t.Workload {
		flows += d.validateWorkload(t, i, hosts)
	}
	d.validateJudging(t, flows)
	d.validateQueues(t, hosts)
	d.validateChanges(t)
	d.validateTimes(t)
	d.validateBaseline(&t.Expect.Baseline, "flows.fct-us: {p99: +5 %}")
	for i := range t.Expect.Flows {
		path := fmt.Sprintf("expect.flows[%d].flows", i)
		if high, _ := t.Expect.Flows[i].Flows.highest(); !d.touched[path] && !d.touched["workload"] && flows > 0 &&
			high > int64(flows) {
			d.problemAt(path, fmt.Sprintf("%d is past the last flow (%d)", high, flows),
				"flows are numbered from 1 in the order of workload")
		}
	}
}

// highest returns the greatest number of a set whose numbers are plain.
func (n Numbers) highest() (high int64, ok bool) {
	for _, s := range n {
		high, ok = max(high, s.Last.N), true
	}
	return high, ok
}

// All returns the numbers of a set whose numbers are plain, in the order of the file, each once.
func (n Numbers) All() []int {
	var all []int
	seen := make(map[int64]bool)
	for _, s := range n {
		for v := s.First.N; v <= s.Last.N; v++ {
			if !seen[v] {
				all = append(all, int(v))
			}
			seen[v] = true
		}
	}
	return all
}

// pairs returns the first and last number of each range of plain numbers.
func (n Numbers) pairs() [][2]int64 {
	list := make([][2]int64, len(n))
	for i, s := range n {
		list[i] = [2]int64{s.First.N, s.Last.N}
	}
	return list
}

// numbersOf is the inverse of pairs.
func numbersOf(pairs [][2]int64) Numbers {
	var n Numbers
	for _, p := range pairs {
		n = append(n, Span{Number{N: p[0]}, Number{N: p[1]}})
	}
	return n
}

func (d *decoder) validateTopology(t *Topology) {
	if t.Model == "" || d.touched["topology"] {
		return
	}
	if shape := fabric.ShapeOf(fabric.TopologyKind(t.Model)); shape != nil && shape.Check != nil {
		if key, what, why := shape.Check(t.Values); key != "" {
			d.problemAt("topology."+key, what, why)
		}
	}
	hosts := t.HostCount()
	if hosts > maxHosts {
		d.problemAt("topology", fmt.Sprintf("has %d hosts", hosts), fmt.Sprintf("at most %d are simulated", maxHosts))
	}
	for _, l := range []struct {
		path string
		rate clock.BitRate
	}{{"topology.link.gbps", t.Link.Rate}, {"topology.trunk.gbps", t.Trunk.Rate}} {
		if l.rate < 1_000_000 {
			d.problemAt(l.path, "is too slow", "links of 0.001 to 1600 Gb/s are simulated")
		}
	}
	seen := make(map[int]bool)
	for i, l := range t.Links {
		path := fmt.Sprintf("topology.links[%d]", i)
		switch {
		case l.Host >= hosts:
			d.problemAt(path+".host", fmt.Sprintf("there is no host %d", l.Host), workload.HostsAre(hosts))
		case seen[l.Host]:
			d.problemAt(path+".host", fmt.Sprintf("host %d is given twice", l.Host), "")
		case l.Rate == nil && l.Delay == nil:
			d.problemAt(path, "changes nothing", "it takes gbps, delay-ns or both")
		case l.Rate != nil && *l.Rate < 1_000_000:
			d.problemAt(path+".gbps", "is too slow", "links of 0.001 to 1600 Gb/s are simulated")
		}
		seen[l.Host] = true
	}
	d.validateTrunks(t)
}

func (d *decoder) validateTrunks(t *Topology) {
	if len(t.Trunks) == 0 {
		return
	}
	spec := t.Spec()
	trunks := spec.Trunks()
	for i := range t.Trunks {
		o, path := &t.Trunks[i], fmt.Sprintf("topology.trunks[%d]", i)
		same := func(other Trunk) bool { return other.Joins(o.From, o.To) }
		switch {
		case !slices.ContainsFunc(trunks, func(f fabric.Trunk) bool { return o.Joins(f.A, f.B) }):
			d.problemAt(path+".to", fmt.Sprintf("there is no trunk between %s and %s", o.From, o.To), trunksAre(trunks))
		case slices.ContainsFunc(t.Trunks[:i], same):
			d.problemAt(path, fmt.Sprintf("the trunk between %s and %s is given twice", o.From, o.To), "")
		case o.Failed && (o.Rate != nil || o.Delay != nil):
			d.problemAt(path+".failed", "is given together with gbps or delay-ns", "a failed trunk carries nothing")
		case !o.Failed && o.Rate == nil && o.Delay == nil:
			d.problemAt(path, "changes nothing", "it takes gbps, delay-ns or failed: true")
		case o.Rate != nil && *o.Rate < 1_000_000:
			d.problemAt(path+".gbps", "is too slow", "links of 0.001 to 1600 Gb/s are simulated")
		}
	}
}

// validateWorkload checks one item and returns how many flows it has.
func (d *decoder) validateWorkload(t *SwitchTest, i, hosts int) int {
	path := fmt.Sprintf("workload[%d]", i)
	if d.touched[path] {
		return 0
	}
	w := &t.Workload[i]
	k := workload.Find(w.Kind)
	at := path + "." + w.Kind
	d.validateOffer(t, w, k, at)
	d.validateRank(t, i, k, at)
	if k.Read != nil && !d.readFiles(t, w, k, at) {
		return 0
	}
	flows, problems := k.Check(w.Values, hosts)
	if k.Expect != nil && hosts > 1 && len(problems) == 0 {
		in := t.Scope(i)
		problems = k.CheckIn(w.Values, in)
		flows = int(min(k.Expect(w.Values, in), 1<<40))
	}
	for _, p := range problems {
		d.problemAt(at+"."+p.Key, p.What, p.Why)
	}
	return flows
}

// readFiles reads the files of an item and reports whether that went well.
func (d *decoder) readFiles(t *SwitchTest, w *Workload, k *workload.Kind, at string) bool {
	for _, p := range k.Read(w.Values, t.open) {
		if i := k.Parameters.Find(p.Key); i >= 0 && p.Why == "" {
			of := parameterKind{&k.Parameters[i]}
			p.What += didYouMean(w.Values.File(p.Key), of.p.Words)
			p.Why = "it takes " + of.allowed()
		}
		d.problemAt(at+"."+p.Key, p.What, p.Why)
	}
	return !d.touched[at]
}

func (d *decoder) validateOffer(t *SwitchTest, w *Workload, k *workload.Kind, at string) {
	l, closed := &w.Offer, k.Closed()
	switch {
	case l.Packets != nil && l.Bytes != nil:
		d.problemAt(at+".bytes", "is given together with packets", "give only one of them")
	case k.Sized && (l.Packets != nil || l.Bytes != nil || l.Stagger > 0):
		d.problemAt(at, "takes neither packets, bytes nor stagger-us",
			"each flow has a size and a start of its own; poisson with sizes: fixed has one size")
	case closed && (l.Packets != nil || l.Bytes != nil):
		d.problemAt(at, "has a count without packets or bytes", "")
	case k.For == workload.Locking && w.Values.Int("count") == 0 && t.Duration == 0:
		d.problemAt(at+".count", "is 0: its transactions never end", "give a count, or duration-us for the whole test")
	case !closed && !k.Sized && l.Packets == nil && l.Bytes == nil && t.Duration == 0 && !t.closedLoops():
		d.problemAt(at, "never ends",
			"give packets or bytes, duration-us for the whole test, or a ping or requests workload beside it")
	}
	transport := cmp.Or(k.Transport, t.TransportOf(l))
	switch {
	case k.Transport != "" && l.Transport != "" && l.Transport != k.Transport:
		d.problemAt(at+".transport", "is "+l.Transport, "the transport of "+k.Name+" is always "+k.Transport)
	case k.Paced && (l.Rate == nil) == (len(w.Values.List("rates")) == 0):
		d.problemAt(at+".rate-gbps", "needs one of rate-gbps and rates", "rate-gbps: 1, or a schedule of rates")
	case l.Rate != nil && !slices.Contains(d.options.openLoops(), transport):
		d.problemAt(at+".rate-gbps", "is for the "+oneOf(d.options.openLoops())+" transport only",
			"the transport "+transport+" controls its own rate")
	case l.Rate != nil && *l.Rate < 1_000_000:
		d.problemAt(at+".rate-gbps", "is too slow", "rates start at 0.001 Gb/s")
	case l.Transport != "" && d.options.transport(l.Transport) == nil:
		d.problemAt(at+".transport", "is unknown", "")
	}
	if l.Weight != nil && *l.Weight == 0 && !d.touched[at+".weight"] {
		d.problemAt(at+".weight", "is 0: such a flow would get nothing", "weights are above 0; the default is 1")
	}
	if l.Stop != nil && (l.Packets != nil || l.Bytes != nil) {
		d.problemAt(at+".stop-us", "is given together with packets or bytes", "a flow with an amount leaves when it is sent")
	}
	if l.Start >= t.Duration && t.Duration > 0 {
		d.problemAt(at+".start-us", "is past the end of the test", "the test ends after duration-us")
	}
}

// closedLoops reports whether the workload has pings or requests: flows without a size end with them.
func (t *SwitchTest) closedLoops() bool {
	return slices.ContainsFunc(t.Workload,
		func(w Workload) bool {
			k := workload.Find(w.Kind)
			return k != nil && k.Closed() && (k.For != workload.Locking || w.Values.Int("count") > 0)
		})
}

func (d *decoder) validateChanges(t *SwitchTest) {
	switches := t.Topology.SwitchCount()
	for i, c := range t.Changes {
		path := fmt.Sprintf("changes[%d]", i)
		if d.touched[path] {
			continue
		}
		switch set, state, trunk := !c.Set.IsZero(), c.state != nil, c.Trunk != nil; {
		case trunk && (set || state || c.Switch != nil):
			d.problemAt(path+".trunk", "is given together with switch, set or state",
				"a change is one of switches or of a trunk; write two changes")
		case set && state:
			d.problemAt(path+".state", "is given together with set",
				"a change sets either parameters or the state of the switch; write two changes")
		case !set && !state && !trunk:
			d.problemAt(path, "changes nothing", "it takes set, state or trunk")
		}
		if c.Switch != nil && switches > 0 && *c.Switch >= switches {
			d.problemAt(path+".switch", fmt.Sprintf("there is no switch %d", *c.Switch),
				fmt.Sprintf("switches are 0 to %d", switches-1))
		}
		if t.Duration > 0 && c.At >= t.Duration {
			d.problemAt(path+".at-us", "is past the end of the test", "the test ends after duration-us")
		} else if c.At >= t.Deadline && c.Trunk != nil {
			d.problemAt(path+".at-us", "is past the end of the test", "the test ends after deadline-us at the latest")
		}
	}
	d.validateTrunkChanges(t)
	if d.touched["changes"] || d.touched["topology"] {
		return
	}
	if path, what, why := t.CheckStates(); path != "" {
		d.problemAt(path, what, why)
	}
}

// validateTrunkChanges checks each change of a trunk against what the trunk is then.
func (d *decoder) validateTrunkChanges(t *SwitchTest) {
	if d.touched["topology"] || d.touched["changes"] {
		return
	}
	type link struct {
		LinkSpec
		failed  bool
		since   clock.Duration // it failed
		at      clock.Duration // of its last change
		changed bool
	}
	now := make(map[fabric.Trunk]*link)
	spec := t.Topology.Spec()
	trunks := spec.Trunks()
	for _, i := range t.inOrder() {
		c, path := t.Changes[i].Trunk, fmt.Sprintf("changes[%d].trunk", i)
		if c == nil {
			continue
		}
		k := slices.IndexFunc(trunks, func(f fabric.Trunk) bool { return c.Joins(f.A, f.B) })
		if k < 0 {
			d.problemAt(path+".to", fmt.Sprintf("there is no trunk between %s and %s", c.From, c.To), trunksAre(trunks))
			continue
		}
		l := now[trunks[k]]
		if l == nil {
			l = new(link)
			l.LinkSpec, l.failed = t.Topology.TrunkBetween(c.From, c.To)
			now[trunks[k]] = l
		}
		up := fmt.Sprintf("since %s; failed: false brings it back", l.since)
		switch {
		case l.changed && l.at == t.Changes[i].At:
			d.problemAt(path, "the trunk has another change at that time", "write one change")
		case c.Failed == nil && c.Rate == nil && c.Delay == nil:
			d.problemAt(path, "changes nothing", "it takes failed, gbps or delay-ns")
		case c.Failed != nil && *c.Failed && (c.Rate != nil || c.Delay != nil):
			d.problemAt(path+".failed", "is given together with gbps or delay-ns", "a failed trunk carries nothing")
		case c.Failed != nil && *c.Failed && l.failed:
			d.problemAt(path+".failed", "the trunk has failed already", up)
		case c.Failed != nil && !*c.Failed && !l.failed:
			d.problemAt(path+".failed", "the trunk has not failed at that time", "only a failed trunk comes back")
		case c.Failed == nil && l.failed:
			d.problemAt(path, "the trunk is down at that time", up)
		case c.Rate != nil && *c.Rate < 1_000_000:
			d.problemAt(path+".gbps", "is too slow", "links of 0.001 to 1600 Gb/s are simulated")
		}
		c.apply(&l.LinkSpec, &l.failed)
		l.at, l.changed = t.Changes[i].At, true
		if c.Failed != nil {
			l.since = t.Changes[i].At
		}
	}
}

// trunksAre says which trunks there are.
func trunksAre(trunks []fabric.Trunk) string {
	n := len(trunks)
	if n == 0 {
		return "this topology has no trunks"
	}
	return fmt.Sprintf("there are %d, from %s to %s up to %s to %s", n, trunks[0].A, trunks[0].B, trunks[n-1].A,
		trunks[n-1].B)
}

// CheckStates reports the first change that does not suit the state that its switch is in: "" and an empty path if
// there is none.
func (t *SwitchTest) CheckStates() (path, what, why string) {
	stopped := make(map[int]clock.Duration) // since when
	last := clock.Duration(-1)              // the change before
	for _, i := range t.inOrder() {
		c := &t.Changes[i]
		if c.Trunk != nil {
			continue
		}
		path = fmt.Sprintf("changes[%d]", i)
		for sw := range t.Topology.SwitchCount() {
			if c.Switch != nil && *c.Switch != sw {
				continue
			}
			since, down := stopped[sw]
			if what, why = t.unfitForPair(c, sw, last); what != "" {
				return path + ".state", what, why
			}
			switch {
			case down && c.State() == Stopped:
				return path + ".state", fmt.Sprintf("switch %d is stopped already, since %s", sw, since),
					"state: running starts it again"
			case !down && c.State() == Running:
				return path + ".state", fmt.Sprintf("switch %d is running", sw), "only a switch that was stopped can start"
			case down && c.State() == "":
				return path, fmt.Sprintf("switch %d is stopped then, since %s", sw, since),
					"set parameters before it stops, or after it has started"
			case c.State() == Stopped:
				stopped[sw] = c.At
			default:
				delete(stopped, sw)
			}
		}
		if c.State() != "" {
			last = c.At
		}
	}
	return "", "", ""
}

// unfitForPair returns what is wrong with a change of state for a pair of switches whose state has last changed at an
// instant; −1: never.
func (t *SwitchTest) unfitForPair(c *Change, sw int, last clock.Duration) (what, why string) {
	switch {
	case !t.Topology.Pair() || c.State() == "":
	case sw != 0:
		return fmt.Sprintf("switch %d changes its state", sw),
			"of this topology only the original, switch 0, stops and returns"
	case last >= 0 && c.At-last < t.Topology.Reroute():
		return fmt.Sprintf("follows the one at %s", last), fmt.Sprintf("routes follow a change of the original after %s "+
			"(topology.reroute-us): the next one comes later", t.Topology.Reroute())
	}
	return "", ""
}

func (d *decoder) validateTimes(t *SwitchTest) {
	if d.touched["duration-us"] || d.touched["deadline-us"] || d.touched["series-us"] {
		return
	}
	if t.Duration > t.Deadline {
		t.Deadline = t.Duration
	}
	const maxSamples = 100_000
	if end := t.Duration; t.Series > 0 && end > 0 && int64(end/t.Series) > maxSamples {
		d.problemAt("series-us", fmt.Sprintf("gives %d samples", end/t.Series),
			fmt.Sprintf("at most %d are recorded", maxSamples))
	}
}
