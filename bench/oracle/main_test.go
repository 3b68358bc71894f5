package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompliantSessionsPass analyses sessions of compliant endpoints through the taps that show them without gaps.
func TestCompliantSessionsPass(t *testing.T) {
	count := "25"
	if testing.Short() {
		count = "5"
	}
	for _, view := range []string{"mirror", "plain", "pair", "hosts"} {
		var out, errors bytes.Buffer
		if status := run([]string{"check", "-view", view, "-count", count, "-packets", "300", "-limit", "0"}, &out, &errors); status != 0 {
			t.Errorf("%s: exit %d\n%s%s", view, status, &errors, &out)
		}
	}
}

func TestCapturesOfASessionAreKept(t *testing.T) {
	dir := t.TempDir()
	var out, errors bytes.Buffer
	if status := run([]string{"check", "-view", "pair", "-count", "1", "-keep", dir}, &out, &errors); status != 0 {
		t.Fatalf("exit %d\n%s", status, &errors)
	}
	for _, name := range []string{"before.pcap", "after.pcap"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALimitOfDisagreementsIsAnError(t *testing.T) {
	var out, errors bytes.Buffer
	status := run([]string{"compare", "-count", "2000", "-examples", "1", "-limit", "0"}, &out, &errors)
	if status == 0 && !strings.Contains(out.String(), "      0  disagreements") {
		t.Errorf("exit 0 with disagreements:\n%s", &out)
	}
	out.Reset()
	status = run([]string{"compare", "-count", "300", "-view", "plain", "-limit", "-1", "-examples", "1"}, &out, &errors)
	if status != 0 || strings.Contains(out.String(), "pair: ") || strings.Contains(out.String(), "mirror: ") {
		t.Errorf("exit %d for plain traces only\n%s%s", status, &errors, &out)
	}
	if status := run([]string{"compare", "-view", "mirrors"}, &out, &errors); status != 2 || !strings.Contains(errors.String(), `"mirrors" is not a kind`) {
		t.Errorf("unknown view: exit %d, %s", status, &errors)
	}
	if status := run([]string{"judge"}, &out, &errors); status != 2 || !strings.Contains(errors.String(), `"judge" is not a command`) {
		t.Errorf("unknown command: exit %d, %s", status, &errors)
	}
}

// TestSessionsThatWereFalseAlarms analyses compliant sessions that a version of the analyzers blamed.
func TestSessionsThatWereFalseAlarms(t *testing.T) {
	for _, s := range [][2]string{
		{"pair", "105572"}, {"pair", "118667"}, {"pair", "119648"}, // the clocks' drift is not bounded late in the captures
		{"hosts-named", "101506"}, // as many ACKs as requests, but not one for each
	} {
		var out, errors bytes.Buffer
		if status := run([]string{"check", "-view", s[0], "-seed", s[1], "-count", "1", "-limit", "0"}, &out, &errors); status != 0 {
			t.Errorf("%s: exit %d\n%s%s", s, status, &errors, &out)
		}
	}
}
