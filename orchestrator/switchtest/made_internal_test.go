package switchtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/analyzers/decision"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// answering is a family whose switch next to the receiver answers every packet itself, over a path drawn from all
// candidates, as a lock manager would. Its bugs answer without a record, without a cause, or twice.
func answering(makes bool) switches.Family {
	bug := func(name, rule string) parameter.Bug { return parameter.Bug{Name: name, Doc: "Of a test.", Rule: rule} }
	return switches.Family{
		Name: "answering", Makes: makes,
		Models: []switches.Model{{
			Model: parameter.Model{Name: "answering", Doc: "Of a test.", Bugs: []parameter.Bug{
				bug("no-record", forwarding.MadeUnasked), bug("no-cause", forwarding.MadeUnasked),
				bug("copies", forwarding.UnmatchedPacket)}},
			Configure: func(_ parameter.Values, s *fabric.SwitchSpec) error {
				s.Queues = []fabric.QueueSpec{{MaxBytes: 1 << 20}}
				return nil
			},
			New: func(_ *fabric.Switch, _ parameter.Values, bugs []string) (fabric.Mechanism, error) {
				return &answerer{bugs: bugs}, nil
			},
		}},
		Decisions: []trace.DecisionKind{
			{Name: "queued", Outcome: trace.OutcomeQueued},
			{Name: "answered", Outcome: trace.OutcomeQueued, Copy: true, Causes: []string{"request"}},
		},
	}
}

type answerer struct {
	fabric.TailDrop
	bugs    []string
	answers int
}

func (m *answerer) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	const queued, answered = 0, 1
	decide := func(p *fabric.Packet, v fabric.Verdict, kind, cause uint8) {
		sw.Decide(now, p, trace.Decision{Kind: kind, Cause: cause, Port: int(v.Port), Queue: int(v.Queue),
			Occupancy: int64(sw.Port(int(v.Port)).Queue(int(v.Queue)).Bytes())})
	}
	if to, local := sw.Port(int(v.Port)).HostAt(); local && to == p.Dst && p.Flags&fabric.Made == 0 {
		a := sw.Make(now, fabric.Header{Src: p.Dst, Dst: p.Src, Size: 100, Protocol: fabric.Raw, Flow: p.Flow,
			Number: p.Number})
		ways := sw.Candidates(a)
		back := v.To(sw.Port(int(ways[sw.Rand().IntN(len(ways))])), 0)
		m.answers++
		odd := m.answers%8 == 0
		if !odd || !slices.Contains(m.bugs, "no-record") {
			cause := uint8(0)
			if odd && slices.Contains(m.bugs, "no-cause") {
				cause = 9
			}
			decide(a, back, answered, cause)
		}
		if odd && slices.Contains(m.bugs, "copies") {
			twin := sw.Copy(a, 0)
			sw.Place(now, a, back)
			decide(twin, back, answered, 0)
			sw.Place(now, twin, back)
		} else {
			sw.Place(now, a, back)
		}
	}
	decide(p, v, queued, 0)
	return v
}

// register registers a family until the test ends.
func register(t *testing.T, f family) {
	t.Helper()
	others := families
	families = func() []family { return append(others(), f) }
	t.Cleanup(func() { families = others })
}

// A made packet with a cause is correct; without a cause, or copied, it is invented.
func TestPacketsThatASwitchMakesAreJudgedByTheirCause(t *testing.T) {
	const text = `
name: made
topology: {kind: leaf-spine, leaves: 2, spines: 3, hosts-per-leaf: 2, routing: spray}
switch-under-test: {model: answering, bugs: [BUG]}
hosts: {transport: raw}
workload: [incast: {senders: 3, packets: 200}]
taps: {TAPS}
`
	for _, c := range []struct {
		name, bug, taps string
		makes           bool
		want            []string // rules that are violated
	}{
		{"with records", "", "decisions: csv", true, nil},
		{"from the taps alone", "", "", true, nil},
		{"a family that makes none", "", "", false, []string{forwarding.MadeUnasked}},
		{"some without a record", "no-record", "decisions: csv", true, []string{decision.Missing, forwarding.MadeUnasked}},
		{"some without a cause", "no-cause", "decisions: csv", true, []string{forwarding.MadeUnasked}},
		{"some sent twice", "copies", "", true, []string{forwarding.UnmatchedPacket}},
	} {
		t.Run(c.name, func(t *testing.T) {
			register(t, family{Family: answering(c.makes)})
			tests, err := config.ParseSwitchTests("f.yml",
				[]byte(strings.NewReplacer("BUG", c.bug, "TAPS", c.taps).Replace(text)), Options())
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(tests[0])
			if err != nil {
				t.Fatal(err)
			}
			o, err := Run(t.Context(), p, orchestrator.Options{Out: t.TempDir(), Wall: time.Now, Version: "test"})
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, f := range o.Analysis.Findings {
				found = append(found, f.Rule)
			}
			slices.Sort(found)
			if found = slices.Compact(found); !slices.Equal(found, c.want) {
				t.Errorf("found %v, want %v", found, c.want)
			}
			if drawn := o.Report.Journeys; len(drawn) != len(c.want) {
				t.Errorf("%d of %d findings are drawn", len(drawn), len(c.want))
			}
			if len(c.want) == 0 && (o.Verdict.Exit != orchestrator.ExitPass || o.Analysis.Coverage["switch"]["made"] != 600) {
				t.Errorf("%v, %d packets made", o.Verdict, o.Analysis.Coverage["switch"]["made"])
			}
		})
	}
}

// losing is a family whose switch loses, or sends twice, a packet of each thousand without a word.
func losing() switches.Family {
	return switches.Family{
		Name: "losing",
		Models: []switches.Model{{
			Model: parameter.Model{Name: "losing", Doc: "Of a test.", Bugs: []parameter.Bug{
				{Name: "loses", Doc: "Of a test.", Rule: forwarding.UnmatchedPacket},
				{Name: "keeps-one", Doc: "Of a test.", Rule: forwarding.UnmatchedPacket}}},
			Configure: func(_ parameter.Values, s *fabric.SwitchSpec) error {
				s.Queues = []fabric.QueueSpec{{MaxBytes: 1 << 20}}
				return nil
			},
			New: func(_ *fabric.Switch, _ parameter.Values, bugs []string) (fabric.Mechanism, error) {
				return &loser{bugs: bugs}, nil
			},
		}},
	}
}

type loser struct {
	fabric.TailDrop
	bugs []string
	seen int
}

func (m *loser) Ingress(_ clock.Time, _ *fabric.Switch, _ *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	m.seen++
	if slices.Contains(m.bugs, "loses") && m.seen%100 == 7 || slices.Contains(m.bugs, "keeps-one") && m.seen == 3 {
		return v.Consumed() // and forgotten
	}
	return v
}

// A switch that loses packets without counting them fails, whatever is judged, whether the run drains or not.
func TestASwitchThatLosesPacketsSilentlyFailsInEveryMode(t *testing.T) {
	register(t, family{Family: losing()})
	const text = `
name: lost
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 3}
switch-under-test: {model: losing, bugs: [BUG]}
hosts: {transport: raw}
workload: [incast: {senders: 5, packets: 100}, flow: {src: 1, dst: 4, rate-gbps: 3}]
duration-us: END
judge: JUDGE
expect: {unfinished: {min: 0}}
`
	for _, judge := range []string{"full", "off", "{flows: 0.5, ports: 4}"} {
		for bug, want := range map[string]orchestrator.Exit{"": orchestrator.ExitPass, "loses": orchestrator.ExitFail,
			"keeps-one": orchestrator.ExitFail} {
			for _, end := range []string{"30", "400"} {
				tests, err := config.ParseSwitchTests("f.yml",
					[]byte(strings.NewReplacer("BUG", bug, "JUDGE", judge, "END", end).Replace(text)), Options())
				if err != nil {
					t.Fatal(err)
				}
				p, err := New(tests[0])
				if err != nil {
					t.Fatal(err)
				}
				o, err := Run(t.Context(), p, orchestrator.Options{Out: t.TempDir(), Wall: time.Now, Version: "test"})
				if err != nil {
					t.Fatal(err)
				}
				if said := strings.Contains(strings.Join(o.Verdict.Reasons, "\n"), "conservation: "); o.Verdict.Exit != want ||
					said != (bug != "") {
					t.Errorf("judge %s, bug %q, %s us: %+v", judge, bug, end, o.Verdict)
				}
			}
		}
	}
}
