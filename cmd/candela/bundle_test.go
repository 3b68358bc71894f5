package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

func bundled(t *testing.T, dir string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.tar")
	status, stdout, stderr := candela(t, append([]string{"bundle", dir, "-o", file}, args...)...)
	if status != orchestrator.ExitPass {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	return file
}

const severalVerbs = `name: several
traffic:
  num-connections: 2
  rdma-verb: [write, read, send]
  num-msgs-per-qp: 3
  message-size: 5000
  data-pkt-events: [{qpn: 2, psn: 3, type: drop}, {qpn: 1, psn: 7, type: ecn}]
`

func TestABundleReproducesItsRunToTheByte(t *testing.T) {
	broken := strings.Replace(oneDrop, "traffic:", "responder: {nic: {bugs: [nack-psn-plus-one]}}\ntraffic:", 1)
	for name, text := range map[string]string{"a drop": oneDrop, "a violation": broken, "several verbs": severalVerbs} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{nil, {"--with-trace"}} {
				file := bundled(t, runOf(t, text), args...)
				status, stdout, stderr := candela(t, "replay", file, "--out", t.TempDir())
				if status != orchestrator.ExitPass || !strings.Contains(stdout, "reproduced: ") || stderr != "" {
					t.Errorf("%v: exit status %d\n%s%s", args, status, stdout, stderr)
				}
			}
		})
	}
}

func TestTwoRunsOfATestGiveTheSameBundle(t *testing.T) {
	var bundles [2][]byte
	for i := range bundles {
		var err error
		if bundles[i], err = os.ReadFile(bundled(t, runOf(t, oneDrop))); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(bundles[0], bundles[1]) {
		t.Error("the bundles differ")
	}
}

func TestAReplaySaysWhatDiffers(t *testing.T) {
	dir := runOf(t, oneDrop)
	config := filepath.Join(dir, "counters.json")
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(`"packet_seq_err": 1`), []byte(`"packet_seq_err": 9`), 1)
	if err := os.WriteFile(config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := candela(t, "replay", bundled(t, dir), "--out", t.TempDir())
	if status != orchestrator.ExitFail {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	for _, want := range []string{"NOT reproduced: 1 files differ", "counters.json: SHA-256",
		"requester.packet_seq_err  9 → 1"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
}

func TestBundleAndReplayRefuseWhatTheyCannotUse(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.tar")
	if err := os.WriteFile(junk, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no output", []string{"bundle", "x"}, "-o FILE is missing"},
		{"no run", []string{"bundle", t.TempDir(), "-o", junk + "2"}, "is not a run directory"},
		{"no bundle", []string{"replay", junk}, "invalid bundle"},
		{"no file", []string{"replay", junk + "3"}, "no such file"},
	} {
		if status, _, stderr := candela(t, tt.args...); status != orchestrator.ExitUsage ||
			!strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit status %d, %s; want %s", tt.name, status, stderr, tt.want)
		}
	}
}
