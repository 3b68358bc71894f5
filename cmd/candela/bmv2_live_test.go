//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds/bmv2"
	"candela.dev/candela/testbeds/netns"
)

// needBMv2 skips unless bmv2 is installed and a live testbed is requested and possible.
func needBMv2(t *testing.T) {
	t.Helper()
	needLive(t)
	if _, err := bmv2.Find(); err != nil {
		t.Skip("SKIP-bmv2: " + err.Error())
	}
}

func TestLiveExamplesOnBMv2GiveTheFindingsOfTheVirtualTestbed(t *testing.T) {
	needBMv2(t)
	files, err := filepath.Glob("../../configs/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	b := bringUp(t, bmv2.Datapath, 2)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if config.IsSwitchTest(data) {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			tests, err := config.LoadAll(file, configOptions(config.BMv2Testbed))
			if err != nil {
				t.Fatal(err)
			}
			compareOnBMv2(t, tests[0], &b.State)
		})
	}
}

// compareOnBMv2 runs a test on bmv2 and on the virtual testbed. Events that bmv2 lacks must be refused before traffic.
func compareOnBMv2(t *testing.T, test *config.Test, s *netns.State) {
	t.Helper()
	for _, timeout := range timeouts {
		test.Traffic.AckTimeout = max(test.Traffic.AckTimeout, timeout)
		p, err := plan.New(test)
		if err != nil {
			t.Fatal(err)
		}
		live := livebeds{up: map[string]*netns.State{config.BMv2Testbed: s}}
		o, err := orchestrator.Run(t.Context(), p, live.builder(t.Context(), test.Testbed),
			orchestrator.Options{Out: t.TempDir(), ID: "bmv2", Wall: time.Now, NoReports: true})
		if err != nil {
			t.Fatal(err)
		}
		reasons := strings.Join(o.Verdict.Reasons, "\n")
		switch {
		case keptWaiting(o):
			continue
		case strings.Contains(reasons, `offers no "`):
			t.Skipf("SKIP-action: %s", reasons)
		case o.Analysis == nil:
			t.Fatalf("bmv2: %s", reasons)
		}
		if want, got := tellings(simulated(t, p)), tellings(o); !slices.Equal(want, got) {
			t.Errorf("timeout exponent %d\nvirtual: %q\nbmv2:    %q", test.Traffic.AckTimeout, want, got)
		}
		return
	}
	t.Skip("SKIP-busy: with timeouts of up to half a second the machine kept the models waiting")
}

func TestALiveBMv2ThatDiesInTheMiddleEndsTheRun(t *testing.T) {
	needBMv2(t)
	b := bringUp(t, bmv2.Datapath, 1)
	test, err := config.Parse("live.yml", []byte(twoDrops), configOptions(oneDumper(t)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	o := runOn(t, p, &b.State, func(step string) {
		if step == "run traffic" {
			killBMv2(t, b.State.Switch.Process.PID)
		}
	})
	expectFailure(t, o.Verdict, "switch")
}

// killBMv2 kills the bmv2 process that a switch started.
func killBMv2(t *testing.T, parent int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err == nil {
				err = unix.Kill(pid, unix.SIGKILL)
			}
			if err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		t.Fatal("the switch has started nothing")
	}
}
