// Package switchtest runs tests of switches: it plans the flows of a test, builds the network with the model under test, runs it,
// observes every packet at taps, judges, and writes the run directory. A run is a function of its test and seed, to the byte.
package switchtest

import (
	"fmt"
	"slices"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
	"candela.dev/candela/testbeds/virtual/switches"
	"candela.dev/candela/testbeds/virtual/switches/sai"
)

// switchModel is a switch under test: what test files may say about it, and how it is built.
type switchModel struct {
	parameter.Model
	// configure sets queues, scheduler and whatever else the switches of a network need.
	configure func(v parameter.Values, s *fabric.SwitchSpec) error
	build     func(sw *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error)
}

// switchModels lists every switch under test. A new model is one entry here.
func switchModels() []switchModel {
	var all []switchModel
	for _, m := range switches.Models() {
		all = append(all, switchModel{
			Model:     m.Model,
			configure: func(v parameter.Values, s *fabric.SwitchSpec) error { m.Configure(v, s); return nil },
			build: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
				return m.New(v, bugs), nil
			},
		})
	}
	all = append(all, switchModel{
		Model: sai.Model(),
		configure: func(v parameter.Values, s *fabric.SwitchSpec) (err error) {
			*s, err = sai.SwitchSpec(v)
			return err
		},
		build: func(sw *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
			return sai.New(sw, v, bugs)
		},
	})
	for i := range all {
		all[i].Parameters = withCommon(all[i].Parameters)
	}
	return all
}

func findModel(name string) (switchModel, error) {
	models := switchModels()
	i := slices.IndexFunc(models, func(m switchModel) bool { return m.Name == name })
	if i < 0 {
		return switchModel{}, fmt.Errorf("switch model %q is unknown", name)
	}
	return models[i], nil
}

// Options returns what the configuration has to know to read tests of switches.
func Options() config.Options {
	var o config.Options
	Extend(&o)
	return o
}

// Extend adds what the configuration has to know to read tests of switches.
func Extend(o *config.Options) {
	for _, m := range switchModels() {
		o.Switches = append(o.Switches, m.Model)
	}
	for _, t := range transports() {
		o.Transports = append(o.Transports, t.Model)
	}
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
		{Name: "latency-ns", Kind: parameter.Duration, Unit: "ns", Default: "0", Max: 1_000_000_000, Doc: "Forwarding latency beyond store-and-forward."},
		{Name: "ecn-min-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most, Doc: "Bytes in a queue from which on ECN-capable packets are marked with growing probability."},
		{Name: "ecn-max-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most, Doc: "Bytes in a queue from which on all of them are marked; 0: no marking."},
		{Name: "ecn-probability", Kind: parameter.Number, Default: "1", Max: 1, Doc: "Probability just below ecn-max-bytes."},
		{Name: "pfc-classes", Kind: parameter.Integers, Max: 7, Doc: "Lossless traffic classes, under priority flow control."},
		{Name: "pfc-xoff-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "100000", Min: 1, Max: most, Doc: "Bytes of a lossless class from one port beyond which its sender is paused."},
		{Name: "pfc-xon-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most, Doc: "Bytes at which it may go on; 0: half of pfc-xoff-bytes."},
		{Name: "pfc-headroom-bytes", Kind: parameter.Integer, Unit: "bytes", Default: "0", Max: most, Doc: "Bytes that may come after the pause; 0: enough for the slowest reaction on the longest link."},
	}
}

// withCommon appends the common parameters that the model doesn't declare itself.
func withCommon(t parameter.Table) parameter.Table {
	all := slices.Clone(t)
	for _, p := range common() {
		if t.Find(p.Name) < 0 {
			all = append(all, p)
		}
	}
	return all
}

// applyCommon writes the common settings into the description of a switch, as far as they say something.
func applyCommon(v parameter.Values, s *fabric.SwitchSpec) {
	if d := v.Duration("latency-ns"); d > 0 {
		s.Latency = d
	}
	if high := v.Int("ecn-max-bytes"); high > 0 {
		for i := range s.Queues {
			s.Queues[i].Mark = fabric.MarkSpec{MinBytes: v.Int("ecn-min-bytes"), MaxBytes: high, Probability: v.Number("ecn-probability")}
		}
	}
	for _, class := range v.Integers("pfc-classes") {
		s.PFC.Classes |= 1 << class
	}
	if s.PFC.Classes != 0 {
		s.PFC.XOff, s.PFC.XOn, s.PFC.Headroom = v.Int("pfc-xoff-bytes"), v.Int("pfc-xon-bytes"), v.Int("pfc-headroom-bytes")
	}
}
