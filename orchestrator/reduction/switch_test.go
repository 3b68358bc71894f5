package reduction_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/switchtest"
)

func runner(t *testing.T) reduction.SwitchRunner {
	t.Helper()
	dir, n := t.TempDir(), 0
	return func(ctx context.Context, test *config.SwitchTest) (*orchestrator.Outcome, error) {
		p, err := switchtest.New(test)
		if err != nil {
			return nil, err
		}
		n++
		out := filepath.Join(dir, strconv.Itoa(n))
		defer func() { _ = os.RemoveAll(out) }()
		return switchtest.Run(ctx, p, orchestrator.Options{
			Out: out, Version: "test", Command: "candela", Wall: func() time.Time { return time.Unix(0, 0) }, NoReports: true,
		})
	}
}

func parseSwitch(t *testing.T, text string) *config.SwitchTest {
	t.Helper()
	tests, err := config.ParseSwitchTests("f.yml", []byte(text), switchtest.Options())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return tests[0]
}

// reduceSwitch runs a test and reduces what it failed with.
func reduceSwitch(t *testing.T, text string) (*reduction.SwitchResult, string) {
	t.Helper()
	test, run := parseSwitch(t, text), runner(t)
	o, err := run(t.Context(), test)
	if err != nil {
		t.Fatal(err)
	}
	target, err := reduction.TargetOf(o.Verdict, o.Analysis, "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := reduction.ReduceSwitch(t.Context(), test, target, run,
		reduction.SwitchOptions{Config: switchtest.Options(), Runs: 2000})
	if err != nil {
		t.Fatal(err)
	}
	doc := string(r.Written(switchtest.Options(), "runs/x", "min.yml", "candela"))
	if !r.Complete {
		t.Errorf("not complete after %d runs", r.Runs)
	}
	second := parseSwitch(t, doc)
	if second.Hash() != r.Test.Hash() {
		t.Errorf("the document is another test:\n%s", doc)
	}
	if o, err = run(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if _, _, shown := target.Shown(o.Verdict, o.Analysis); !shown {
		t.Errorf("the smallest test does not show %s: %v\n%s", target, o.Verdict.Reasons, doc)
	}
	return r, doc
}

const manyFlows = `name: many
seed: 9
topology: {kind: single-switch, hosts: 24}
switch-under-test:
  model: sai
  bugs: [wrong-dscp]
  trim-size: 256
  trim-dscp: 48
  trim-queue: 5
  profiles: [{action: trim, queues: [0], limit-bytes: 20000}]
hosts: {transport: raw, packet-size: 1500}
workload:
  - incast: {senders: 8, receivers: 2, packets: 200}
  - flow: {src: 12, dst: 13, packets: 50}
  - permutation: {shift: 3, packets: 5, start-us: 300}
  - ping: {src: 14, dst: 15, count: 5}
changes:
  - {at-us: 500, set: {trim-size: 128}}
`

func TestAFailingTestOfASwitchIsReducedToTheFlowsThatOverflowItsQueue(t *testing.T) {
	r, doc := reduceSwitch(t, manyFlows)
	if r.Target.Rule != "sai.dscp" || len(r.Test.Changes) != 0 || r.Test.Topology.HostCount() > 4 {
		t.Errorf("%s, %d changes, %d hosts\n%s", r.Target, len(r.Test.Changes), r.Test.Topology.HostCount(), doc)
	}
	p, err := switchtest.New(r.Test)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Flows) > 2 {
		t.Errorf("%d flows; two senders overflow a queue\n%s", len(p.Flows), doc)
	}
	for _, want := range []string{"# Smallest test found that shows sai.dscp, from runs/x",
		"# Reproduce: candela run min.yml", "bugs: [wrong-dscp]"} {
		if !strings.Contains(doc, want) {
			t.Errorf("the test lacks %q:\n%s", want, doc)
		}
	}
	if strings.Contains(doc, "framing-bytes") {
		t.Errorf("the test spells out defaults:\n%s", doc)
	}
	if _, second := reduceSwitch(t, manyFlows); second != doc {
		t.Errorf("another result the second time:\n%s\n%s", doc, second)
	}
}

func TestAFailedExpectationOfASwitchTestIsPreserved(t *testing.T) {
	r, doc := reduceSwitch(t, `name: drops
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4}
switch-under-test: {model: droptail, data-queue-bytes: 15000}
hosts: {transport: raw}
workload:
  - incast: {senders: 6, packets: 100}
expect: {drops: 0, trims: 0, total-goodput-gbps: {min: 0}}
`)
	if r.Target.Rule != "" || len(r.Test.Expect.Metrics) != 1 || r.Test.Expect.Metrics[0].Name != "drops" {
		t.Errorf("%s\n%s", r.Target, doc)
	}
}

func TestATestOfASwitchThatDoesNotFailAnyMoreIsRefused(t *testing.T) {
	test := parseSwitch(t, strings.Replace(manyFlows, "bugs: [wrong-dscp]", "bugs: []", 1))
	_, err := reduction.ReduceSwitch(t.Context(), test, reduction.Target{Rule: "sai.dscp"}, runner(t),
		reduction.SwitchOptions{Config: switchtest.Options()})
	if err == nil || !strings.Contains(err.Error(), "does not show sai.dscp") {
		t.Errorf("error %v", err)
	}
}
