package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

// TestAWrongFileFailsItselfAndNotTheSuite checks that the other tests of a directory with a wrong file run. The exit
// status is that of the wrong file unless a worse one occurs.
func TestAWrongFileFailsItselfAndNotTheSuite(t *testing.T) {
	kernel, err := os.ReadFile("../../configs/sai-live/live-kernel.yml")
	if err != nil {
		t.Fatal(err)
	}
	const (
		plain = "name: plain\ntraffic: {}\n"
		fails = "name: fails\nresponder: {nic: {profile: spec, bugs: [nack-psn-plus-one]}}\n" +
			"traffic: {data-pkt-events: [{qpn: 1, psn: 3, type: drop, iter: 1}]}\n"
	)
	for _, tt := range []struct {
		name   string
		files  map[string]string
		args   []string
		status orchestrator.Exit
		want   []string // on either stream
	}{
		{"a parse error", map[string]string{"a.yml": plain, "b.yml": "name: [\n"}, nil, orchestrator.ExitUsage,
			[]string{"PASS   plain", "ERROR  b", "b.yml:2:1", "1 run: 1 pass, 0 fail, 0 invalid; 1 error: a file is wrong"}},
		{"an unknown key", map[string]string{"a.yml": plain, "b.yml": "name: b\ntraffic: {mtus: 7}\n"}, nil,
			orchestrator.ExitUsage, []string{"PASS   plain", "traffic.mtus"}},
		{"an unknown testbed", map[string]string{"a.yml": plain, "b.yml": "name: b\ntestbed: quantum\ntraffic: {}\n"}, nil,
			orchestrator.ExitUsage, []string{"PASS   plain", "ERROR  b", "quantum"}},
		{"hosts that a simulation cannot have", map[string]string{"a.yml": plain, "b.yml": string(kernel)}, nil,
			orchestrator.ExitUsage, []string{"PASS   plain", "ERROR  b", "run the test with --testbed netns"}},
		{"a failing test beside it", map[string]string{"a.yml": fails, "b.yml": "name: [\n"}, nil, orchestrator.ExitUsage,
			[]string{"fails", "ERROR  b", "1 run: 0 pass, 1 fail, 0 invalid; 1 error: a file is wrong"}},
		{"nothing but wrong files", map[string]string{"a.yml": "name: [\n", "b.yml": "name: [\n"}, nil,
			orchestrator.ExitUsage, []string{"a.yml:2:1", "b.yml:2:1"}},
		{"with a wrong option nothing", map[string]string{"a.yml": plain, "b.yml": plain}, []string{"--point", "1"},
			orchestrator.ExitUsage, []string{"--point: "}},
		{"tests of one name", map[string]string{"a.yml": plain, "b.yml": plain}, nil, orchestrator.ExitPass,
			[]string{"plain", "a.yml)", "b.yml)", "2 runs: 2 pass"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out := t.TempDir()
			status, stdout, stderr := candela(t, append([]string{"run", dir, "--out", out}, tt.args...)...)
			for _, want := range tt.want {
				if text := strings.Join(strings.Fields(stdout+stderr), " "); !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
					t.Errorf("no %q", want)
				}
			}
			runs, err := os.ReadDir(out)
			if err != nil {
				t.Fatal(err)
			}
			if ran := !strings.Contains(tt.name, "nothing"); status != tt.status || ran != (len(runs) > 0) {
				t.Errorf("exit status %d, want %d; %d runs\n%s%s", status, tt.status, len(runs), stdout, stderr)
			}
		})
	}
}

func TestAWrongFileIsAnErrorInJUnit(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yml": "name: same\ntraffic: {}\n", "b.yml": "name: same\ntraffic: {}\n",
		"c.yml": "name: [\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	junit := filepath.Join(dir, "junit.xml")
	candela(t, "run", "--junit", junit, "--out", t.TempDir(), dir)
	text, err := os.ReadFile(junit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`errors="1" skipped="0"`, `type="wrong-file"`, `<testsuite name="same (` + dir + `/a.yml)"`,
		`<testsuite name="same (` + dir + `/b.yml)"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestTheCheckOfSeveralFilesGoesOnAfterAWrongOne(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yml": "name: [\n", "b.yml": "name: fine\ntraffic: {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := candela(t, "config", "check", dir)
	if status != orchestrator.ExitUsage || !strings.Contains(stdout, "b.yml: ok") || !strings.Contains(stderr, "a.yml:2:1") {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
}
