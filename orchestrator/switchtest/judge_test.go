package switchtest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// flowsOf reads flows.json of a run.
func flowsOf(t testing.TB, dir string) *switchtest.FlowsDocument {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "flows.json"))
	doc := new(switchtest.FlowsDocument)
	if err == nil {
		err = json.Unmarshal(data, doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// needs returns what each rule needs.
func needs() map[string]analyzers.Needs {
	of := make(map[string]analyzers.Needs)
	for _, r := range switchtest.Rules() {
		of[r.ID] = r.Needs
	}
	return of
}

// sampled runs a test as it is and with a share of its flows and ports judged, and compares: what is judged of the
// second is what the first says of it, and flows end at the same time.
func sampled(t testing.TB, text, judge string, whole func(f *analyzers.Finding) bool) (found int) {
	t.Helper()
	full, part := outcome(t, text), outcome(t, text+"judge: "+judge+"\n")
	p, err := switchtest.New(parse(t.(rapid.TB), text+"judge: "+judge+"\n")[0])
	if err != nil {
		t.Fatal(err)
	}
	of := needs()
	var want, got []analyzers.Finding
	if full.Analysis == nil { // not valid
		return 0
	}
	if part.Analysis != nil {
		got = part.Analysis.Findings
	}
	for _, f := range full.Analysis.Findings {
		if n := of[f.Rule]; n == analyzers.NeedsFlow && p.Follows(f.Connection) || n == analyzers.NeedsSwitch && whole(&f) {
			want = append(want, f)
		}
	}
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("judge: %s\n%s\ngot  %s\nwant %s", judge, text, lines(got), lines(want))
	}
	a, b := flowsOf(t, full.Dir), flowsOf(t, part.Dir)
	if a.EndNS != b.EndNS || a.Hops != b.Hops || a.Sent != b.Sent {
		t.Errorf("the run ends at %d after %d hops, want %d and %d\n%s", b.EndNS, b.Hops, a.EndNS, a.Hops, text)
	}
	for i := range a.Flows {
		x, y := a.Flows[i], b.Flows[i]
		x.Headers, x.Returned, x.Dropped, x.StaleLengths = y.Headers, 0, 0, 0 // only taps see them
		// duplicates that came after the end of the flow are not counted
		x.Duplicates = y.Duplicates
		if strings.Contains(text, "bugs") {
			x.Reordered = y.Reordered // as guilty endpoints count
		}
		if x.Kind != "transfer" {
			x.Sent, x.Whole, x.Payload, x.Duplicates, x.Reordered = y.Sent, y.Whole, y.Payload, y.Duplicates, y.Reordered
		}
		if !x.Finished || x.Transport == "tcp" || x.Transport == "raw" { // what was under way at the end
			x.Sent, x.Whole, x.Duplicates, x.Reordered = y.Sent, y.Whole, y.Duplicates, y.Reordered
		}
		if !reflect.DeepEqual(x, y) {
			t.Errorf("%s\ngot  %+v\nwant %+v", text, y, x)
		}
	}
	return len(want)
}

func outcome(t testing.TB, text string) *orchestrator.Outcome {
	t.Helper()
	p, err := switchtest.New(parse(t.(rapid.TB), text)[0])
	if err != nil {
		t.Fatal(err)
	}
	o, err := switchtest.Run(t.Context(), p, options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func lines(list []analyzers.Finding) string {
	var b strings.Builder
	for i := range list {
		fmt.Fprintf(&b, "\n  %+v", list[i])
	}
	return b.String()
}

func never(*analyzers.Finding) bool { return false }

// Of guilty hosts a sample says what the whole says of the same flows, and of correct ones nothing.
func TestSampledFlowsAreJudgedAsAllFlows(t *testing.T) {
	runtimetest.SkipRace(t)
	found := 0
	for _, bug := range ndp.Catalogue() {
		if testing.Short() && bug.Bug%3 != 0 || !silence() && bug.Bug%2 != 0 {
			continue
		}
		found += sampled(t, provoke(bug.Bug, bug.Name), "{flows: 0.5, ports: 0}", never)
	}
	for _, bug := range withoutECN() {
		if testing.Short() && bug.Bug%3 != 0 || !silence() && bug.Bug%2 != 0 {
			continue
		}
		found += sampled(t, fmt.Sprintf(`
topology: {kind: single-switch, hosts: 6, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: droptail, data-queue-bytes: 30000}
hosts: {transport: tcp, min-rto-us: 1000, bugs: [%s]}
workload: [incast: {senders: 5, packets: 200, stagger-us: 3}]
deadline-us: 200000
`, bug.Name), "{flows: 0.5, ports: 0}", never)
	}
	if found < 20 {
		t.Errorf("%d findings are compared", found)
	}
}

// Flows get their connections in the order of their numbers, which is not that of their starts: paths are drawn by
// connection.
func TestFlowsOfSeveralItemsAreThoseOfJudgeFull(t *testing.T) {
	sampled(t, `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}}
switch-under-test: {model: ndp-ideal}
hosts: {transport: ndp, paths: 2}
workload:
  - permutation: {bytes: 60000, start-us: 40}
  - incast: {senders: 6, bytes: 60000, stagger-us: 5}
deadline-us: 200000
`, "off", never)
}

// A switch all of whose ports are seen is judged as if everything were.
func TestSwitchesAtSampledPortsAreJudgedAsAllSwitches(t *testing.T) {
	found := 0
	for _, bug := range []string{"wrong-size", "wrong-dscp", "wrong-ttl"} {
		text := fmt.Sprintf(`
topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts-per-leaf: 4}
switch-under-test:
  model: sai
  trim-size: 256
  trim-dscp: 48
  trim-queue: 6
  profiles: [{queues: [1], action: trim, limit-bytes: 20000}, {queues: [6], limit-bytes: 200000}]
  bugs: [%s]
hosts: {transport: raw, packet-size: 1024}
workload: [incast: {senders: 7, packets: 100, dscp: 8}]
`, bug)
		// leaf-0 is seen whole, then all ports that there are
		for _, judge := range []string{"{flows: 0, ports: [leaf-0, spine-0.port-1]}", "{flows: 0, ports: 12}"} {
			found += sampled(t, text, judge, func(f *analyzers.Finding) bool {
				return judge == "{flows: 0, ports: 12}" || strings.Contains(f.Message+f.Expected+f.Actual+fmt.Sprint(f.Cause), "leaf-0")
			})
		}
	}
	if found == 0 {
		t.Error("no findings are compared")
	}
}

// On random networks a sample disturbs nothing and blames nobody whom the whole does not blame.
func TestSamplesOfRandomNetworksSayWhatTheWholeSays(t *testing.T) {
	networks := 12
	if testing.Short() {
		networks = 4
	}
	draw := rapid.Custom(drawTest)
	for seed := range networks {
		text := strings.TrimPrefix(draw.Example(seed), "name: x\n")
		if _, err := switchtest.New(parse(t, text)[0]); err != nil {
			continue
		}
		for _, judge := range []string{"off", "{flows: 0.3, ports: 5}", "{flows: full, ports: 0}"} {
			sampled(t, text, judge, never)
		}
	}
}

const guilty = `
topology: {kind: single-switch, hosts: 9}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 12000}
hosts: {transport: ndp, bugs: [forgets-ack]}
workload: [incast: {senders: 8, packets: 100}]
`

// With judge: off the verdict is that of expectations, counters and conservation, and the run says what was not judged.
func TestOffLeavesExpectations(t *testing.T) {
	verdict := func(more string) *orchestrator.Outcome { return outcome(t, guilty+more) }
	if o := verdict(""); o.Verdict.Exit != orchestrator.ExitFail {
		t.Errorf("the bug is not caught: %+v", o.Verdict)
	}
	if o := verdict("judge: off\n"); o.Verdict.Exit != orchestrator.ExitInvalid ||
		!strings.Contains(strings.Join(o.Verdict.Reasons, ""), "nothing to judge") {
		t.Errorf("nothing is judged, and the verdict is %+v", o.Verdict)
	}
	off := verdict("judge: off\nexpect: {unfinished: 0, counters: {flows.finished: 8}}\n")
	if off.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("all flows finished, and the verdict is %+v", off.Verdict)
	}
	for _, expect := range []string{"{fct-us: {max: 1}}", "{counters: {flows.finished: 9}}",
		"{flows: [{flows: 3, fct-us: 1}]}"} {
		if o := verdict("judge: off\nexpect: " + expect + "\n"); o.Verdict.Exit != orchestrator.ExitFail {
			t.Errorf("%s: %+v", expect, o.Verdict)
		}
	}
	var doc orchestrator.RunDocument
	data, err := os.ReadFile(filepath.Join(off.Dir, "run.json"))
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	named := func(rule string) bool {
		return slices.ContainsFunc(doc.NotJudged, func(s string) bool { return strings.HasPrefix(s, rule+": ") })
	}
	if err != nil || !named("ndp.ack-missing") || !named("switch.unmatched-packet") || named("tcp.backoff") {
		t.Errorf("run.json says that these are not judged: %v, %v", doc.NotJudged, err)
	}
	written, err := os.ReadFile(filepath.Join(off.Dir, "config.yml"))
	if err != nil || !strings.Contains(string(written), "judge: off\n") &&
		!strings.Contains(string(written), "judge: \"off\"\n") {
		t.Errorf("config.yml: %v\n%s", err, written)
	}
}

// What is not seen can't be expected.
func TestExpectationsOfWhatIsNotSeenAreRefused(t *testing.T) {
	for _, c := range []struct{ more, want string }{
		{"judge: off\nexpect: {trims: 0}\n", "expect.trims"},
		{"judge: off\nexpect: {ndp: fail}\n", "expect.ndp"},
		{"judge: {flows: 0, ports: [sw9]}\n", "no switch sw9"},
		{"judge: {ports: [switch.port-9]}\n", "no port 9"},
	} {
		if _, err := switchtest.New(parse(t, guilty+c.more)[0]); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.more, err)
		}
	}
}

// More flows than can be judged one by one run if they are not: their books are statistics.
func TestMoreFlowsThanAreJudgedOneByOne(t *testing.T) {
	if testing.Short() {
		t.Skip("70,000 flows")
	}
	const text = `
topology: {kind: single-switch, hosts: 16}
switch-under-test: {model: ndp-ideal}
hosts: {transport: ndp}
workload:
  - flow: {src: 1, dst: 0, count: 35000, packets: 1, stagger-us: 1}
  - flow: {src: 3, dst: 2, count: 35000, packets: 1, stagger-us: 1}
`
	o := outcome(t, text)
	doc := flowsOf(t, o.Dir)
	if s := doc.Statistics; o.Verdict.Exit != orchestrator.ExitPass || s.Flows != 70_000 || s.Finished != 70_000 ||
		s.CompletedFraction != 1 || len(doc.Flows) != 0 || s.Groups[0].FCT.Count != 70_000 {
		t.Errorf("%+v\n%+v", o.Verdict, s)
	}
	config, err := os.ReadFile(filepath.Join(o.Dir, "config.yml"))
	if err != nil || !strings.Contains(string(config), "judge: {flows: 0.0585") {
		t.Errorf("config.yml does not say what is judged: %v", err)
	}
}
