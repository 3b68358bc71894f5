package sai_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	model "candela.dev/candela/testbeds/switches/sai"
)

func TestThePageNamesEveryParameterBugAndTest(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guide/sai-trimming.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range seeded {
		names = append(names, "| `"+b.bug+"` |", "`"+b.rules[0]+"`")
	}
	for _, p := range model.Model().Parameters {
		if p.Name != "scheduler" && p.Name != "weights" { // words of every switch
			names = append(names, "`"+p.Name)
		}
	}
	files, err := filepath.Glob("../../../configs/sai-trimming/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, "["+filepath.Base(file)+"]")
	}
	for _, name := range names {
		if !strings.Contains(string(page), name) {
			t.Errorf("docs/guide/sai-trimming.md does not say %s", name)
		}
	}
}
