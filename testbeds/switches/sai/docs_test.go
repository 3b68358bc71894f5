package sai_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the index of configs/sai-trimming")

// TestTheReferenceSaysWhichRuleCatchesEachBug compares the reference with the tests of this package.
func TestTheReferenceSaysWhichRuleCatchesEachBug(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/switch-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range seeded {
		listed := false
		for line := range strings.Lines(string(page)) {
			listed = listed || strings.HasPrefix(line, "- `"+b.bug+"`:") && strings.Contains(line, "`"+b.rules[0]+"`")
		}
		if !listed {
			t.Errorf("docs/reference/switch-reference.md does not say that %s is caught by %s", b.bug, b.rules[0])
		}
	}
}

// TestTheIndexOfTheSuiteIsUpToDate makes the index from the first comments of the files.
func TestTheIndexOfTheSuiteIsUpToDate(t *testing.T) {
	const dir = "../../../configs/sai-trimming"
	files, err := filepath.Glob(filepath.Join(dir, "*.yml"))
	if err != nil || len(files) < 40 {
		t.Fatalf("%d tests: %v", len(files), err)
	}
	var b strings.Builder
	b.WriteString(`# Tests of SAI packet trimming

The suite follows the test plans of SONiC and Keysight and the SAI proposal; docs/guide/sai-trimming.md says what it
does not cover. This page is made of the files' first comments (` +
		"`go test ./testbeds/switches/sai -run Index -update`" + `).

| file | case |
|---|---|
`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var about []string
		for line := range strings.Lines(string(data)) {
			comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
			if !ok {
				break
			}
			about = append(about, strings.TrimSpace(comment))
		}
		if len(about) == 0 {
			t.Errorf("%s does not begin with a comment that says what it tests", file)
		}
		name := filepath.Base(file)
		fmt.Fprintf(&b, "| [%s](%s) | %s |\n", name, name, strings.Join(about, " "))
	}
	readme := filepath.Join(dir, "README.md")
	if *update {
		if err := os.WriteFile(readme, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(have)); diff != "" {
		t.Errorf("%s (-want +have; -update rewrites it):\n%s", readme, diff)
	}
}
