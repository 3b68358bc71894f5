// Package switchtest runs tests of switches: it plans the flows of a test, builds the network with the model under
// test, runs it, observes every packet at taps, judges, and writes the run directory. A run is a function of its test
// and seed, to the byte.
package switchtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"candela.dev/candela/analyzers"
	judgeaqm "candela.dev/candela/analyzers/aqm"
	"candela.dev/candela/analyzers/decision"
	judgedeflect "candela.dev/candela/analyzers/deflect"
	judgefair "candela.dev/candela/analyzers/fair"
	"candela.dev/candela/analyzers/forwarding"
	judgelock "candela.dev/candela/analyzers/lock"
	judgenetchain "candela.dev/candela/analyzers/netchain"
	judgerank "candela.dev/candela/analyzers/rank"
	judgesai "candela.dev/candela/analyzers/sai"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/orchestrator/switchtest/transport/bolt"
	"candela.dev/candela/orchestrator/switchtest/transport/echo"
	"candela.dev/candela/orchestrator/switchtest/transport/kernel"
	"candela.dev/candela/orchestrator/switchtest/transport/ndp"
	"candela.dev/candela/orchestrator/switchtest/transport/netlock"
	"candela.dev/candela/orchestrator/switchtest/transport/pfabric"
	"candela.dev/candela/orchestrator/switchtest/transport/raw"
	"candela.dev/candela/orchestrator/switchtest/transport/tcp"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/switches/aqm"
	"candela.dev/candela/testbeds/switches/deflect"
	"candela.dev/candela/testbeds/switches/fair"
	"candela.dev/candela/testbeds/switches/lock"
	"candela.dev/candela/testbeds/switches/rank"
	"candela.dev/candela/testbeds/switches/sai"
	"candela.dev/candela/testbeds/switches/trimming"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// family is a family of switches and the analyzer that judges it; nil: what any switch owes is all that is judged.
type family struct {
	switches.Family
	judge func(analyzers.SwitchView) (analyzers.SwitchJudge, error)
	rules []analyzers.Rule
}

// families lists every family of switches under test. A new one is one line here. Tests of the package register
// families of their own. The list is made once, as a small run would spend much of its time on it; nobody changes it.
var families = sync.OnceValue(func() []family {
	return []family{
		{Family: trimming.Family()},
		{sai.Family(), judgesai.NewJudge, judgesai.Rules()},
		{rank.Family(), judgerank.NewJudge, judgerank.Rules()},
		{aqm.Family(), judgeaqm.NewJudge, judgeaqm.Rules()},
		{fair.Family(), judgefair.NewJudge, judgefair.Rules()},
		{deflect.Family(), judgedeflect.NewJudge, judgedeflect.Rules()},
		{lock.Family(), judgelock.NewJudge, judgelock.Rules()},
		{lock.Baseline(), judgenetchain.NewJudge, judgenetchain.Rules()},
	}
})

// transports lists every transport, the default first. A new one is one line here. Like families it is made once.
var transports = sync.OnceValue(func() []transport.Transport {
	return []transport.Transport{echo.Transport(), ndp.Transport(), bolt.Transport(), pfabric.Transport(), raw.Transport(),
		tcp.Transport(), kernel.Transport(), netlock.Transport()}
})

// codecs are those of all transports.
func codecs() *wire.Codecs {
	all := new(wire.Codecs)
	for _, t := range transports() {
		all[t.Protocol] = t.Codec
	}
	return all
}

// judgeTable lists every analyzer of switch tests, in the order of reports: what any switch owes, and the judges of the
// families and of the hosts of the transports, by name.
func judgeTable() []analyzer {
	var of []analyzer
	for _, f := range families() {
		if f.judge != nil {
			a := ofSwitch(f.Name, f.rules, func(r *run) bool { return r.plan.judges(&f) && !r.plan.shut(&f) }, f.judge)
			a.family = &f
			of = append(of, a)
		}
	}
	for _, t := range transports() {
		if t.Judge != nil {
			of = append(of, ofTransport(&t))
		}
	}
	slices.SortFunc(of, func(a, b analyzer) int { return strings.Compare(a.name, b.name) })
	first := ofSwitch(forwarding.Name, forwarding.Rules(), func(*run) bool { return true }, forwarding.New)
	last := ofSwitch(decision.Name, decision.Rules(), func(r *run) bool { return r.plan.judgesDecisions() }, decision.New)
	last.decides = true
	return slices.Concat([]analyzer{first, ofQueues(), ofBolt()}, of, []analyzer{last})
}

// judgesDecisions reports whether decision records are compared with the taps. Switches that send SRC packets of Bolt
// queue these without one, unless their family records them, which leaves open what waits.
func (p *Plan) judgesDecisions() bool {
	return p.Test.Taps.Decisions() != "" && (!p.declared.Bolt.SRC || p.family.RecordsMade)
}

// familyOf returns a model of the families, its parameters completed by those that every switch has.
func familyOf(all []family, name string) (*family, switches.Model, error) {
	var names []string
	for i := range all {
		if m, ok := all[i].Model(name); ok {
			m.Parameters = withCommon(m)
			return &all[i], m, nil
		}
		for _, m := range all[i].Models {
			names = append(names, m.Name)
		}
	}
	return nil, switches.Model{}, fmt.Errorf("switch model %q is unknown (there are: %s)", name, strings.Join(names, ", "))
}

// Options returns what the configuration has to know to read tests of switches.
func Options() config.Options {
	var o config.Options
	Extend(&o)
	return o
}

// Extend adds what the configuration has to know to read tests of switches.
func Extend(o *config.Options) {
	metrics := builtin()
	for _, f := range families() {
		metrics = append(metrics, ofFamily(&f)...)
		for _, m := range f.Models {
			extendNICs(o, m)
			m.Parameters = withCommon(m)
			o.Switches = append(o.Switches, m.Model)
		}
	}
	for _, t := range transports() {
		if !t.Internal {
			o.Transports = append(o.Transports, config.Transport{Model: t.Model, OpenLoop: t.OpenLoop,
				Ranking: t.Ranking})
		}
	}
	for _, m := range metrics {
		o.SwitchMetrics = append(o.SwitchMetrics, config.SwitchMetric{Name: m.name, Flow: m.byFlow, Doc: m.doc})
	}
	o.SwitchStored = stored()
	o.SwitchAnalyzers = AnalyzerNames()
	if o.Rules != nil {
		for _, r := range Rules() {
			o.Rules = append(o.Rules, r.ID)
		}
	}
}

// common are settings that every switch has, whatever its mechanism.
func common() parameter.Table {
	const most = 1 << 40
	return parameter.Table{
		{Name: "latency-ns", Kind: parameter.Duration, Unit: "ns", Default: "0", Max: 1_000_000_000,
			Doc: "Forwarding latency beyond store-and-forward."},
		{Name: "ecn-min-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most,
			Doc: "Bytes in a queue from which on ECN-capable packets are marked with growing probability."},
		{Name: "ecn-max-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most,
			Doc: "Bytes in a queue from which on all of them are marked; 0: no marking."},
		{Name: "ecn-probability", Kind: parameter.Number, Default: "1", Max: 1, Doc: "Probability just below ecn-max-bytes."},
		{Name: "ecn-threshold-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most,
			Doc: "DCTCP's K: ECN-capable packets are marked while their queue holds at least this many bytes; 0: no " +
				"marking. It sets both ecn-min-bytes and ecn-max-bytes."},
		{Name: "ecn-threshold-packets", Kind: parameter.Integer, Unit: "packets", Default: "0", Max: 1 << 20,
			Doc: "The same in packets, whatever their size."},
		{Name: "pfc-classes", Kind: parameter.Integers, Max: 7,
			Doc: "Lossless traffic classes, under priority flow control."},
		{Name: "pfc-xoff-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "100000", Min: 1, Max: most,
			Doc: "Bytes of a lossless class from one port beyond which its sender is paused."},
		{Name: "pfc-xon-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most,
			Doc: "Bytes at which it may go on; 0: half of pfc-xoff-bytes."},
		{Name: "pfc-headroom-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most,
			Doc: "Bytes that may come after the pause; 0: enough for the slowest reaction on the longest link."},
		{Name: "bolt-src", Kind: parameter.Boolean, Default: "false",
			Doc: "Bolt's sub-RTT control: data that meets congestion is answered with an SRC packet to its sender."},
		{Name: "bolt-pru", Kind: parameter.Boolean, Default: "false",
			Doc: "Bolt's proactive ramp-up: data of last windows lets others grow."},
		{Name: "bolt-sm", Kind: parameter.Boolean, Default: "false",
			Doc: "Bolt's supply matching: what a link did not use lets windows grow."},
		{Name: "bolt-threshold-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "3000", Min: 1, Max: most,
			Doc: "CCTHRESH: bytes that wait at a port from which on there is congestion."},
		{Name: "bolt-mtu-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "1500", Min: 1, Max: 1 << 20,
			Doc: "What a packet more takes of supply, and the most supply that a port keeps."},
		{Name: "bolt-pru-tokens", Kind: parameter.Integer, Unit: "tokens", Default: "256", Min: 1, Max: 1 << 20,
			Doc: "Most tokens of proactive ramp-up that a port keeps."},
	}
}

// withCommon returns the model's parameters and the common ones that it doesn't declare itself.
func withCommon(m switches.Model) parameter.Table {
	t := with(m.Parameters, common())
	if !m.OwnQueues {
		t = with(t, queueing())
	}
	return t
}

func with(t, more parameter.Table) parameter.Table {
	all := slices.Clone(t)
	for _, p := range more {
		if t.Find(p.Name) < 0 {
			all = append(all, p)
		}
	}
	return all
}

// applyCommon writes the common settings into the description of a switch, as far as they say something.
func applyCommon(v parameter.Values, s *fabric.SwitchSpec) error {
	if d := v.Duration("latency-ns"); d > 0 {
		s.Latency = d
	}
	for _, class := range v.Integers("pfc-classes") {
		s.PFC.Classes |= 1 << class
	}
	if s.PFC.Classes != 0 {
		s.PFC.XOff, s.PFC.XOn, s.PFC.Headroom = v.Int("pfc-xoff-bytes"), v.Int("pfc-xon-bytes"), v.Int("pfc-headroom-bytes")
	}
	s.Bolt = fabric.BoltSpec{SRC: v.Bool("bolt-src"), PRU: v.Bool("bolt-pru"), SM: v.Bool("bolt-sm"),
		Threshold: v.Int("bolt-threshold-bytes"), MTU: v.Int("bolt-mtu-bytes"), MaxTokens: v.Int("bolt-pru-tokens")}
	if err := applyQueueing(v, s); err != nil {
		return err
	}
	return applyMarking(v, s.Queues)
}

// applyMarking writes the common settings of ECN into the description of queues.
func applyMarking(v parameter.Values, queues []fabric.QueueSpec) error {
	low, high := v.Int("ecn-min-bytes"), v.Int("ecn-max-bytes")
	if step := v.Int("ecn-threshold-bytes"); step > 0 {
		if low != 0 || high != 0 {
			return fmt.Errorf("ecn-threshold-bytes is a step: leave out ecn-min-bytes and ecn-max-bytes, or it")
		}
		low, high = step, step
	}
	for i := range queues {
		queues[i].Mark.Packets = v.Int("ecn-threshold-packets")
		if high > 0 {
			queues[i].Mark.MinBytes, queues[i].Mark.MaxBytes = low, high
			queues[i].Mark.Probability = v.Number("ecn-probability")
		}
	}
	return nil
}
