//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report/junitschema"
)

const brokenNIC = `name: broken
metadata: {id: TC-17, owner: NIC team, requirement: REQ 4.2, issue: https://tracker.example/12}
requester: {nic: {profile: spec}}
responder: {nic: {profile: spec, bugs: [nack-psn-plus-one]}}
traffic:
  message-size: 10240
  min-retransmit-timeout: 8
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
`

// workplace changes to a new working directory with the tests of this file.
func workplace(t *testing.T) {
	t.Helper()
	incast, err := os.ReadFile("../../configs/switch-incast-ndp.yml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("COLUMNS", "")
	for name, text := range map[string]string{
		"broken.yml": brokenNIC, "sound.yml": soundNIC, "three.yml": sweepOfThree, "incast.yml": string(incast),
		"wrong.yml": "name: wrong\ntraffic: {mesage-size: 1}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// narrow fails if a line of text is wider than 80 columns.
func narrow(t *testing.T, command []string, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > defaultColumns {
			t.Errorf("candela %s: a line of %d characters:\n%s", strings.Join(command, " "), n, line)
		}
	}
}

func TestWhatCommandsPrintFits80Columns(t *testing.T) {
	configs, err := filepath.Abs("../../configs")
	if err != nil {
		t.Fatal(err)
	}
	workplace(t)
	if err := os.Symlink(configs, "configs"); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"run", "sound.yml"}, {"run", "broken.yml"}, {"run", "three.yml"}, {"run", "incast.yml"},
		{"run", "sound.yml", "broken.yml", "wrong.yml", "--out", "suite"}, {"analyze", "runs/broken"},
		{"analyze", "runs/broken", "--verbose"}, {"trace", "stats", "runs/broken"}, {"trace", "show", "runs/broken"},
		{"trace", "show", "runs/sound", "--around", "5"}, {"diff", "runs/sound", "runs/broken"},
		{"fuzz", "broken.yml", "--runs", "24"},
		{"detect", "--profiles", "spec", "--bugs", "no-nack,trim-slow-nack", "--scenarios", "3"},
		{"reproduce", "trimming", "T2", "--quick"},
	} {
		status, stdout, stderr := candela(t, command...)
		if strings.TrimSpace(stdout) == "" {
			t.Errorf("candela %v printed nothing: exit status %d\n%s", command, status, stderr)
		}
		narrow(t, command, stdout)
	}
}

// TestNextCommandsRunAsPrinted runs the commands at the end of reports in a shell, with this binary as candela.
func TestNextCommandsRunAsPrinted(t *testing.T) {
	workplace(t)
	bin := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "candela"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	ran := 0
	for _, command := range [][]string{{"run", "broken.yml"}, {"run", "incast.yml"}, {"analyze", "runs/broken"},
		{"run", "sound.yml", "broken.yml", "--out", "it's a place"}} {
		_, stdout, _ := candela(t, command...)
		next := nextCommands(stdout)
		if len(next) == 0 {
			t.Errorf("candela %v names no next command:\n%s", command, stdout)
		}
		for _, line := range next {
			ran++
			out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
			// A test may fail again, as the report says. Usage errors and missing commands are defects.
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != int(orchestrator.ExitFail)) {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
		}
	}
	if ran < 6 {
		t.Errorf("%d commands ran", ran)
	}
}

// nextCommands returns the commands at the end of a report, as a user would copy them.
func nextCommands(text string) (commands []string) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		rest, first := strings.CutPrefix(line, "next")
		switch {
		case first:
			inside = true
			commands = append(commands, strings.TrimSpace(rest))
		case !inside || !strings.HasPrefix(line, "       "):
			inside = false
		case strings.HasSuffix(commands[len(commands)-1], "\\"):
			commands[len(commands)-1] += "\n" + line
		default:
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

func TestCommandsWriteJUnitOfWhatFailed(t *testing.T) {
	configs, err := filepath.Abs("../../configs")
	if err != nil {
		t.Fatal(err)
	}
	workplace(t)
	for _, c := range []struct {
		command []string
		want    string // in the document
		status  orchestrator.Exit
	}{
		{[]string{"run", "broken.yml"}, `<property name="requirement" value="REQ 4.2">`, orchestrator.ExitFail},
		{[]string{"analyze", "runs/broken"}, `<failure message=`, orchestrator.ExitFail},
		{[]string{"detect", "--configs", configs, "--profiles", "spec", "--bugs", "no-nack", "--scenarios", "2"},
			`<testcase name="bug no-nack on spec"`, orchestrator.ExitPass},
		{[]string{"reproduce", "trimming", "T2", "--quick"}, `<testcase name="T2: `, orchestrator.ExitPass},
	} {
		status, stdout, stderr := candela(t, append(c.command, "--junit", "junit.xml")...)
		if status != c.status {
			t.Errorf("candela %v: exit status %d\n%s%s", c.command, status, stdout, stderr)
		}
		document, err := os.ReadFile("junit.xml")
		if err != nil {
			t.Fatal(err)
		}
		if err := junitschema.Check(strings.NewReader(string(document))); err != nil {
			t.Errorf("candela %v: %v", c.command, err)
		}
		if !strings.Contains(string(document), c.want) {
			t.Errorf("candela %v: the document lacks %s:\n%s", c.command, c.want, document)
		}
	}
}

func TestMetadataReachesTheRunDirectory(t *testing.T) {
	workplace(t)
	_, stdout, _ := candela(t, "run", "broken.yml")
	files := map[string]string{"stdout": strings.Join(strings.Fields(stdout), " ")}
	for _, name := range []string{"run.json", "report.json", "report.html", "junit.xml", "config.yml"} {
		data, err := os.ReadFile(filepath.Join("runs", "broken", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	for name, text := range files {
		for _, want := range []string{"TC-17", "NIC team", "REQ 4.2", "https://tracker.example/12"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
}

// TestWhatDidNotRunIsListed checks that a sweep or suite that ends early names every point or test that did not run.
func TestWhatDidNotRunIsListed(t *testing.T) {
	workplace(t)
	if err := os.MkdirAll("out", 0o777); err != nil {
		t.Fatal(err)
	}
	s := suite{flags: runFlags{repeat: 1, out: "out"}, sweeps: make(map[string]*orchestrator.Sweep)}
	plans, _, err := loadPlans([]string{"three.yml", "sound.yml"}, s.flags, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	s.plans = plans
	s.giveUp(t.Context(), aheadKey{&plans[1], 1}, false, fmt.Errorf("the disk is full"))
	if len(s.reports) != 3 || len(s.order) != 1 {
		t.Fatalf("%d reports, %d sweeps", len(s.reports), len(s.order))
	}
	var words []string
	for _, r := range s.reports {
		words = append(words, r.Entry().Word+" "+r.Entry().Name)
	}
	want := "ERROR three [psn=7],NOT RUN three [psn=last],NOT RUN sound"
	if got := strings.Join(words, ","); got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if n := s.order[0].NotRun; len(n) != 2 || n[0] != 2 || n[1] != 3 {
		t.Errorf("points without a run: %v", n)
	}
}
