package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

const soundNIC = `name: sound
traffic:
  message-size: 10240
  min-retransmit-timeout: 8
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
`

func TestWrongInputsSayWhatIsMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	capture := capturedWrite(t)
	for name, text := range map[string]string{"c.yml": "foo: bar\n", "c.json": "{}"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		args []string
		want string // prefix
		not  string
	}{
		{"connections in YAML", []string{"analyze", capture, "--connections", "c.yml"}, "c.yml:1:1: not JSON: ", "candela: "},
		{"empty connections", []string{"analyze", capture, "--connections", "c.json"},
			"c.json:1:1: document: key \"schema\" is missing\nc.json:1:1: document: key \"connections\" is missing\n  A", ""},
		{"a directory without a run", []string{"minimize", "."},
			"candela: . is not a run directory: it has no run.json\n", "statat"},
		{"a name of the output", []string{"trace", "show", capture, "--qpn", "1"},
			"candela: unknown flag: --qpn (did you mean --connection?)\n", ""},
		{"a slip", []string{"run", "x.yml", "--repaet", "2"}, "candela: unknown flag: --repaet (did you mean --repeat?)\n", ""},
	} {
		status, stdout, stderr := candela(t, tt.args...)
		if status != orchestrator.ExitUsage || !strings.HasPrefix(stderr, tt.want) ||
			tt.not != "" && strings.Contains(stderr, tt.not) {
			t.Errorf("%s: exit status %d, want %q\n%s%s", tt.name, status, tt.want, stdout, stderr)
		}
	}
}

func TestTheResultSaysThatConnectionsWereInferred(t *testing.T) {
	t.Chdir(t.TempDir())
	capture := capturedWrite(t)
	const note = "the connections were inferred from the packets"
	if _, stdout, stderr := candela(t, "analyze", capture); !strings.Contains(stdout, note) {
		t.Errorf("without a document:\n%s%s", stdout, stderr)
	}
	known := filepath.Join(filepath.Dir(capture), "connections.json")
	if _, stdout, stderr := candela(t, "analyze", capture, "--connections", known); strings.Contains(stdout, note) ||
		!strings.HasPrefix(stdout, "PASS") {
		t.Errorf("with a document:\n%s%s", stdout, stderr)
	}
}

// capturedWrite runs a test and returns its trace.
func capturedWrite(t *testing.T) string {
	t.Helper()
	file := fileOf(t, soundNIC)
	out := t.TempDir()
	if status, stdout, stderr := candela(t, "run", file, "--out", out); status != orchestrator.ExitPass {
		t.Fatalf("%s%s", stdout, stderr)
	}
	return filepath.Join(out, "sound", "trace.pcap")
}
