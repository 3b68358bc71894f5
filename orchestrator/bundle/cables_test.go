package bundle

import (
	"slices"
	"testing"

	"candela.dev/candela/orchestrator"
)

// TestABundleCanHoldWhatHostsRecorded: without these files a live run would be rejudged without its cable check.
func TestABundleCanHoldWhatHostsRecorded(t *testing.T) {
	for _, name := range orchestrator.CableFiles() {
		if !slices.Contains(memberNames(), name) {
			t.Errorf("%s is no member", name)
		}
	}
	if want := "frames/responder-received.bin"; !slices.Contains(memberNames(), want) {
		t.Errorf("%s is no member", want)
	}
}
