package main

import (
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

const comparedTest = `name: compared
responder: {nic: {profile: spec}}
traffic:
  message-size: 10240
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
expect: {baseline: last-green, retrans.nack-reaction-us: {p99: +5 %}}
`

func TestARunIsComparedWithItsBaseline(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "history.db")
	good := writeTest(t, comparedTest)
	// The requester of this profile reacts to a NAK in another time.
	slow := writeTest(t, strings.Replace(comparedTest, "responder:", "requester: {nic: {profile: cx5}}\nresponder:", 1))
	if status, _, stderr := candela(t, "run", good, "--out", dir); status != orchestrator.ExitUsage ||
		!strings.Contains(stderr, "needs a results store") {
		t.Errorf("without a store: exit status %d, %s", status, stderr)
	}
	for _, tt := range []struct {
		name, file, night, repeat string
		status                    orchestrator.Exit
		want                      string
	}{
		{"the first runs have nothing before them", good, "2026-11-01", "4", orchestrator.ExitPass, "n is too small"},
		{"the same night is no baseline", slow, "2026-11-01", "1", orchestrator.ExitPass, "n is too small"},
		{"an equal run", good, "2026-11-02", "1", orchestrator.ExitPass, ""},
		{"a few runs are too few", good, "2026-11-03", "1", orchestrator.ExitPass, "has 1 runs"},
	} {
		status, stdout, stderr := candela(t, "run", tt.file, "--out", dir, "--history", store, "--night", tt.night, "--repeat",
			tt.repeat, "--report", "none", "-v")
		if status != tt.status || !strings.Contains(strings.Join(strings.Fields(stdout), " "), tt.want) {
			t.Errorf("%s: exit status %d, want %d with %q\n%s%s", tt.name, status, tt.status, tt.want, stdout, stderr)
		}
	}
	fixed := filepath.Join(dir, "fixed.db")
	night := strings.Replace(comparedTest, "last-green", "night-2026-11-01", 1)
	candela(t, "run", good, "--out", dir, "--history", fixed, "--night", "2026-11-01", "--repeat", "5", "--report", "none")
	for _, tt := range []struct {
		text   string
		status orchestrator.Exit
		want   string
	}{
		{night, orchestrator.ExitPass, ""},
		{strings.Replace(night, "responder:", "requester: {nic: {profile: cx5}}\nresponder:", 1), orchestrator.ExitFail,
			"expect.retrans.nack-reaction-us.p99"},
	} {
		status, stdout, stderr := candela(t, "run", writeTest(t, tt.text), "--out", dir, "--history", fixed, "--night",
			"2026-11-09")
		if status != tt.status || !strings.Contains(stdout, tt.want) {
			t.Errorf("exit status %d, want %d with %q\n%s%s", status, tt.status, tt.want, stdout, stderr)
		}
	}
}
