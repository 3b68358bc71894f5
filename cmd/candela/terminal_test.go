package main

import (
	"errors"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
)

func TestExplanationsOfErrorsWrapAndPlacesDoNot(t *testing.T) {
	place := "tests/a-file.yml:12:3: traffic.data-pkt-events[3]: " + strings.Repeat("a long problem ", 8)
	why := "  " + strings.TrimSpace(strings.Repeat("what is allowed, ", 20))
	corrected := "    12 +   " + strings.Repeat("x: 1, ", 40)
	var b strings.Builder
	printError(&b, errors.New(place+"\n"+why+"\n"+corrected))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if lines[0] != place || lines[len(lines)-1] != corrected {
		t.Errorf("the place and the corrected line are printed as they are:\n%s", b.String())
	}
	for _, line := range lines[1 : len(lines)-1] {
		if len(line) > logColumns || !strings.HasPrefix(line, "  ") || strings.HasSuffix(line, " ") {
			t.Errorf("%d characters: %q", len(line), line)
		}
	}
	if len(lines) < 4 {
		t.Errorf("the explanation does not wrap:\n%s", b.String())
	}
}

func TestAWrongFileAmongOthersIsNamedAtTheStartOfItsLine(t *testing.T) {
	wrong := fileOf(t, "name: x\ntraffic: {data-pkt-events: [{qpn: 1, psn: 1, type: drop, copy: 1}]}\n")
	sound := fileOf(t, soundNIC)
	status, stdout, stderr := candela(t, "run", wrong, sound, "--out", t.TempDir())
	if status != orchestrator.ExitUsage || !strings.HasPrefix(stderr, wrong+":2:") {
		t.Errorf("exit status %d, want the place first:\n%s", status, stderr)
	}
	if strings.Contains(stdout, ",;") || !strings.Contains(stdout, "; traffic.data-pkt-events[0] takes") {
		t.Errorf("what is allowed is one sentence:\n%s", stdout)
	}
}
