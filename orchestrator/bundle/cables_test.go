package bundle

import (
	"slices"
	"testing"

	"candela.dev/candela/orchestrator"
)

// TestABundleCanHoldWhatHostsRecorded: without it a run of a live testbed would be judged by less than it was.
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
