package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

func TestADirectoryOfRunsSaysWhichRunsAreInIt(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	if status, stdout, stderr := candela(t, "run", writeTest(t, sweepOfThree), "--out",
		out); status != orchestrator.ExitPass {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	sweep := filepath.Join(out, "three")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"analyze", sweep}, "is the directory of a sweep, not of one run; in it are p1, p2, p3: name one, such as " +
			sweep + "/p1"},
		{[]string{"trace", "show", sweep}, "is the directory of a sweep, not of one run; in it are p1, p2, p3"},
		{[]string{"trace", "stats", sweep}, "is the directory of a sweep"},
		{[]string{"analyze", out}, "is not a run directory"},
	} {
		status, _, stderr := candela(t, tt.args...)
		if status != orchestrator.ExitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit status %d, %s; want %s", tt.args, status, stderr, tt.want)
		}
	}
	if err := os.Remove(filepath.Join(sweep, "sweep.json")); err != nil {
		t.Fatal(err)
	}
	if _, _, stderr := candela(t, "analyze", sweep); !strings.Contains(stderr,
		"is a directory of runs, not of one run; in it are p1, p2, p3") {
		t.Error(stderr)
	}
}

func TestAnalyzeJudgesNoRunOfWhichTheDocumentIsBroken(t *testing.T) {
	t.Parallel()
	dir := runOf(t, oneDrop)
	for content, want := range map[string]string{
		`{"schema": `:             "run.json: unexpected end of JSON input",
		`{"schema": "something"}`: `run.json: schema is "something", want candela.run/v1`,
		`[]`:                      "run.json: json: cannot unmarshal array",
	} {
		if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, stdout, stderr := candela(t, "analyze", dir); status != orchestrator.ExitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d, %s%s; want %s", content, status, stdout, stderr, want)
		}
	}
}
