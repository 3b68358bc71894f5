package switchtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// outage is a test in which switch 0 is out of service from 60 to 160 us.
const outage = `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5}
switch-under-test: {MODEL}
hosts: {HOSTS}
workload: [incast: {senders: 9, packets: 120}, flow: {src: 1, dst: 9, packets: 200, transport: raw}]
changes: [{at-us: 60, switch: 0, state: stopped}, {at-us: 160, switch: 0, state: running}]
`

const (
	saiModel = "model: sai, trim-size: 128, trim-dscp: 48, trim-queue: 6, buffer-bytes: 100000, shapers: [{queues: [6], " +
		"rate-gbps: 10}], " +
		"profiles: [{queues: [0], action: trim, limit-bytes: 12000}]"
	ndpHosts = "transport: ndp, rto-us: 300"
	tcpHosts = "transport: tcp, min-rto-us: 500"
)

func outageTest(model, hosts string) string {
	return strings.NewReplacer("MODEL", model, "HOSTS", hosts).Replace(outage)
}

func violated(o *orchestrator.Outcome) map[string]bool {
	rules := map[string]bool{}
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation {
			rules[f.Rule] = true
		}
	}
	return rules
}

func TestNobodyIsBlamedForWhatAStoppedSwitchLoses(t *testing.T) {
	for name, text := range map[string]string{
		"sai, NDP":           outageTest(saiModel, ndpHosts),
		"sai, decisions":     outageTest(saiModel, ndpHosts) + "taps: {decisions: csv}\n",
		"sai, TCP":           outageTest(saiModel, tcpHosts),
		"droptail, TCP":      outageTest("model: droptail", tcpHosts),
		"a packet held back": outageTest("model: tofino, jitter-ns: 500", ndpHosts),
		"flow control":       outageTest("model: droptail, pfc-classes: [0], pfc-xoff-bytes: 20000", ndpHosts),
		"restarted at once":  strings.Replace(outageTest(saiModel, ndpHosts), "at-us: 160", "at-us: 60", 1),
		"every switch, twice": strings.Replace(outageTest(saiModel, ndpHosts), "changes: [",
			"changes: [{at-us: 200, state: stopped}, {at-us: 260, state: running}, ", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := run(t, parse(t, text)[0])
			if o.Verdict.Exit != orchestrator.ExitPass {
				t.Errorf("%s %v, violated: %v", o.Verdict.Verdict, o.Verdict.Reasons, violated(o))
			}
			var facts []string
			for _, f := range o.Report.Facts {
				facts = append(facts, f.Name+": "+f.Value)
			}
			if text := strings.Join(facts, "\n"); !strings.Contains(text, "out of service: switch 0 stopped at 60") ||
				!strings.Contains(text, "leaf-0 lost ") {
				t.Errorf("the report says\n%s", text)
			}
		})
	}
}

// The outage excuses no other device.
func TestTheGuiltyAreBlamedThoughASwitchStops(t *testing.T) {
	for _, c := range []struct{ model, hosts, rule string }{
		{saiModel + ", bugs: [wrong-size]", ndpHosts, "sai.trim-size"},
		{saiModel + ", bugs: [swaps-ports]", tcpHosts, "sai.headers"},
		{saiModel, ndpHosts + ", bugs: [acks-trimmed]", "ndp.ack-trimmed"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			if found := violated(judge(t, parse(t, outageTest(c.model, c.hosts))[0])); !found[c.rule] {
				t.Errorf("found %v", found)
			}
		})
	}
}

func TestWhatAStoppedSwitchLosesIsCountedAndExplained(t *testing.T) {
	text := outageTest(saiModel, ndpHosts) +
		"taps: {capture: true}\nexpect: {counters: {leaf-0.dropped-stopped: {min: 10}, leaf-1.dropped-stopped: 0}}\n"
	test := parse(t, text)[0]
	p, err := switchtest.New(test)
	if err != nil {
		t.Fatal(err)
	}
	var explained strings.Builder
	if err := p.Explain(&explained); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"switch 0: stopped", "switch 0: running"} {
		if !strings.Contains(explained.String(), want) {
			t.Errorf("want %q in\n%s", want, explained.String())
		}
	}
	o := run(t, test)
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("%v", o.Verdict.Reasons)
	}
	written, err := os.ReadFile(filepath.Join(o.Dir, "config.yml"))
	if err != nil || strings.Count(string(written), "state: ") != 2 {
		t.Errorf("%v\n%s", err, written)
	}
	if notes := strings.Join(rejudge(t, o.Dir).Report.Notes, "\n"); !strings.Contains(notes,
		"ndp is not judged again: a switch was stopped") {
		t.Error(notes)
	}
}

func TestStatesThatNoSwitchCanTakeAreRefused(t *testing.T) {
	base := "name: x\ntopology: {kind: dumbbell, hosts: 4}\nswitch-under-test: {model: droptail}\nworkload: [flow: " +
		"{src: 0, dst: 3, packets: 9}]\nchanges:\n"
	for changes, want := range map[string]string{
		"  - {at-us: 1, state: stopped}\n  - {at-us: 2, switch: 1, state: stopped}\n":     "changes[1].state: switch 1 is stopped already, since 1",
		"  - {at-us: 1, state: running}\n":                                                "changes[0].state: switch 0 is running",
		"  - {at-us: 9, state: stopped}\n  - {at-us: 2, switch: 1, state: running}\n":     "changes[1].state: switch 1 is running",
		"  - {at-us: 1, state: stopped}\n  - {at-us: 2, set: {data-queue-bytes: 9000}}\n": "changes[1]: switch 0 is stopped then",
		"  - {at-us: 1, state: stopped, set: {data-queue-bytes: 9000}}\n":                 "a change sets either parameters or the state",
		"  - {at-us: 1, state: off}\n":                                                    `"off"`,
		"  - {at-us: 1}\n":                                                                "it takes set, state or trunk",
	} {
		_, err := config.ParseSwitchTests("f.yml", []byte(base+changes), configOptions())
		if err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: want %q, got %v", changes, want, err)
		}
	}
}
