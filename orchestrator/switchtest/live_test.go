package switchtest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/testbeds/live"
	"candela.dev/candela/testbeds/switches/rank"
)

// AFD is fairer than tail drop to the kernel's Reno and CUBIC, holds its queue near the desired depth, and with ECN
// drops nothing.
func TestActiveQueueManagementOnRealFrames(t *testing.T) {
	sampled := needsRealFrames(t)
	for _, file := range liveConfigs(t, "aqm-live", 3) {
		tests := load(t, file)
		if sampled {
			tests = tests[:1]
		}
		for _, test := range tests {
			t.Run(test.Title(), func(t *testing.T) { passesLive(t, test) })
		}
	}
}

// Through drop tail the kernel's CUBIC connections share the link; AIFO and SP-PIFO give it to the newest, whose rank
// is smallest, and follow their rules to the packet.
func TestSchedulingByRankOnRealFrames(t *testing.T) {
	sampled := needsRealFrames(t)
	for _, file := range liveConfigs(t, "rank-live", 6) {
		if test := load(t, file)[0]; !sampled || test.Hosts.Model == "kernel-tcp" {
			t.Run(test.Title(), func(t *testing.T) { passesLive(t, test) })
		}
	}
}

// The judge convicts switches with seeded bugs from the packets of kernels, whose ranks are a table of the switch.
func TestSchedulersWithBugsAreConvictedOnRealFrames(t *testing.T) {
	sampled := needsRealFrames(t)
	for _, c := range []struct{ model, bugs string }{
		{"aifo, sample: 1", "aifo-inverted counts-transmitted admitted-window drops-ties switch-window no-headroom " +
			"short-window scaled-threshold misrecords overfills sorts"},
		{"aifo, sample: 2", "samples-late"},
		{"aifo, sample: 1, room-packets: 40", "physical-target"},
		// With more priorities than ranks bounds never fall: no packet joins the first.
		{"sp-pifo, priorities: 2", "no-push-up no-push-down push-down-twice pushes-on-drop top-first reversed short-queues"},
		{"pifo, queue-packets: 20", "inverts tail-drops drops-first drops-early last-first"},
	} {
		for bug := range strings.FieldsSeq(c.bugs) {
			if sampled && bug != "aifo-inverted" {
				continue
			}
			t.Run(bug, func(t *testing.T) {
				test := parse(t, strings.NewReplacer("MODEL", c.model, "BUG", bug).Replace(`
topology: {kind: single-switch, hosts: 5, link: {gbps: 0.05, delay-ns: 100000}, links: [{host: 4, gbps: 0.02}]}
switch-under-test: {model: MODEL, bugs: [BUG]}
hosts: {transport: kernel-tcp}
workload:
  - flow: {src: 0, dst: 4, rank: 4}
  - flow: {src: 1, dst: 4, rank: 3, start-us: 400000}
  - flow: {src: 2, dst: 4, rank: 2, start-us: 800000}
  - flow: {src: 3, dst: 4, rank: 1, start-us: 1200000}
duration-us: 1600000
taps: {decisions: csv}
`))[0]
				family := rank.Family()
				model, ok := family.Model(test.Switch.Model)
				i := slices.IndexFunc(model.Bugs, func(b parameter.Bug) bool { return b.Name == bug })
				if !ok || i < 0 {
					t.Fatalf("%s has no bug %s", test.Switch.Model, bug)
				}
				out := runsLive(t, test)
				if out.Verdict.Exit != orchestrator.ExitFail || !slices.ContainsFunc(out.Analysis.Findings,
					func(f analyzers.Finding) bool { return f.Rule == model.Bugs[i].Rule }) {
					t.Errorf("verdict %v, want a violation of %s", out.Verdict, model.Bugs[i].Rule)
				}
			})
		}
	}
}

// needsRealFrames skips the test unless real frames are wanted and possible. sampled: a part is enough.
func needsRealFrames(t *testing.T) (sampled bool) {
	wanted := os.Getenv("CANDELA_TEST_LIVE")
	switch {
	case wanted == "":
		t.Skip("SKIP: make test-live runs it")
	case os.Geteuid() != 0:
		t.Skip("SKIP: network namespaces need root")
	}
	return wanted == "sample"
}

// liveConfigs returns the files of a directory, of which there are n.
func liveConfigs(t *testing.T, dir string, n int) []string {
	t.Helper()
	files, err := filepath.Glob("../../configs/" + dir + "/*.yml")
	if err != nil || len(files) != n {
		t.Fatal(files, err)
	}
	return files
}

func load(t *testing.T, file string) []*config.SwitchTest {
	t.Helper()
	tests, err := config.LoadSwitchTests(file, switchtest.Options())
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// passesLive runs a test on real frames, which is to pass.
func passesLive(t *testing.T, test *config.SwitchTest) {
	t.Helper()
	if v := runsLive(t, test).Verdict; v.Exit != orchestrator.ExitPass {
		t.Errorf("exit status %d: %s", v.Exit, strings.Join(v.Reasons, "; "))
	}
}

// runsLive runs a test on real frames. If the machine is too busy, it retries, then skips the test.
func runsLive(t *testing.T, test *config.SwitchTest) *orchestrator.Outcome {
	t.Helper()
	plan, err := switchtest.NewLive(test)
	if err != nil {
		t.Fatal(err)
	}
	reasons := ""
	for range 3 {
		out, err := switchtest.Run(t.Context(), plan, orchestrator.Options{Out: t.TempDir(), NoReports: true, Wall: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if out.Verdict.Exit != orchestrator.ExitInfrastructure {
			return out
		}
		reasons = strings.Join(out.Verdict.Reasons, "; ")
		switch {
		case strings.Contains(reasons, live.ErrUnsupported.Error()):
			t.Skipf("SKIP: %s", reasons)
		case !strings.Contains(reasons, live.ErrBusy.Error()):
			t.Fatal(reasons)
		}
	}
	t.Skipf("SKIP-busy: %s", reasons)
	return nil
}

// The tests of live configurations are planned where there are no namespaces, too.
func TestTheTestsOfLiveDirectoriesCanBeRunLive(t *testing.T) {
	for _, file := range slices.Concat(liveConfigs(t, "aqm-live", 3), liveConfigs(t, "rank-live", 6)) {
		for _, test := range load(t, file) {
			if _, err := switchtest.NewLive(test); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWhatOnlyASimulationHasIsRefusedLive(t *testing.T) {
	const fine = `
topology: {kind: single-switch, hosts: 3, link: {gbps: 0.02, delay-ns: 100000}}
switch-under-test: {model: droptail}
hosts: {transport: raw}
workload: [flow: {src: 0, dst: 1, packets: 20}]
`
	kernels := strings.Replace(strings.Replace(fine, "raw", "kernel-tcp", 1), "packets: 20", "packets: 20, rank: 4", 1)
	const outage = "changes: [{at-us: 60, state: stopped}, {at-us: 160, state: running}]\n"
	for text, want := range map[string]string{
		fine: "",
		strings.Replace(fine, "single-switch, hosts: 3", "dumbbell, hosts: 4",
			1): "has 2 switches; a live run has one",
		strings.Replace(fine, "droptail", "droptail, pfc-classes: [0], pfc-xoff-bytes: 20000", 1): "no flow control",
		fine + outage: "",
		kernels:       "",
		strings.Replace(kernels, "rank: 4", "rank: deadline, deadline-us: 5000", 1): "",
		strings.Replace(kernels, "rank: 4", "rank: remaining", 1): "does not know how much of " +
			"a flow remains",
		strings.Replace(kernels, "kernel-tcp", "tcp", 1): "frames without payload, which tcp " +
			"sends, carry no rank",
		strings.Replace(kernels, "packets: 20, ", "stop-us: 900, ", 1) + "duration-us: 1000\n":                    "",
		strings.Replace(kernels, "kernel-tcp", "kernel-tcp, flows: [{numbers: [1], congestion-control: bbr}]", 1): "",
		strings.Replace(kernels, "kernel-tcp", "kernel-tcp, flows: [{numbers: 1..2, congestion-control: bbr}]",
			1): "flows[0].numbers: there is no flow 2: the last one is 1",
	} {
		test := parse(t, text)[0]
		switch _, err := switchtest.NewLive(test); {
		case want == "" && err != nil:
			t.Errorf("refused: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Machines of a lab end what has no length with the run.
func TestFlowsThatLeaveAreRefusedInALab(t *testing.T) {
	const text = `
topology: {kind: single-switch, hosts: 2, link: {gbps: 0.02}}
switch-under-test: {model: droptail}
hosts: {transport: kernel-tcp}
duration-us: 1000
workload: [flow: {src: 0, dst: 1, stop-us: 900}]
`
	bed := &config.Testbed{Live: &config.Live{Hosts: make([]config.Station, 2)}}
	if _, err := switchtest.NewLab(parse(t, strings.Replace(text, ", stop-us: 900", "", 1))[0], bed); err != nil {
		t.Error(err)
	}
	if _, err := switchtest.NewLab(parse(t, text)[0], bed); err == nil || !strings.Contains(err.Error(), "stop-us") {
		t.Errorf("%v, want a refusal of stop-us", err)
	}
}
