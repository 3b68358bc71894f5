package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
)

const manyEvents = `name: many
seed: 77
requester: {nic: {profile: cx5}}
responder: {nic: {profile: cx5, bugs: [nack-psn-plus-one]}}
traffic:
  num-connections: 4
  rdma-verb: [write, read, send]
  num-msgs-per-qp: 12
  message-size: 10240
  tx-depth: 4
  min-retransmit-timeout: 10
  data-pkt-events:
    - {qpn: 1, psn: 55, type: ecn}
    - {qpn: 2, psn: 15, type: drop}
    - {qpn: 3, psn: 35, type: drop}
    - {qpn: 3, psn: 45, type: drop}
    - {qpn: 4, psn: 65, type: corrupt}
`

func TestMinimizeLeavesOneEventOnOneConnection(t *testing.T) {
	run := runOf(t, manyEvents)
	file := filepath.Join(t.TempDir(), "min.yml")
	status, stdout, stderr := candela(t, "minimize", run, "-o", file)
	if status != orchestrator.ExitPass {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	m, err := config.Load(file, configOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	tr := &m.Traffic
	if events(m) != 1 || tr.Connections != 1 || tr.Messages != 1 || tr.MTU != 256 || len(tr.Verbs) != 1 ||
		tr.MessageSize != 257 {
		t.Errorf("not the smallest test:\n%s", stdout)
	}
	for _, want := range []string{"# Smallest test found that shows gbn.nak-psn", "# Expected: ", "run " + file,
		"profile: cx5"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the test lacks %q:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "hop-limit") {
		t.Errorf("the test spells out defaults:\n%s", stdout)
	}
	status, stdout, _ = candela(t, "run", file, "--out", t.TempDir(), "--format", "json")
	if status != orchestrator.ExitFail || !hasRule(findingsOf(t, stdout), "gbn.nak-psn") {
		t.Errorf("the smallest test does not fail: exit status %d\n%s", status, stdout)
	}
	second := filepath.Join(t.TempDir(), "min.yml")
	candela(t, "minimize", run, "-o", second)
	a, _ := os.ReadFile(file)
	b, _ := os.ReadFile(second)
	if strings.ReplaceAll(string(b), second, file) != string(a) {
		t.Errorf("another result the second time:\n%s\n%s", a, b)
	}
}

func hasRule(list []analyzers.Finding, rule string) bool {
	for _, f := range list {
		if f.Rule == rule {
			return true
		}
	}
	return false
}

func TestMinimizePreservesAFailedExpectation(t *testing.T) {
	text := strings.Replace(oneDrop, "traffic:", "expect: {retrans: {retransmission-us: {max: 0.001}}}\ntraffic:", 1)
	run, file := runOf(t, text), filepath.Join(t.TempDir(), "min.yml")
	status, stdout, stderr := candela(t, "minimize", run, "-o", file)
	if status != orchestrator.ExitPass || !strings.Contains(stdout, "retransmission-us") ||
		!strings.Contains(stdout, "type: drop") {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
}

func TestMinimizeRefusesRunsThatDoNotFail(t *testing.T) {
	good := runOf(t, oneDrop)
	expected := runOf(t, strings.Replace(oneDrop, "traffic:",
		"responder: {nic: {bugs: [nack-each]}}\nexpect: {gbn: fail, completion: {qpn 1: {status: IBV_WC_SUCCESS}}}\ntraffic:",
		1))
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"a run that passed", []string{good}, "did not fail, its verdict is pass"},
		{"a violation that was expected", []string{expected}, "which --rule gbn."},
		{"a rule that did not fire", []string{good, "--rule", "gbn.nak-psn"}, "no finding of rule gbn.nak-psn"},
		{"no run", []string{t.TempDir()}, "is not a run directory"},
		{"no runs", []string{good, "--runs", "0"}, "want at least one run"},
	} {
		if status, _, stderr := candela(t, append([]string{"minimize"}, tt.args...)...); status != orchestrator.ExitUsage ||
			!strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit status %d, %s; want %s", tt.name, status, stderr, tt.want)
		}
	}
}

func TestMinimizeLeavesTwoFlowsThroughABrokenSwitch(t *testing.T) {
	run := runOf(t, `name: wide
topology: {kind: single-switch, hosts: 12}
switch-under-test: {model: sai, bugs: [wrong-dscp], trim-dscp: 48, trim-queue: 5, profiles: [{action: trim,
  queues: [0], limit-bytes: 20000}]}
hosts: {transport: raw}
workload:
  - incast: {senders: 6, packets: 100}
  - flow: {src: 8, dst: 9, packets: 50}
`)
	file := filepath.Join(t.TempDir(), "min.yml")
	status, stdout, stderr := candela(t, "minimize", run, "-o", file)
	if status != orchestrator.ExitPass || !strings.Contains(stdout, "# Smallest test found that shows sai.dscp") ||
		!strings.Contains(stderr, "2 of 7 flows") {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	if status, stdout, _ = candela(t, "run", file, "--out", t.TempDir(), "--format",
		"json"); status != orchestrator.ExitFail || !hasRule(findingsOf(t, stdout), "sai.dscp") {
		t.Errorf("the smallest test does not fail: exit status %d\n%s", status, stdout)
	}
	if status, _, stderr = candela(t, "minimize", run, "--rule", "sai.queue"); status != orchestrator.ExitUsage ||
		!strings.Contains(stderr, "no finding of rule sai.queue") {
		t.Errorf("a rule that did not fire: exit status %d, %s", status, stderr)
	}
}
