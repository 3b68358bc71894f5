package switchtest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/testbeds/switches/fair"
)

// fairLiveFiles is how many tests configs/fair-live has.
const fairLiveFiles = 11

// The judge finds nothing in switches that the TCP of kernels goes through. Times are short here: what connections get
// is that of `candela run`, and of the reproduction.
func TestCoreStatelessFairQueueingOnRealFrames(t *testing.T) {
	sampled := needsRealFrames(t)
	for _, file := range liveConfigs(t, "fair-live", fairLiveFiles) {
		test := load(t, file)[0]
		if sampled && test.Name != "fair-live-e8-hcsfq" {
			continue
		}
		const shorter = 10
		test.Duration = min(test.Duration/shorter, 4*clock.Second)
		for i := range test.Workload {
			o := &test.Workload[i].Offer
			if o.Start /= shorter; o.Stop != nil {
				*o.Stop /= shorter
			}
		}
		t.Run(test.Name, func(t *testing.T) {
			needsControl(t, test.Hosts.Values.Word("congestion-control"))
			silentLive(t, test.Switch.Model != "droptail", runsLive(t, test))
		})
	}
}

// needsControl skips the test if the kernel lists its congestion controls, and the one of a name is missing.
func needsControl(t *testing.T, name string) {
	t.Helper()
	list, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err == nil && !slices.Contains(strings.Fields(string(list)), name) {
		t.Skipf("SKIP: the kernel has no %s: %s", name, strings.TrimSpace(string(list)))
	}
}

// silentLive checks that a run is valid and that nothing is blamed.
func silentLive(t *testing.T, judged bool, out *orchestrator.Outcome) {
	t.Helper()
	if out.Verdict.Exit == orchestrator.ExitInvalid || out.Analysis == nil {
		t.Fatalf("%v", out.Verdict)
	}
	for i := range out.Analysis.Findings {
		if f := &out.Analysis.Findings[i]; f.Severity != analyzers.Note {
			t.Errorf("%s t=%dns %s", f.Rule, f.TimeNS, f.Headline)
			break
		}
	}
	if c := out.Analysis.Coverage[fair.Family().Name]; judged && (c["packets"] < 500 || c["draws"] == 0) {
		t.Errorf("hardly anything was judged: %v", c)
	}
}

// fairLive are networks on real frames in which bugs show: three with hosts that nothing slows down, whose clock is
// slowed down, and one of kernels. Whether demand is steady for long depends on the machine, so that bugs are caught by
// records, packet by packet.
var fairLive = map[string]string{
	"flat": shorter("flat", "9000", "2500"), "tenants": shorter("tenants", "15000", "2500"),
	"leaves": fairNetworks["leaves"], "fits": fairNetworks["fits"],
	"kernels": `
topology: {kind: single-switch, hosts: 5, link: {gbps: 0.05, delay-ns: 100000}, links: [{host: 4, gbps: 0.02}]}
switch-under-test: {bypass-bytes: 125, queue-packets: 80, flows: [{hosts: [3], weight: 2}], %s}
hosts: {transport: kernel-tcp}
duration-us: 1600000
workload:
  - flow: {src: 0, dst: 4, count: 2}
  - flow: {src: 1, dst: 4, start-us: 400000}
  - flow: {src: 2, dst: 4, start-us: 600000}
  - flow: {src: 3, dst: 4, start-us: 800000}
`,
}

// shorter is one of fairNetworks for 4 ms, whose last flow comes earlier.
func shorter(network, late, earlier string) string {
	head, tail, _ := strings.Cut(fairNetworks[network], "duration-us: ")
	_, tail, _ = strings.Cut(tail, "\n")
	return head + "duration-us: 4000\n" + strings.Replace(tail, "start-us: "+late, "start-us: "+earlier, 1)
}

// fairLiveRules are those by which bugs are caught on real frames if it is not the rule of simulated networks, where
// demand is steady.
var fairLiveRules = map[string]string{
	"ignores-weights": "fair.label", "idles": "fair.alpha", "fills": "fair.alpha", "no-drop-test": "fair.drop-test",
	"slow-labels": "fair.label", "one-leaf": "fair.label", "even-nodes": "fair.alpha", "no-parent": "fair.alpha",
}

// The judge convicts switches with seeded bugs on real frames, and does not blame the same switches without. Left out
// are bugs that show between two switches (a live switch is alone), in packets of one instant, or where a label is
// alpha exactly.
func TestFairSwitchesWithBugsAreConvictedOnRealFrames(t *testing.T) {
	sampled := needsRealFrames(t)
	for _, c := range []struct{ network, model, bugs string }{
		{"kernels", "csfq", "ignores-weights idles hasty literal-sign starts-from-zero counts-dropped slow-labels"},
		{"flat", "csfq", "reorders duplicates fills no-drop-test drops-below-share half-probability squared-probability " +
			"last-gap no-floor by-arrivals no-framing"},
		{"flat", "csfq, mode: dataplane", "one-bit-test halves"},
		{"fits", "csfq", "last-child"},
		{"leaves", "csfq", "no-ceiling"},
		{"tenants", "hcsfq", "one-leaf even-nodes no-parent link-alpha every-level keeps-shim one-start-time"},
	} {
		run := func(t *testing.T, bug string) *orchestrator.Outcome {
			text := fmt.Sprintf(fairLive[c.network], "model: "+c.model+bug) + "taps: {decisions: csv}\n"
			return runsLive(t, parse(t, text)[0])
		}
		if !sampled {
			t.Run(c.network+" without", func(t *testing.T) { silentLive(t, true, run(t, "")) })
		}
		for bug := range strings.FieldsSeq(c.bugs) {
			if sampled && bug != "slow-labels" {
				continue
			}
			t.Run(bug, func(t *testing.T) {
				out := run(t, ", bugs: ["+bug+"]")
				want := fairLiveRules[bug]
				if want == "" {
					want = fairRule(t, strings.Split(c.model, ",")[0], bug)
				}
				if out.Verdict.Exit != orchestrator.ExitFail || !slices.ContainsFunc(out.Analysis.Findings,
					func(f analyzers.Finding) bool { return f.Rule == want }) {
					t.Errorf("verdict %v, want a violation of %s", out.Verdict, want)
				}
			})
		}
	}
}

// fairRule returns the rule that a bug of a model violates.
func fairRule(t *testing.T, model, bug string) string {
	t.Helper()
	family := fair.Family()
	m, ok := family.Model(model)
	i := slices.IndexFunc(m.Bugs, func(b parameter.Bug) bool { return b.Name == bug })
	if !ok || i < 0 {
		t.Fatalf("%s has no bug %s", model, bug)
	}
	return m.Bugs[i].Rule
}

// The tests of fair-live can be planned, and slow nothing down: kernels do not.
func TestTheTestsOfFairLiveRunInRealTime(t *testing.T) {
	for _, file := range liveConfigs(t, "fair-live", fairLiveFiles) {
		for _, test := range load(t, file) {
			p, err := switchtest.NewLive(test)
			if err != nil {
				t.Error(err)
			} else if n := p.Slowdown(); n != 1 {
				t.Errorf("%s: slowed down by %d", test.Title(), n)
			}
		}
	}
}
