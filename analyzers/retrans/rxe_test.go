package retrans_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/trace"
)

// analyseCapture runs the analyzers of timing and congestion over a checked trace of soft-RoCE, whose timeout exponent
// is 14 and retry count 7.
func analyseCapture(t *testing.T, checked *trace.Checked) *analyzers.Analysis {
	t.Helper()
	params := retrans.Params{Known: true, TimeoutExponent: 14, RetryCount: 7, RNRRetry: 7}
	doc, err := analyzers.Run(t.Context(), checked,
		retrans.New(checked.Meta(), retrans.Config{Default: params}),
		cnp.New(checked.Meta(), cnp.Config{}),
		counters.New(checked.Meta(), counters.Input{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range doc.Findings {
		if f.Severity == analyzers.Violation {
			t.Errorf("finding %+v", f)
		}
	}
	return doc
}

func TestSoftRoCEIsNotConvicted(t *testing.T) {
	files, err := filepath.Glob("../../packet/testdata/rxe/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			checked, _, err := trace.Check(t.Context(), trace.FileSource(file), trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			analyseCapture(t, checked)
		})
	}
}

func TestSoftRoCEPairsShowHowTheLossWasRepaired(t *testing.T) {
	tests := []struct {
		name string
		want string // the metric that has exactly one value
	}{
		{"write-drop5", "retrans.nack-reaction"},
		{"send-drop5", "retrans.nack-reaction"},
		{"write-corrupt5", "retrans.nack-reaction"},
		{"read-drop5resp", "retrans.nack-generation"},
		{"write-droptail", "retrans.timeout.retry-1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			base := "../../packet/testdata/rxe/" + test.name
			checked, _, err := trace.CheckPair(context.Background(), trace.FileSource(base+".in.pcap"),
				trace.FileSource(base+".out.pcap"), trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			doc := analyseCapture(t, checked)
			var seen []string
			for _, m := range doc.Metrics {
				if m.Connection == 0 && m.Count > 0 {
					seen = append(seen, m.Name)
				}
				if m.Connection == 0 && m.Name == test.want && m.Count == 1 {
					return
				}
			}
			t.Errorf("no single %s; seen %s", test.want, strings.Join(seen, ", "))
		})
	}
}
