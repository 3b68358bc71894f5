package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
	status, stdout, stderr := candela(l.t, "nightly", l.plan(), "--night", date, "--json", "--metrics-file",
		filepath.Join(l.dir, "nightly.prom"))
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
	metrics, err := os.ReadFile(filepath.Join(l.dir, "nightly.prom"))
	if want := `candela_nightly_runs_total{plan="lab",testbed="virtual",verdict="pass"} 4`; err != nil ||
		!strings.Contains(string(metrics), want) {
		t.Errorf("%v: %s", err, metrics)
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

// deadLab describes a lab whose agents do not answer.
const deadLab = `name: lab-2
kind: lab
dumpers: [{name: dumper-1}]
live:
  datapath: xdp
  requester: {agent: "unix:/nonexistent/a", interface: eth1, port: 0}
  responder: {agent: "unix:/nonexistent/b", interface: eth1, port: 1}
  dumpers: [{agent: "unix:/nonexistent/c", interface: eth1, port: 2}]
  switch: {address: "unix:/nonexistent/switchd"}
`

// flakyTest really is flaky: a hash that the seed draws sends two flows over one trunk or over two, and sharing doubles
// their completion times, from 173 to 340 us.
func flakyTest(seed int) string {
	return fmt.Sprintf(`name: flaky
metadata: {id: TC-3, owner: flaky-team}
seed: %d
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 2, routing: ecmp, link: {gbps: 10}, trunk: {gbps: 10}}
switch-under-test: {model: droptail}
hosts: {transport: tcp}
workload:
  - flow: {src: 0, dst: 2, bytes: 200000}
  - flow: {src: 1, dst: 3, bytes: 200000}
expect: {fct-us: {max: 250}}
`, seed)
}

// TestNightsOfALabEndToEnd plants a regression, a test that comes and goes, a fault of the lab and a change of the
// device in nights of real runs on the virtual testbed, and asks the summaries and the results store. A few nights; all
// thirty with CANDELA_TEST_NIGHTLY=30.
func TestNightsOfALabEndToEnd(t *testing.T) {
	nights := 5
	if text := os.Getenv("CANDELA_TEST_NIGHTLY"); text != "" {
		var err error
		if nights, err = strconv.Atoi(text); err != nil || nights < 5 {
			t.Fatalf("CANDELA_TEST_NIGHTLY=%s: want a number from 5", text)
		}
	} else if testing.Short() {
		t.Skip("SKIP-short: go test without -short runs it")
	}
	// Each happens on a night of its own, and the regression stays.
	changed, faulty, broken := nights/5, 2*nights/5, 3*nights/5
	profile := func(test, id, name string) string {
		return fmt.Sprintf("name: %s\nmetadata: {id: %s, owner: %s-team}\nrequester: {nic: {profile: %s}}\n"+
			"responder: {nic: {profile: %s}}\ntraffic:\n  message-size: 10240\n"+
			"  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]\n", test, id, test, name, name)
	}
	l := newNightLab(t, "", map[string]string{"steady.yml": profile("steady", "TC-2", "spec")})
	l.write("lab-2.yml", deadLab)
	date := func(i int) string { return history.NightOf(time.Date(2026, 10, 1+i, 0, 0, 0, 0, time.UTC)).String() }
	failures := 0 // of the flaky test
	for i := range nights {
		plan := "name: lab\nsuites: [{path: suite}]\nretries: 0\n"
		want := orchestrator.ExitPass
		bug, model := "", "spec"
		l.write("suite/flaky.yml", flakyTest(i+1)) // a lab with another seed each night
		status, _, _ := candela(t, "run", filepath.Join(l.dir, "suite/flaky.yml"), "--out", t.TempDir(), "--report", "none")
		flaky := status == orchestrator.ExitFail
		if flaky {
			failures++
			want = orchestrator.ExitFail
		}
		if i >= changed {
			model = "cx5"
		}
		if i >= broken {
			bug, want = "responder: {nic: {bugs: [nack-psn-plus-one]}}\n", orchestrator.ExitFail
		}
		if i == faulty {
			plan = strings.Replace(plan, "}]", "}, {path: suite/steady.yml, testbeds: lab-2.yml}]", 1)
			want = orchestrator.ExitInfrastructure
		}
		l.write("plan.yml", plan)
		good := strings.Replace(wrongPSN, "responder: {nic: {bugs: [nack-psn-plus-one]}}\n", bug, 1)
		l.write("suite/drop.yml", good)
		l.write("suite/steady.yml", profile("steady", "TC-2", model))
		s := l.night(want, date(i))
		switch d := found(s, "TC-1"); {
		case i < broken && d.State != "":
			t.Errorf("night %d: %+v", i, d)
		case i == broken && (d.Change != history.New || d.LastGood == nil || d.LastGood.Night.String() != date(i-1) ||
			!slices.Contains(d.Suspects, "device") || d.Packets == ""):
			t.Errorf("night %d: %+v", i, d)
		case i > broken && (d.Change != history.Still || d.Since.String() != date(broken)):
			t.Errorf("night %d: %+v", i, d)
		}
		if f := found(s, "TC-3"); (f.State == nightly.Failing) != flaky || flaky && f.Owner != "flaky-team" {
			t.Errorf("night %d: %+v", i, f)
		}
		if x := found(s, "TC-2"); (x.State == nightly.Lab) != (i == faulty) || i == faulty && x.Testbed != "lab-2" {
			t.Errorf("night %d: %+v", i, x)
		}
		change := slices.ContainsFunc(s.Environment, func(c history.EnvironmentChange) bool {
			return c.Name == "responder.profile.Name" && c.A == "spec" && c.B == "cx5"
		})
		if change != (i == changed) {
			t.Errorf("night %d: environment %+v", i, s.Environment)
		}
	}
	if failures == 0 || failures == nights {
		t.Errorf("the flaky test failed on %d of %d nights", failures, nights)
	}
	store := filepath.Join(l.dir, "nights", "history.db")
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"blame", "TC-1"}, []string{date(broken - 1), date(broken), "responder.bugs"}},
		{[]string{"flaky"}, []string{"TC-3"}},
		{[]string{"testbeds"}, []string{"lab-2"}},
		{[]string{"owners"}, []string{"nic-team: 1 failing"}},
	} {
		args := append([]string{"history"}, append(tt.args, "--history", store)...)
		status, stdout, stderr := candela(t, args...)
		for _, want := range tt.want {
			if status != orchestrator.ExitPass || !strings.Contains(stdout, want) {
				t.Errorf("%v: exit status %d, want %q\n%s%s", args, status, want, stdout, stderr)
			}
		}
		if tt.args[0] == "flaky" && strings.Contains(stdout, "TC-1") {
			t.Errorf("a regression is called flaky\n%s", stdout)
		}
	}
}
