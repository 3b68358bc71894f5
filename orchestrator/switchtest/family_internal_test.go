package switchtest

import (
	"strings"
	"testing"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// ranker gives every packet the rank of its flow, as a weighted scheduler would, and drops packets at a fixed interval.
type ranker struct {
	fabric.TailDrop
	unlucky int
	reason  fabric.Reason
	seen    int
}

func (m *ranker) Ingress(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	p.SetRank(uint64(p.Flow))
	if m.seen++; m.unlucky > 0 && m.seen%m.unlucky == 0 {
		return v.Drop(m.reason)
	}
	return v
}

// planWith plans a test of two raw senders through the given model.
func planWith(t *testing.T, m switches.Model, order fabric.Order, reasons ...analyzers.DropReason) (*Plan, error) {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte(`
name: x
topology: {kind: single-switch, hosts: 3}
switch-under-test: {model: droptail, data-queue-bytes: 100000000}
hosts: {transport: raw}
workload: [incast: {senders: 2, packets: 1650}]
`), Options())
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(tests[0])
	if err != nil {
		t.Fatal(err)
	}
	of, known := *p.family, p.model
	m.Model = known.Model
	m.Configure = func(v parameter.Values, s *fabric.SwitchSpec) error {
		err := known.Configure(v, s)
		s.Queues[0].Order = order
		return err
	}
	of.Reasons, of.Counters = reasons, nil
	p.family, p.model = &of, m
	p.Spec, err = p.network()
	return p, err
}

func execute(t *testing.T, p *Plan) *orchestrator.Outcome {
	t.Helper()
	o, err := Run(t.Context(), p, orchestrator.Options{Out: t.TempDir(), Wall: func() time.Time { return time.Unix(0, 0) },
		NoReports: true,
		Version:   "test", Command: "candela"})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestASchedulerByRankWithoutASourceOfRanksIsRefused(t *testing.T) {
	m := switches.Model{New: func(*fabric.Switch, parameter.Values, []string) (fabric.Mechanism, error) {
		return fabric.TailDrop{}, nil
	}}
	if _, err := planWith(t, m, fabric.ByRank); err == nil || !strings.Contains(err.Error(), "nothing gives them ranks") {
		t.Errorf("refused with %v", err)
	}
	m.Ranks = true // a false declaration
	p, err := planWith(t, m, fabric.ByRank)
	if err != nil {
		t.Fatal(err)
	}
	o := execute(t, p)
	if o.Verdict.Exit != orchestrator.ExitInfrastructure ||
		!strings.Contains(strings.Join(o.Verdict.Reasons, " "), "must give every packet a rank") {
		t.Errorf("%+v", o.Verdict)
	}
}

// Packets of one flow share a rank. They are not duplicates, and the flow of the lower rank goes first.
func TestRanksAreNotIdentities(t *testing.T) {
	m := switches.Model{Ranks: true,
		New: func(*fabric.Switch, parameter.Values, []string) (fabric.Mechanism, error) { return new(ranker), nil }}
	p, err := planWith(t, m, fabric.ByRank)
	if err != nil {
		t.Fatal(err)
	}
	o := execute(t, p)
	if o.Verdict.Exit != 0 {
		t.Fatalf("%+v", o.Verdict)
	}
	goodput := func(flow int) int64 {
		for _, m := range o.Analysis.Metrics {
			if m.Name == "flows.goodput" && m.Count == 2 {
				return []int64{m.Min, m.Max}[flow]
			}
		}
		t.Fatal("no goodput of two flows")
		return 0
	}
	if low, high := goodput(0), goodput(1); high < low*3/2 {
		t.Errorf("goodput %d and %d b/s: ranks made no difference", low, high)
	}
	for _, m := range o.Analysis.Metrics {
		if m.Name == "flows.fct" && m.Count != 2 {
			t.Errorf("%d flows finished", m.Count)
		}
	}
}

func TestReasonsOfAModelsOwnAreCountedByTheirNames(t *testing.T) {
	m := switches.Model{New: func(*fabric.Switch, parameter.Values, []string) (fabric.Mechanism, error) {
		return &ranker{unlucky: 10, reason: fabric.ReasonOwn + 1}, nil
	}}
	reasons := []analyzers.DropReason{{Name: "unfair"}, {Name: "unlucky"}}
	p, err := planWith(t, m, fabric.ByArrival, reasons...)
	if err != nil {
		t.Fatal(err)
	}
	p.Test.Expect.Counters = []config.CounterExpect{exactly("switch.dropped-unlucky", 330),
		exactly("switch.dropped-unfair", 0)}
	if o := execute(t, p); o.Verdict.Exit != 0 {
		t.Errorf("%+v", o.Verdict)
	}
	if p, err = planWith(t, m, fabric.ByArrival, reasons[:1]...); err != nil {
		t.Fatal(err)
	}
	if o := execute(t, p); !strings.Contains(strings.Join(o.Verdict.Reasons, " "), "does not declare") {
		t.Errorf("an undeclared reason: %+v", o.Verdict)
	}
}

func exactly(name string, n int64) config.CounterExpect {
	return config.CounterExpect{Name: name, Min: &n, Max: &n}
}
