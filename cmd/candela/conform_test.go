package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/conformance"
	"candela.dev/candela/orchestrator/report/junitschema"
	"candela.dev/candela/runtimetest"
)

func TestConformQualifiesAProfileAndLeavesAReport(t *testing.T) {
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"conform", "--out", out, "--format", "json"}, &stdout,
		&stderr); status != orchestrator.ExitPass {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	var r conformance.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Failed != 0 || r.Passed < 60 {
		t.Errorf("%d rules pass and %d fail, want at least 60 and 0", r.Passed, r.Failed)
	}
	for _, name := range []string{"conformance.md", "conformance.json", "tail-loss/trace.pcap", "tail-loss/report.html"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestConformFailsANICThatBreaksARule(t *testing.T) {
	if runtimetest.Race {
		t.Skip("the suite runs under the race detector in the test above")
	}
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	args := []string{"conform", "--bugs", "cnp-no-becn", "--out", "out", "--junit", "junit.xml"}
	if status := run(t.Context(), args, &stdout, &stderr); status != orchestrator.ExitFail {
		t.Errorf("status %d, want %d: %s", status, orchestrator.ExitFail, stderr.String())
	}
	if !strings.Contains(stdout.String(), "FAIL           cnp-format") {
		t.Errorf("the report does not name the rule:\n%s", stdout.String())
	}
	for line := range strings.Lines(stdout.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > defaultColumns {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
	document, err := os.ReadFile("junit.xml")
	if err != nil {
		t.Fatal(err)
	}
	if err := junitschema.Check(bytes.NewReader(document)); err != nil {
		t.Error(err)
	}
	failed := regexp.MustCompile(`<testcase name="cnp-format: [^>]*>\s*<failure message="[^"]+" type="cnp.`)
	if !failed.Match(document) {
		t.Errorf("no failing case of cnp-format:\n%s", document)
	}
}

func TestConformRefusesWhatDoesNotExist(t *testing.T) {
	for _, args := range [][]string{{"--profile", "cx9"}, {"--peer", "cx9"}, {"--role", "both"}, {"--nak-us", "-1"},
		{"--bugs", "no-such-bug"}, {"--bugs", "no-nak"}, {"--format", "xml"}, {"--workers", "-1"}} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), append([]string{"conform", "--out", t.TempDir()}, args...), &stdout,
			&stderr); status != orchestrator.ExitUsage {
			t.Errorf("%v: status %d, want %d", args, status, orchestrator.ExitUsage)
		}
		if !strings.Contains(stderr.String(), args[0]) {
			t.Errorf("%v: the error does not name the option: %s", args, stderr.String())
		}
	}
}
