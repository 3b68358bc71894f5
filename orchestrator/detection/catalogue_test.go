package detection_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/orchestrator/detection"
)

var update = flag.Bool("update", false, "rewrite docs/reference/bugs.md")

func TestThePageOfBugsFollowsTheCatalogue(t *testing.T) {
	const page = "../../docs/reference/bugs.md"
	var want bytes.Buffer
	if err := detection.WriteCatalogue(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/reference/bugs.md is not up to date (-update rewrites it):\n%s", diff)
	}
}
