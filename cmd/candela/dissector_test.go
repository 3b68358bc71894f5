package main

import (
	"bytes"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace/wireshark"
)

func TestDissectorPrintsTheScript(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run(t.Context(), []string{"trace", "dissector"}, &out, &errs); status != orchestrator.ExitPass {
		t.Fatalf("status %v: %s", status, errs.String())
	}
	if out.String() != wireshark.Dissector {
		t.Errorf("printed %d bytes, the script has %d", out.Len(), len(wireshark.Dissector))
	}
}
