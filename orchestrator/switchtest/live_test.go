package switchtest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/testbeds/live"
)

// AFD is fairer than tail drop to the kernel's Reno and CUBIC, holds its queue near the desired depth, and with ECN
// drops nothing.
func TestActiveQueueManagementOnRealFrames(t *testing.T) {
	wanted := os.Getenv("CANDELA_TEST_LIVE")
	switch {
	case wanted == "":
		t.Skip("SKIP: make test-live runs it")
	case os.Geteuid() != 0:
		t.Skip("SKIP: network namespaces need root")
	}
	files, err := filepath.Glob("../../configs/aqm-live/*.yml")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		tests, err := config.LoadSwitchTests(file, switchtest.Options())
		if err != nil {
			t.Fatal(err)
		}
		if wanted == "sample" {
			tests = tests[:1]
		}
		for _, test := range tests {
			t.Run(test.Title(), func(t *testing.T) { passesLive(t, test) })
		}
	}
}

// passesLive runs a test on real frames. If the machine is too busy, it retries, then skips the test.
func passesLive(t *testing.T, test *config.SwitchTest) {
	plan, err := switchtest.NewLive(test)
	if err != nil {
		t.Fatal(err)
	}
	reasons := ""
	for range 3 {
		out, err := switchtest.Run(t.Context(), plan, orchestrator.Options{Out: t.TempDir(), NoReports: true, Wall: time.Now})
		switch {
		case errors.Is(err, live.ErrUnsupported):
			t.Skipf("SKIP: %v", err)
		case err != nil:
			t.Fatal(err)
		case out.Verdict.Exit == orchestrator.ExitPass:
			return
		}
		if reasons = strings.Join(out.Verdict.Reasons, "; "); out.Verdict.Exit != orchestrator.ExitInfrastructure ||
			!strings.Contains(reasons, live.ErrBusy.Error()) {
			t.Fatalf("exit status %d: %s", out.Verdict.Exit, reasons)
		}
	}
	t.Skipf("SKIP-busy: %s", reasons)
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
		strings.Replace(kernels, "rank: 4", "rank: remaining", 1):                   "does not know how much of a flow remains",
		strings.Replace(kernels, "kernel-tcp", "tcp", 1):                            "frames without payload, which tcp sends, carry no rank",
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
