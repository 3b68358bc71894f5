package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/history"
)

const wrongPSN = `name: one-drop
metadata: {id: TC-1, owner: nic-team}
responder: {nic: {bugs: [nack-psn-plus-one]}}
traffic:
  message-size: 10240
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
`

// TestHistoryKeepsTheRunsOfACommandAndAnswersQuestions takes the way of a person: runs with --history, imports, asks.
func TestHistoryKeepsTheRunsOfACommandAndAnswersQuestions(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "history.db")
	good := strings.Replace(wrongPSN, "responder: {nic: {bugs: [nack-psn-plus-one]}}\n", "", 1)
	must := func(want orchestrator.Exit, args ...string) string {
		t.Helper()
		status, stdout, stderr := candela(t, args...)
		if status != want {
			t.Fatalf("%v: exit status %d, want %d\n%s%s", args, status, want, stdout, stderr)
		}
		for line := range strings.Lines(stdout) {
			if args[0] != "run" && !slices.Contains(args, "--json") && !strings.Contains(line, dir) && utf8.RuneCountInString(line) > 81 {
				t.Errorf("%v: %d columns: %s", args, utf8.RuneCountInString(line), line)
			}
		}
		return stdout
	}
	file := writeTest(t, good)
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	must(orchestrator.ExitPass, "run", file, "--out", before, "--night", "2026-11-19", "--history", store, "--repeat", "2",
		"--report", "none")
	must(orchestrator.ExitFail, "run", writeTest(t, wrongPSN), "--out", after, "--night", "2026-11-20", "--report", "none")
	t.Setenv("CANDELA_HISTORY", store)
	for i, want := range []string{"new        1", "new        0"} {
		if out := must(orchestrator.ExitPass, "history", "import", before, after); !strings.Contains(out, want) {
			t.Errorf("import %d: %s", i, out)
		}
	}
	var list history.RunList
	run := filepath.Join(before, "one-drop-r1")
	must(orchestrator.ExitPass, "analyze", run, "--history", store) // the same results: nothing changes
	if err := json.Unmarshal([]byte(must(orchestrator.ExitPass, "history", "list", "TC-1", "--json")), &list); err != nil ||
		len(list.Runs) != 3 || list.Runs[0].Verdict != history.Fail {
		t.Fatalf("list: %v, %+v", err, list)
	}
	for _, tt := range []struct {
		args   []string
		status orchestrator.Exit
		want   []string
	}{
		{[]string{"history", "list"}, 0, []string{"TC-1", "fail"}},
		{[]string{"history", "show", list.Runs[0].ID[:10]}, 0, []string{"FAIL", "gbn.nak-psn", "owner nic-team", after}},
		{[]string{"history", "owners"}, 0, []string{"nic-team: 1 failing", "gbn.nak-psn"}},
		{[]string{"history", "flaky"}, 0, []string{"no flaky test"}},
		{[]string{"history", "trend", "retrans.nack-reaction", "--night", "2026-11-20"}, 0, []string{"2026-11-19", "2026-11-20"}},
		{[]string{"history", "trend"}, 0, []string{"no metric has shifted"}},
		{[]string{"history", "testbeds"}, 0, []string{"virtual"}},
		{[]string{"history", "blame", "TC-1"}, 0, []string{"last good", "first bad", "responder.bugs", "nack-psn-plus-one"}},
		{[]string{"history", "compare", "last-green", "last-night"}, 1, []string{"responder.bugs", "findings: new"}},
		{[]string{"diff", "night-2026-11-19", after}, 1, []string{"responder.bugs", "findings: new"}},
		{[]string{"diff", after, "night-2026-11-19"}, 1, []string{"findings: fixed"}},
		{[]string{"diff", before, before}, 0, []string{"no difference"}},
	} {
		out := must(tt.status, tt.args...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", tt.args, want, out)
			}
		}
		if env, findings := strings.Index(out, "environment"), strings.Index(out, "findings:"); env > findings && findings >= 0 {
			t.Errorf("%v: findings come before the environment\n%s", tt.args, out)
		}
	}
}

func TestHistoryErrorsNameWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "history.db")
	run := runOf(t, oneDrop)
	if status, _, stderr := candela(t, "history", "import", run, "--history", store); status != orchestrator.ExitPass {
		t.Fatal(stderr)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.CopyFS(broken, os.DirFS(run)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "analysis", "gbn.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		status orchestrator.Exit
		want   string
	}{
		{[]string{"history", "list", "--history", filepath.Join(dir, "none.db")}, 2, "there is no such file"},
		{[]string{"history", "list", "nothing", "--history", store}, 2, "no such test"},
		{[]string{"history", "show", "zz", "--history", store}, 2, "want the id of a run"},
		{[]string{"history", "show", "0123456789", "--history", store}, 2, "no run whose id"},
		{[]string{"history", "compare", "night-2020-01-01", "last-night", "--history", store}, 2, "the nearest nights are"},
		{[]string{"history", "compare", "night-x", "last-night", "--history", store}, 2, "want a date"},
		{[]string{"history", "compare", "fw:1.2.3", "last-night", "--history", store}, 2, "no run of the results store has it"},
		{[]string{"history", "compare", "nonsense", "last-night", "--history", store}, 2, "want a directory, last-night"},
		{[]string{"diff", "last-green", run, "--history", filepath.Join(dir, "none.db")}, 2, "there is no such file"},
		{[]string{"history", "trend", "no.metric", "--history", store}, 2, "they have: "},
		{[]string{"history", "import", t.TempDir(), "--history", store}, 2, "is not a run directory"},
		{[]string{"history", "import", broken, "--history", store}, 2, "gbn.json"},
		{[]string{"history", "import", run, "--history", "postgres://127.0.0.1:1/x"}, 4, "cannot be reached"},
		{[]string{"history", "owners", "--nights", "0", "--history", store}, 2, "--nights 0"},
		{[]string{"run", writeTest(t, oneDrop), "--out", t.TempDir(), "--night", "today"}, 2, "--night"},
		{[]string{"run", writeTest(t, oneDrop), "--out", t.TempDir(), "--history", "mysql://x"}, 2, "want a file"},
	} {
		status, stdout, stderr := candela(t, tt.args...)
		if status != tt.status || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit status %d, want %d with %q\n%s%s", tt.args, status, tt.status, tt.want, stdout, stderr)
		}
	}
}
