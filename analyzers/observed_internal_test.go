package analyzers

import "testing"

// TestSkippedPSNsProveNothingAfterLosses: a network may lose more requests before the tap than a tap misses. That does
// not explain breaches of other rules, and explains nothing if the tap is at the requester or the capture is declared
// complete.
func TestSkippedPSNsProveNothingAfterLosses(t *testing.T) {
	for _, tc := range []struct {
		name           string
		complete, away bool
		want           Severity
	}{
		{"a tap somewhere", false, true, Warning},
		{"a tap at the requester", false, false, Violation},
		{"a complete capture", true, false, Violation},
	} {
		skip := Finding{Rule: "gbn.psn-skip", Severity: Violation, Connection: 1, Packets: []uint64{9}}
		repeat := Finding{Rule: "gbn.nak-repeat", Severity: Violation, Connection: 1, Packets: []uint64{12}}
		a := Analysis{Observed: []Observed{{Connection: 1, Away: tc.away, Unexplained: []Finding{skip, repeat}}}}
		a.weigh(tc.complete, 0)
		want := map[string]Severity{"gbn.psn-skip": tc.want, "gbn.nak-repeat": Violation}
		if len(a.Findings) != 2 {
			t.Fatalf("%s: %+v", tc.name, a.Findings)
		}
		for _, f := range a.Findings {
			if f.Severity != want[f.Rule] {
				t.Errorf("%s: %s is a %s, want %s", tc.name, f.Rule, f.Severity, want[f.Rule])
			}
		}
	}
}
