package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

// firstTest is a typical first test: READ 64 KB on 4 connections, drop responses 3 and 7 and the retransmission of 3,
// mark every tenth packet.
const firstTest = `name: first
traffic:
  num-connections: 4
  rdma-verb: read
  message-size: 64KB
  data-pkt-events:
    - {qpn: 1..4, psn: [3, 7], type: drop}
    - {qpn: 1..4, psn: 3, iter: 2, type: drop}
    - {qpn: 1..4, every: 10, type: ecn}
`

func fileOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "first.yml")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheFirstTestIsRefusedBeforeTrafficAndPassesAsCorrected(t *testing.T) {
	file := fileOf(t, firstTest)
	for _, command := range [][]string{{"config", "check", file}, {"run", file, "--out", t.TempDir()}} {
		status, stdout, stderr := candela(t, command...)
		if status != orchestrator.ExitUsage || stdout != "" || !strings.HasPrefix(stderr, file+":3:3: ") ||
			!strings.Contains(stderr, "\n     3 +   iter-scope: packet\n") {
			t.Errorf("%v: exit status %d\n%s%s", command, status, stdout, stderr)
		}
	}
	corrected := fileOf(t, strings.Replace(firstTest, "traffic:\n", "traffic:\n  iter-scope: packet\n", 1))
	status, stdout, stderr := candela(t, "run", corrected, "--out", t.TempDir())
	if status != orchestrator.ExitPass || stderr != "" || strings.Contains(stdout, "NEVER FIRED") ||
		!strings.Contains(stdout, "and 16 more events") { // 20 of 36 are shown
		t.Errorf("the corrected test: exit status %d\n%s%s", status, stdout, stderr)
	}
}

func TestErrorsOfFilesBeginWithTheirPlaceAndHintAtWhatWasMeant(t *testing.T) {
	const network = "topology: {kind: single-switch, hosts: 4}\nworkload: [{incast: {senders: 3, bytes: 64KB}}]\n"
	for _, tt := range []struct{ name, text, want string }{
		{"a switch test with another key", "name: x\nswitch: {model: ndp}\n" + network,
			`:2:1: switch: unknown key (did you mean "switch-under-test"?)`},
		{"an underscore", "name: x\nswitch_under_test: {model: ndp}\n" + network,
			`:2:1: switch_under_test: unknown key (did you mean "switch-under-test"?)`},
		{"dut", "name: x\ndut: {model: ndp}\n" + network, `:2:1: dut: unknown key (did you mean "switch-under-test"?)`},
		{"no switch at all", "name: x\n" + network, `:1:1: switch-under-test: is missing`},
		{"a switch in a NIC test", "name: x\nswitch: {}\ntraffic: {}\n", "a test of a switch has switch-under-test and"},
		{"a key of traffic at the top", "name: x\nmtu: 1024\ntraffic: {}\n", ":2:1: mtu: unknown key: it belongs in traffic"},
		{"events", "name: x\ntraffic: {events: []}\n",
			`:2:11: traffic.events: unknown key (did you mean "data-pkt-events"?)`},
		{"a profile beside its nic", "name: x\nrequester: {profile: cx5}\ntraffic: {}\n",
			":2:13: requester.profile: unknown key: it belongs in requester.nic"},
		{"a mark", "name: x\ntraffic: {data-pkt-events: [{qpn: 1, psn: 1, type: mark}]}\n", "the action is called ecn"},
		{"no YAML", "name: x\ntraffic: [\n", ":"},
		{"nothing", "", ":1:1: the file is empty"},
	} {
		file := fileOf(t, tt.text)
		status, _, stderr := candela(t, "config", "check", file)
		place := regexp.MustCompile(`^` + regexp.QuoteMeta(file) + `:[0-9]+:[0-9]+: `)
		if status != orchestrator.ExitUsage || !place.MatchString(stderr) || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit status %d, want %q after the place\n%s", tt.name, status, tt.want, stderr)
		}
		if strings.Count(stderr, "switch-under-test: is missing") > 0 && strings.Contains(stderr, "did you mean") {
			t.Errorf("%s: one slip has two messages\n%s", tt.name, stderr)
		}
	}
}
