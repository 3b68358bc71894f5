package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/nightly"
)

// lab is a directory with a plan and tests.
type nightLab struct {
	t   *testing.T
	dir string
}

func newNightLab(t *testing.T, plan string, tests map[string]string) *nightLab {
	t.Helper()
	l := &nightLab{t, t.TempDir()}
	l.write("plan.yml", plan)
	for name, text := range tests {
		l.write("suite/"+name, text)
	}
	return l
}

func (l *nightLab) write(name, text string) {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *nightLab) plan() string { return filepath.Join(l.dir, "plan.yml") }

// night runs a night and returns its summary.
func (l *nightLab) night(want orchestrator.Exit, date string) *nightly.Summary {
	l.t.Helper()
	status, stdout, stderr := candela(l.t, "nightly", l.plan(), "--night", date, "--json")
	if status != want {
		l.t.Fatalf("%s: exit status %d, want %d\n%s%s", date, status, want, stdout, stderr)
	}
	var s nightly.Summary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		l.t.Fatalf("%v\n%s", err, stdout)
	}
	return &s
}

// found returns the entry of a test in a summary.
func found(s *nightly.Summary, test string) *nightly.Test {
	for i := range s.Tests {
		if s.Tests[i].Test == test {
			return &s.Tests[i]
		}
	}
	return &nightly.Test{}
}

const nightPlan = `name: lab
suites: [{path: suite}]
repetitions: 2
retries: 1
`

// TestANightlyPlanSaysWhatBrokeAndWhereThePacketIs runs real tests in worker processes for two nights.
func TestANightlyPlanSaysWhatBrokeAndWhereThePacketIs(t *testing.T) {
	good := strings.Replace(wrongPSN, "responder: {nic: {bugs: [nack-psn-plus-one]}}\n", "", 1)
	l := newNightLab(t, nightPlan, map[string]string{"drop.yml": good, "bad.yml": "name: bad\ntraffic: {mtuu: 1}\n",
		"steady.yml": strings.NewReplacer("one-drop", "steady", "TC-1", "TC-2").Replace(good)})
	s := l.night(orchestrator.ExitUsage, "2026-11-19")
	if s.Runs != 4 || s.Counts[nightly.Passing] != 2 || len(s.Refused) != 1 ||
		!strings.Contains(s.Refused[0].Reason, "mtuu") {
		t.Fatalf("%+v", s)
	}
	kept, _ := filepath.Glob(filepath.Join(l.dir, "nights/lab/2026-11-19/virtual/*/trace.pcap"))
	if len(kept) != 2 {
		t.Errorf("captures of passing runs: %v, want one for each test", kept)
	}
	if err := os.Remove(filepath.Join(l.dir, "suite/bad.yml")); err != nil {
		t.Fatal(err)
	}
	l.write("suite/drop.yml", wrongPSN)
	s = l.night(orchestrator.ExitFail, "2026-11-20")
	d := found(s, "TC-1")
	if d.State != nightly.Failing || d.Change != history.New || d.Owner != "nic-team" || d.Failed != 3 ||
		d.LastGood == nil || d.LastGood.Night.String() != "2026-11-19" || d.Packets == "" ||
		fmt.Sprint(d.Suspects) != "[device test]" || len(d.Changes) != 1 || d.Changes[0].Name != "responder.bugs" {
		t.Fatalf("%+v", d)
	}
	if s.Counts[nightly.Passing] != 1 || s.Previous == nil || s.Runs != 5 {
		t.Errorf("%+v", s)
	}
	var b strings.Builder
	if err := s.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 failing (1 new), 1 passing", "owner       nic-team", "gbn.nak-psn",
		"responder.bugs (none) → nack-psn-plus-one"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q\n%s", want, b.String())
		}
	}
	// The commands of the summary work, on captures that are compressed.
	for command, want := range map[string]orchestrator.Exit{d.Show: 0, d.Reproduce: orchestrator.ExitFail} {
		args := strings.Fields(command)[1:]
		if args[0] == "run" {
			args = append(args, "--out", t.TempDir())
		}
		if status, stdout, stderr := candela(t, args...); status != want {
			t.Errorf("%s: exit status %d, want %d\n%s%s", command, status, want, stdout, stderr)
		}
	}
	if status, stdout, _ := candela(t, "analyze", d.Dir); status != orchestrator.ExitFail {
		t.Errorf("analyze: %d\n%s", status, stdout)
	}
}
