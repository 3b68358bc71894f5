package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/orchestrator"
)

// filesOf returns the contents of the files below dir, by name.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = strings.ReplaceAll(string(data), dir, "CORPUS")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFuzzIsDeterministicAndGoesOnFromItsCorpus(t *testing.T) {
	file := writeTest(t, oneDrop)
	var outputs [2]string
	var corpora [2]map[string]string
	var dir string
	for i := range outputs {
		dir = t.TempDir()
		status, stdout, stderr := candela(t, "fuzz", file, "--runs", "64", "--seed", "3", "--corpus", dir)
		if status != orchestrator.ExitPass || !strings.Contains(stdout, "no rule was violated") {
			t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
		}
		outputs[i], corpora[i] = strings.ReplaceAll(stdout, dir, "CORPUS"), filesOf(t, dir)
	}
	if diff := cmp.Diff(outputs[0], outputs[1]); diff != "" {
		t.Errorf("(-first +second)\n%s", diff)
	}
	if diff := cmp.Diff(corpora[0], corpora[1]); diff != "" {
		t.Errorf("(-first +second)\n%s", diff)
	}
	before := len(corpora[1])
	status, stdout, stderr := candela(t, "fuzz", file, "--runs", "64", "--seed", "3", "--corpus", dir)
	if status != orchestrator.ExitPass || len(filesOf(t, dir)) < before {
		t.Errorf("resumed: exit status %d, %d files, %d before\n%s%s", status, len(filesOf(t, dir)), before, stdout, stderr)
	}
}

func TestFuzzReportsABrokenNICReadyToSend(t *testing.T) {
	dir := t.TempDir()
	broken := strings.Replace(oneDrop, "traffic:", "responder: {nic: {bugs: [nack-psn-plus-one]}}\ntraffic:", 1)
	broken = broken[:strings.Index(broken, "  data-pkt-events")] // without the event: fuzz has to find it
	status, stdout, stderr := candela(t, "fuzz", writeTest(t, broken), "--runs", "40", "--corpus", dir)
	if status != orchestrator.ExitFail || !strings.Contains(stdout, "violated gbn.nak-psn") {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	failure := filepath.Join(dir, "failures", "gbn.nak-psn")
	status, stdout, _ = candela(t, "run", filepath.Join(failure, "test.yml"), "--out", t.TempDir(), "--format", "json")
	if status != orchestrator.ExitFail || !hasRule(findingsOf(t, stdout), "gbn.nak-psn") {
		t.Errorf("test.yml: exit status %d\n%s", status, stdout)
	}
	if status, stdout, stderr = candela(t, "replay", filepath.Join(failure, "bundle.tar"), "--out",
		t.TempDir()); status != orchestrator.ExitPass {
		t.Errorf("bundle.tar: exit status %d\n%s%s", status, stdout, stderr)
	}
	text, err := os.ReadFile(filepath.Join(failure, "report.txt"))
	if err != nil || !strings.Contains(string(text), "gbn.nak-psn") {
		t.Errorf("report.txt: %v\n%s", err, text)
	}
}

func TestFuzzNamesATestOfASwitchAsSuch(t *testing.T) {
	status, _, stderr := candela(t, "fuzz", filepath.Join("..", "..", "configs", "switch-incast-ndp.yml"), "--runs", "1",
		"--corpus", t.TempDir())
	if status != 2 || !strings.Contains(stderr, "a test of a switch") {
		t.Errorf("status %d, want 2 and what the file is:\n%s", status, stderr)
	}
}

func TestFuzzAndDetectRefuseAnAmbiguousIter(t *testing.T) {
	file := fileOf(t, firstTest)
	if err := os.Mkdir(filepath.Join(filepath.Dir(file), "detect"), 0o777); err != nil { // for detect
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"fuzz", file, "--runs", "1", "--corpus", t.TempDir()},
		{"detect", "--configs", filepath.Dir(file), "--profiles", "spec", "--scenarios", "0"},
	} {
		status, _, stderr := candela(t, command...)
		if status != orchestrator.ExitUsage || !strings.Contains(stderr, file+":3:3: traffic.iter-scope: is missing") ||
			!strings.Contains(stderr, "\n     3 +   iter-scope: packet\n") {
			t.Errorf("%v: exit status %d\n%s", command, status, stderr)
		}
	}
}
