package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/diff"
)

// runOf runs one test text and returns its run directory.
func runOf(t *testing.T, text string, args ...string) string {
	t.Helper()
	out := t.TempDir()
	_, stdout, stderr := candela(t, append([]string{"run", writeTest(t, text), "--out", out}, args...)...)
	dirs, err := filepath.Glob(filepath.Join(out, "*", "run.json"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("no run directory\n%s%s", stdout, stderr)
	}
	return filepath.Dir(dirs[0])
}

const oneDrop = `name: one-drop
traffic:
  message-size: 10240
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
`

func TestDiffTellsEnvironmentConfigurationAndFindings(t *testing.T) {
	a := runOf(t, oneDrop)
	b := runOf(t, strings.Replace(oneDrop, "traffic:", "responder: {nic: {bugs: [nack-psn-plus-one]}}\ntraffic:", 1))
	if status, stdout, stderr := candela(t, "diff", a, a); status != orchestrator.ExitPass ||
		!strings.Contains(stdout, "no difference") {
		t.Errorf("with itself: exit status %d\n%s%s", status, stdout, stderr)
	}
	status, stdout, stderr := candela(t, "diff", a, b, "--format", "json")
	if status != orchestrator.ExitFail {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	var r diff.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Environment) != 1 || r.Environment[0].Name != "responder.bugs" {
		t.Errorf("environment: %+v", r.Environment)
	}
	if len(r.Config) != 1 || r.Config[0].Name != "responder.nic.bugs" {
		t.Errorf("configuration: %+v", r.Config)
	}
	if len(r.Findings.Appeared) == 0 || r.Findings.Appeared[0].Rule != "gbn.nak-psn" || len(r.Findings.Disappeared) != 0 {
		t.Errorf("findings: %+v", r.Findings)
	}
	_, stdout, _ = candela(t, "diff", a, b)
	if order := sectionsOf(stdout); order != "environment configuration verdict findings metrics counters" {
		t.Errorf("sections: %s\n%s", order, stdout)
	}
}

func sectionsOf(text string) string {
	var titles []string
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if line[0] >= 'a' && line[0] <= 'z' && !strings.Contains(word, ":") {
			titles = append(titles, word)
		}
	}
	return strings.Join(titles, " ")
}

func TestDiffRefusesWhatIsNoRun(t *testing.T) {
	good, bad := runOf(t, oneDrop), runOf(t, oneDrop)
	empty := t.TempDir()
	for _, tt := range []struct {
		name   string
		change func() error
		dir    string
		want   string
	}{
		{"an empty directory", func() error { return nil }, empty, "is not a run directory"},
		{"a file", func() error { return nil }, filepath.Join(good, "run.json"), "is not a run directory"},
		{"broken JSON", func() error { return os.WriteFile(filepath.Join(bad, "counters.json"), []byte("{"), 0o600) }, bad,
			"counters.json"},
		{"a missing document", func() error {
			return os.Rename(filepath.Join(bad, "environment.json"), filepath.Join(bad, "e"))
		}, bad, "environment.json"},
		{"a symbolic link", func() error { return os.Symlink("/etc/passwd", filepath.Join(bad, "environment.json")) }, bad,
			"no regular file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.change(); err != nil {
				t.Fatal(err)
			}
			status, _, stderr := candela(t, "diff", good, tt.dir)
			if status != orchestrator.ExitUsage || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit status %d, %s; want %s", status, stderr, tt.want)
			}
		})
	}
}
