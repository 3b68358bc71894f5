package switchtest_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"candela.dev/candela/orchestrator/switchtest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestTheReferenceInTheDocumentsMatchesTheDeclarations(t *testing.T) {
	const file = "../../docs/reference/switch-reference.md"
	if *update {
		if err := os.WriteFile(file, switchtest.Reference(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, switchtest.Reference()) {
		t.Errorf("%s is out of date: go test ./orchestrator/switchtest -run Reference -update", file)
	}
}
