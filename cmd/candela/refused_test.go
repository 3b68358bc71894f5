package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

func TestATestThatIsNotForTheTestbedIsRefusedBeforeTheRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const plain = "name: plain\ntraffic: {}\n"
	fits, elsewhere := write("fits.yml", plain),
		write("elsewhere.yml", "name: elsewhere\ntestbeds: [netns]\ntestbed: netns\ntraffic: {}\n")
	wrong := write("wrong.yml", "name: wrong\ntraffic: {mtu: 7}\n")
	events, ofSwitch := "../../configs/software-events.yml", "../../configs/switch-incast-ndp.yml"
	several := "../../configs/switch-leaf-spine-ecmp.yml"
	bed := write("bed.yml", "kind: quantum\n")
	large := write("large.yml", "name: large\ntraffic: {mtu: 4096}\n")
	short := write("short.yml", "name: short\ntraffic: {min-retransmit-timeout: 8}\n")
	asItIs := write("as-it-is.yml", "name: as-it-is\nkind: netns\ntimeout-scale: 1\n")
	for _, tt := range []struct {
		name   string
		args   []string
		status orchestrator.Exit
		want   string // on either stream
	}{
		{"alone", []string{"run", "--testbed", "virtual", elsewhere}, orchestrator.ExitUsage,
			"testbeds: the test is for testbeds of kind netns"},
		{"among others", []string{"run", "--testbed", "virtual", fits, elsewhere}, orchestrator.ExitPass,
			"REFUSED  elsewhere"},
		{"the summary counts it", []string{"run", "--testbed", "virtual", fits, elsewhere}, orchestrator.ExitPass,
			"1 run: 1 pass, 0 fail, 0 invalid; 1 test refused"},
		{"as JSON", []string{"run", "--testbed", "virtual", "--format", "json", fits, elsewhere}, orchestrator.ExitPass,
			"refused: "},
		{"a wrong file is not refused but wrong", []string{"run", "--testbed", "virtual", fits, wrong},
			orchestrator.ExitUsage, "traffic.mtu: 7"},
		{"a wrong testbed refuses nobody", []string{"run", "--testbed", bed, fits, elsewhere}, orchestrator.ExitUsage,
			"quantum"},
		{"events that the switch lacks", []string{"config", "check", "--testbed", "netns", events}, orchestrator.ExitUsage,
			`offers no "delay"`},
		{"and what has them", []string{"config", "check", "--testbed", "netns", events}, orchestrator.ExitUsage,
			"afpacket has every event"},
		{"the check of several", []string{"config", "check", "--testbed", "netns", fits, events}, orchestrator.ExitPass,
			"software-events.yml: refused for this testbed"},
		{"packets that the switch cannot carry", []string{"config", "check", "--testbed", "netns", large},
			orchestrator.ExitUsage, "4096 is too large"},
		{"a network of its own", []string{"config", "check", "--testbed", "netns-afpacket", fits, ofSwitch},
			orchestrator.ExitPass,
			"a test of a switch runs in a network of its own"},
		{"several switches", []string{"config", "check", "--testbed", "netns", fits, several}, orchestrator.ExitPass,
			"the topology leaf-spine has 7 switches; a live run has one"},
		{"a short timeout where nothing is slowed down", []string{"config", "check", "--testbed", asItIs, short},
			orchestrator.ExitUsage, "is too short for the testbed"},
		{"a short timeout is slowed down, and that is said", []string{"config", "check", "--testbed", "netns", short},
			orchestrator.ExitPass, "lengthens the timeouts of 1 test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if args[0] == "run" {
				args = append(args, "--out", t.TempDir())
			}
			status, stdout, stderr := candela(t, args...)
			if status != tt.status || !strings.Contains(stdout+stderr, tt.want) {
				t.Errorf("exit status %d, want %d and %q\n%s%s", status, tt.status, tt.want, stdout, stderr)
			}
		})
	}
}

func TestRefusedTestsAreSkippedInJUnit(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "elsewhere.yml")
	if err := os.WriteFile(file, []byte("name: elsewhere\ntestbeds: [netns]\ntestbed: netns\ntraffic: {}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	junit := filepath.Join(dir, "junit.xml")
	candela(t, "run", "--testbed", "virtual", "--junit", junit, "--out", dir, file, "../../configs/quickstart.yml")
	text, err := os.ReadFile(junit)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `errors="0" skipped="1"`) || !strings.Contains(string(text), "<skipped message=") {
		t.Errorf("%s", text)
	}
}

// TestTheNextCommandRunsWhereTheRunWas checks that the printed command names the testbed of the run.
func TestTheNextCommandRunsWhereTheRunWas(t *testing.T) {
	out := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--testbed", "virtual", "../../configs/quickstart.yml"},
			" run --testbed virtual ../../configs/quickstart.yml --seed 1\n"},
		{[]string{"run", "../../configs/quickstart.yml"}, " run ../../configs/quickstart.yml --seed 1\n"},
	} {
		_, stdout, _ := candela(t, append(tt.args, "--out", out)...)
		if !strings.Contains(stdout, tt.want) {
			t.Errorf("%v: no %q in\n%s", tt.args, tt.want, stdout)
		}
	}
}
