package switchtest

import (
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// nicTest returns a test whose NICs have a model; changes are pairs of old and new text.
func nicTest(changes ...string) string {
	return strings.NewReplacer(changes...).Replace(`
name: nics
topology: {kind: single-switch, hosts: 3, link: {gbps: 10}}
switch-under-test: {model: droptail, data-queue-bytes: 3000000}
hosts: {transport: raw, nic: {model: droptail, data-queue-packets: 8, backlog-packets: 32}}
workload: [flow: {src: 1, dst: 0, packets: 300}, flow: {src: 2, dst: 0, packets: 1}]
`)
}

func planNICs(text string) (*Plan, error) {
	tests, err := config.ParseSwitchTests("f.yml", []byte(text), Options())
	if err != nil {
		return nil, err
	}
	return New(tests[0])
}

func runNICs(t *testing.T, text string) (*Plan, *orchestrator.Outcome) {
	t.Helper()
	p, err := planNICs(text)
	if err != nil {
		t.Fatal(err)
	}
	return p, execute(t, p)
}

func TestAModelOnNICsDropsMarksAndTrims(t *testing.T) {
	for name, c := range map[string]struct {
		hosts, expect string
	}{
		"a full queue drops": {"raw, nic: {model: droptail, data-queue-packets: 8, backlog-packets: 32}",
			"nic-1.dropped-tail: {min: 100}, nic-1.port-0.queue-0.max-packets: 8, switch.dropped-tail: 0, " +
				"nic-2.dropped-tail: 0"},
		"a backlog within the queue does not": {"raw, nic: {model: droptail, data-queue-packets: 8, backlog-packets: 8}",
			"nic-1.dropped-tail: 0, switch.port-0.sent: 301"},
		"a long queue marks": {"{transport: raw, ecn: ect0, nic: {model: droptail, ecn-min-bytes: 6000, " +
			"ecn-max-bytes: 6000}}",
			"nic-1.port-0.queue-0.marked: {min: 250}, nic-2.port-0.queue-0.marked: 0, switch.port-0.queue-0.marked: 0"},
		"NDP's queue trims": {"raw, nic: {model: ndp-ideal, data-queue-bytes: 12000, trim-last-percent: 0}",
			"nic-1.trims-overflow: {min: 100}, switch.trims: 0, flow-1.headers: {min: 100}"},
		"SAI's trims by its profiles": {"raw, nic: {model: sai, trim-size: 128, trim-queue: 6, profiles: [{queues: [0], " +
			"limit-bytes: 6000, action: trim}]}", "nic-1.dropped-trimmed: {min: 100}, flow-1.headers: {min: 100}"},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := c.hosts
			if !strings.HasPrefix(hosts, "{") {
				hosts = "{transport: " + hosts + "}"
			}
			_, o := runNICs(t, nicTest("{transport: raw, nic: {model: droptail, data-queue-packets: 8, backlog-packets: 32}}",
				hosts)+"expect: {counters: {"+c.expect+"}}\n")
			if o.Verdict.Exit != 0 || len(o.Analysis.Findings) > 0 {
				t.Errorf("%v %v", o.Verdict.Reasons, o.Analysis.Findings)
			}
		})
	}
}

// Correct hosts of every transport are not blamed for packets that their NICs drop, trim or delay.
func TestHostsAreNotBlamedForTheirNICs(t *testing.T) {
	for _, transport := range []string{"ndp", "raw", "tcp"} {
		for _, nic := range []string{"{model: droptail, data-queue-packets: 6}", "{model: ndp-ideal, data-queue-bytes: 9000}",
			"{model: sai}", "{model: cp}"} {
			_, o := runNICs(t, nicTest("hosts: {transport: raw, nic: {model: droptail, data-queue-packets: 8, "+
				"backlog-packets: 32}}", "hosts: {transport: "+transport+", nic: "+nic+"}"))
			for _, f := range o.Analysis.Findings {
				if f.Rule == "ndp.silent-loss" && strings.Contains(nic, "droptail") {
					continue // of the network: a NIC may drop packets that NDP requires to be trimmed
				}
				t.Errorf("%s with %s: %s %s", transport, nic, f.Rule, f.Message)
			}
		}
	}
}

// A model's bug on NICs is found by its family's judge or by a rule for all switches, or reported as not judged.
func TestABugOnNICsIsCaughtOrSaidNotToBeJudged(t *testing.T) {
	const droptail = "{model: droptail, data-queue-packets: 8, backlog-packets: 32}"
	register(t, family{unfair(), newOrderJudge, []analyzers.Rule{{ID: "order.kept", Statement: "First in, first out."}}})
	for bug, want := range map[string]string{"": "", "overtakes": "order.kept", "doubles": forwarding.UnmatchedPacket} {
		p, o := runNICs(t, nicTest(droptail, "{model: unfair, bugs: ["+bug+"]}"))
		blamed := false
		for _, f := range o.Analysis.Findings {
			blamed = blamed || f.Rule == want && strings.Contains(f.Message, "nic-1")
			if want == "" {
				t.Errorf("%s %s", f.Rule, f.Message)
			}
		}
		if text := p.nicsText(); blamed != (want != "") || !strings.Contains(text, "judged by switch and order") {
			t.Errorf("bug %q: want %q, found %v; %s", bug, want, o.Analysis.Findings, text)
		}
	}
	t.Run("rules that do not apply are named", func(t *testing.T) {
		p, o := runNICs(t, nicTest(droptail, "{model: sai, bugs: [wrong-ttl]}"))
		if text := p.nicsText(); !strings.Contains(text, "seeded bugs wrong-ttl") ||
			!strings.Contains(text, "not judged there: the ") || !strings.Contains(text, " rules sai.*") {
			t.Error(text)
		}
		for _, f := range o.Analysis.Findings {
			if strings.HasPrefix(f.Rule, "sai.") {
				t.Errorf("%s is judged", f.Rule)
			}
		}
	})
}

func TestWhatCannotBeOnNICsIsRefused(t *testing.T) {
	const model = "model: droptail, data-queue-packets: 8"
	for want, c := range map[string][]string{
		`hosts.nic.model: is "tofino", which is not possible here: it recirculates packets`: {model, "model: tofino"},
		`hosts.nic.model: is "sfc", which is not possible here: it returns headers`:         {model, "model: sfc"},
		`hosts.nic.latency-ns`:                         {model, "model: droptail, latency-ns: 5"},
		`hosts.nic.model: is missing`:                  {model + ", ", ""},
		`hosts.nic.backlog-packets: 0 is out of range`: {"backlog-packets: 32", "backlog-packets: 0"},
		"class 3 is lossless":                          {"3000000}", "3000000, pfc-classes: [3]}"},
		"decision records are of one family": {"workload:", "taps: {decisions: csv}\nworkload:", model, "model: sai",
			"model: droptail, data-queue-bytes: 3000000", "model: ndp-ideal"},
		"hosts.nic: nic-0: ": {model, "model: sai, profiles: [{ports: [4], queues: [0], limit-bytes: 1}]"},
	} {
		if _, err := planNICs(nicTest(c...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	tests, err := config.ParseSwitchTests("f.yml", []byte(nicTest()), Options())
	if err != nil {
		t.Fatal(err)
	}
	const live = "f.yml:5:30: hosts.nic: not on testbed netns"
	if _, err := NewLive(tests[0]); err == nil || !strings.Contains(err.Error(), live) {
		t.Error(err)
	}
}

// The written form keeps NICs; for a test without the key it has neither the key nor NICs.
func TestNICsInTheWrittenForm(t *testing.T) {
	p, err := planNICs(nicTest())
	if err != nil {
		t.Fatal(err)
	}
	again, err := planNICs(string(p.Test.YAML()))
	if err != nil || again.Test.Hash() != p.Test.Hash() || again.Test.Hosts.NIC.Backlog != 32 {
		t.Errorf("%v\n%s", err, p.Test.YAML())
	}
	none, err := planNICs(nicTest(", nic: {model: droptail, data-queue-packets: 8, backlog-packets: 32}", ""))
	if err != nil || strings.Contains(string(none.Test.YAML()), "nic:") || len(none.Spec.NIC.Queues) > 0 {
		t.Errorf("%v\n%s", err, none.Test.YAML())
	}
	var b strings.Builder
	const line = "nics      model droptail on the NIC of every host"
	if err := p.Explain(&b); err != nil || !strings.Contains(b.String(), line) {
		t.Errorf("%v\n%s", err, &b)
	}
}

// unfair is tail drop with bugs; its family judges NICs.
func unfair() switches.Family {
	return switches.Family{Name: "order", NICs: true, Models: []switches.Model{{
		Model: parameter.Model{Name: "unfair", Doc: "Of a test.", Bugs: []parameter.Bug{
			{Name: "overtakes", Doc: "Later packets may leave first.", Rule: "order.kept"},
			{Name: "doubles", Doc: "Sends all twice.", Rule: forwarding.UnmatchedPacket}}},
		Configure: func(_ parameter.Values, s *fabric.SwitchSpec) error {
			s.Queues = make([]fabric.QueueSpec, 2)
			return nil
		},
		New: func(_ *fabric.Switch, _ parameter.Values, bugs []string) (fabric.Mechanism, error) {
			return unfairly{bugs: bugs}, nil
		},
	}}}
}

type unfairly struct {
	fabric.TailDrop
	bugs []string
}

func (m unfairly) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	v.Queue = 0
	if slices.Contains(m.bugs, "overtakes") {
		v.Queue = uint8(p.Number % 2)
	}
	if slices.Contains(m.bugs, "doubles") {
		sw.Place(now, sw.Copy(p, 0), v)
	}
	return v
}

// orderJudge checks that packets leave in the order of arrival. It observes NICs only.
type orderJudge struct {
	analyzers.SwitchJudge
	report *analyzers.Reporter
	view   analyzers.SwitchView
	waits  [][]uint64
}

func newOrderJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	rules := []analyzers.Rule{{ID: "order.kept", Statement: "First in, first out."}}
	return &orderJudge{nil, analyzers.NewReporter("order", rules), v, make([][]uint64, v.Switches())}, nil
}

func (j *orderJudge) Observe(t *trace.SwitchTap) {
	if t.Stage == trace.Entered {
		j.waits[t.Switch] = append(j.waits[t.Switch], t.ID)
		return
	}
	i := slices.Index(j.waits[t.Switch], t.ID)
	if i < 0 {
		return // a copy
	}
	j.waits[t.Switch] = slices.Delete(j.waits[t.Switch], i, i+1)
	if i > 0 && t.Stage == trace.Left && j.report.Wants("order.kept", 0) {
		name := j.view.SwitchName(t.Switch)
		why := cause.Of("order.kept", "overtaken", "%v sent packet %v before an older one.", cause.Switch(name),
			cause.Count(t.ID))
		j.report.Tell(why, analyzers.Finding{Packets: []uint64{t.ID}, Message: name})
	}
}

func (j *orderJudge) Finish() (analyzers.Result, error) {
	return analyzers.Result{Findings: j.report.Findings()}, nil
}
