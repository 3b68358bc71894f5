// Package aqm models switches with active queue management: approximate fair dropping with the elephant trap (AFD,
// ETRAP) and dynamic packet prioritization (DPP) as on Cisco Nexus 9000, and the baselines RED, WRED, ECN marking by a
// threshold, and tail drop. Source: Cisco, Intelligent Buffer Management on Cisco Nexus 9000 Series Switches (NX-OS
// 7.0(3)I5(1)). It gives no formulas: what the models choose has a name among the parameters.
package aqm

import (
	"fmt"
	"io"
	"slices"

	"candela.dev/candela/aqm"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Family declares the family.
func Family() switches.Family {
	afd := slices.Concat(fairness(), traps())
	both := slices.Concat(afd, priorities())
	return switches.Family{
		Name: "aqm", Decisions: decisions(), Counters: count,
		Models: []switches.Model{
			model("afd", "Approximate fair dropping (AFD): packets of elephants are dropped by the excess of their rate over a "+
				"fair rate that follows the queue. The elephant trap (ETRAP) finds elephants.",
				scheme{scheme: aqm.AFD}, shallowBytes, afd, afdBugs()),
			model("dpp", "Dynamic packet prioritization (DPP): the first packets of every flow go to a queue that is always "+
				"served first.", scheme{dpp: true}, shallowBytes, priorities(), dppBugs()),
			model("afd-dpp", "AFD and DPP together: AFD is applied to the queues of data.",
				scheme{scheme: aqm.AFD, dpp: true}, shallowBytes, both, slices.Concat(afdBugs(), dppBugs())),
			model("red", "Random early detection (RED): any packet is dropped by the mean queue.",
				scheme{scheme: aqm.RED}, shallowBytes, early(), redBugs()),
			model("wred", "Weighted RED: RED with thresholds of its own for each class, as policies say.",
				scheme{scheme: aqm.RED}, shallowBytes, early(), redBugs()),
			model("ecn-threshold", "ECN-capable packets are marked while their queue holds at least a number of bytes "+
				"(DCTCP).", scheme{scheme: aqm.Threshold}, shallowBytes, thresholds(), thresholdBugs()),
			model("tail-shallow", "Tail drop with a shallow buffer of 3 MB for each port.", scheme{}, shallowBytes, nil, nil),
			model("tail-deep", "Tail drop with a deep buffer of 52 MB for each port.", scheme{}, deepBytes, nil, nil),
		},
		Settings: func(v parameter.Values, _ int) (any, error) { return schemeOf(v).settings(v), nil },
		Snapshot: func(sw *fabric.Switch) (any, error) {
			m, ok := sw.Mechanism().(*Mechanism)
			if !ok {
				return aqm.Counters{}, fmt.Errorf("switch %s is out of service", sw.Name())
			}
			return m.Counters(), nil
		},
		Show: func(sw *fabric.Switch, slot int, w io.Writer) error {
			m, ok := sw.Mechanism().(*Mechanism)
			if !ok {
				return fmt.Errorf("switch %s is out of service", sw.Name())
			}
			_, err := m.Counters().Queuing(slot, m.mice).WriteTo(w)
			return err
		},
		Metrics: metrics(),
	}
}

// schemeOf returns the scheme of a model by its parameters.
func schemeOf(v parameter.Values) (s scheme) {
	has := func(name string) bool { return v.Table().Find(name) >= 0 }
	switch {
	case has("kp"):
		s.scheme = aqm.AFD
	case has("max-probability"):
		s.scheme = aqm.RED
	case has("threshold-bytes"):
		s.scheme = aqm.Threshold
	}
	s.dpp = has("dpp-max-packets")
	return s
}

func model(name, doc string, s scheme, portBytes string, own parameter.Table, bugs []fault) switches.Model {
	bugs = slices.Concat(bugs, bufferBugs())
	m := switches.Model{
		Model: parameter.Model{Name: name, Doc: doc, Parameters: slices.Concat(own, buffers(portBytes), policies(own))},
		NoNIC: "its tables are those of ingress ports, which a NIC does not have",
		Check: s.check,
		Configure: func(v parameter.Values, spec *fabric.SwitchSpec) error {
			s.configure(v, spec)
			return nil
		},
		New: func(_ *fabric.Switch, v parameter.Values, names []string) (fabric.Mechanism, error) {
			set := s.settings(v)
			m := &Mechanism{set: set, mice: -1, faults: faultsOf(bugs, names)}
			if s.dpp {
				m.mice = set.Queues
			}
			return m, nil
		},
		Distort: func(names []string, spec *fabric.SwitchSpec) {
			for i := range bugs {
				if bugs[i].distort != nil && slices.Contains(names, bugs[i].Name) {
					bugs[i].distort(spec)
				}
			}
		},
	}
	for i := range bugs {
		m.Bugs = append(m.Bugs, bugs[i].Bug)
	}
	return m
}

// configure describes the queues of a port. The mechanism applies the limit of the port; that of a queue is the largest
// of any port.
func (s scheme) configure(v parameter.Values, spec *fabric.SwitchSpec) {
	set := s.settings(v)
	most := set.System.PortBytes
	for i := range set.Policies {
		most = max(most, set.Policies[i].PortBytes)
	}
	room := most
	if v.Has("data-queue-bytes") {
		room = v.Int("data-queue-bytes")
	}
	spec.Queues = []fabric.QueueSpec{{MaxBytes: room}}
	spec.Scheduler = fabric.SchedulerSpec{Kind: fabric.Strict}
	if s.dpp {
		spec.Queues = append(spec.Queues, fabric.QueueSpec{MaxBytes: most})
		spec.Scheduler = fabric.SchedulerSpec{Kind: fabric.DWRR, Weights: []int{1, 0}}
	}
}

// metrics are what the judge measures.
func metrics() []switches.Metric {
	return []switches.Metric{
		{Name: "aqm-evictions", Of: "aqm.evictions", Scale: 1, Head: "evictions",
			Doc: "For each elephant, how often it has become a mouse again. Of aqm."},
		{Name: "aqm-mice-share", Of: "aqm.mice-share", Scale: 1e6, Head: "share of mice",
			Doc: "For each queue to which an elephant sent, the share of bytes that arrived while their flow was a mouse. Of " +
				"aqm."},
		{Name: "aqm-port-bytes", Of: "aqm.port-bytes", Scale: 1, Doc: "For each port, the most bytes that waited. Of aqm."},
		{Name: "aqm-fairness", Of: "aqm.fairness", Scale: 1e6, Head: "Jain of elephants",
			Doc: "For each queue, Jain's index of the rates of backlogged elephants: those that exceeded the fair rate with a " +
				"quarter of their packets or more, and were elephants for half as long as the longest of them. Of aqm."},
	}
}

// count adds the counters of `show queuing interface`, by port and queue, and evictions.
func count(sw *fabric.Switch, add func(string, int64)) error {
	m, ok := sw.Mechanism().(*Mechanism)
	if !ok { // out of service
		return nil
	}
	if m.set.Scheme == aqm.AFD {
		add("evictions", int64(m.Evictions()))
	}
	for i, groups := range m.Counters().Ports {
		for j := range groups {
			g := &groups[j]
			for word, n := range map[string]uint64{
				"tx-packets": g.TxPackets, "tx-bytes": g.TxBytes, "early-packets": g.EarlyPackets, "early-bytes": g.EarlyBytes,
				"dropped-packets": g.DroppedPackets, "marked-packets": g.MarkedPackets,
			} {
				add(fmt.Sprintf("port-%d.queue-%d.%s", i, j, word), int64(n))
			}
		}
	}
	return nil
}
