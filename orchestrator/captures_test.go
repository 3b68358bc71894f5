package orchestrator_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/orchestrator"
)

const encapsulated = "../trace/testdata/encapsulation/"

// The same packets get the same verdict with any link type, tunnel, compression and input path.
func TestTheWayOfACaptureChangesNothingInItsAnalysis(t *testing.T) {
	want := analyze(t, orchestrator.AnalyzeOptions{Trace: encapsulated + "plain.pcap.gz"})
	if want.Verdict.Exit != orchestrator.ExitPass || len(want.Analysis.Metrics) == 0 {
		t.Fatalf("plain: %v, %d metrics", want.Verdict, len(want.Analysis.Metrics))
	}
	for _, name := range []string{"qinq", "sll", "sll2", "vxlan-scapy", "geneve", "erspan2", "erf"} {
		got := analyze(t, orchestrator.AnalyzeOptions{Trace: encapsulated + name + ".pcap.gz"})
		got.Analysis.Notes = want.Analysis.Notes // notes list the removed headers
		if diff := cmp.Diff(want.Analysis, got.Analysis); diff != "" {
			t.Errorf("%s: (-plain +%s)\n%.1000s", name, name, diff)
		}
	}
	file, err := os.ReadFile(encapsulated + "plain.pcap.gz")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	piped := analyze(t, orchestrator.AnalyzeOptions{Trace: "-", Stdin: bytes.NewReader(file)})
	if diff := cmp.Diff(want.Analysis, piped.Analysis); diff != "" || piped.Report.Name != "standard input" {
		t.Errorf("%s: %s", piped.Report.Name, diff)
	}
	if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestSeveralCapturesThatCannotBeOne(t *testing.T) {
	one := encapsulated + "plain.pcap.gz"
	for _, tc := range []struct {
		more []string
		want string
	}{
		{[]string{t.TempDir()}, "is a directory"},
		{[]string{"-"}, "standard input"},
		{[]string{one}, "starts"},
		{[]string{"nowhere.pcap"}, "nowhere.pcap"},
	} {
		_, err := orchestrator.Analyze(t.Context(), orchestrator.AnalyzeOptions{Trace: one, More: tc.more})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.more, err, tc.want)
		}
	}
}
