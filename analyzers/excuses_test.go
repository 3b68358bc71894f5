package analyzers_test

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/trace"
)

// given returns what it was made with.
type given struct {
	name   string
	result analyzers.Result
}

func (g given) Name() string             { return g.name }
func (g given) Packet(*trace.Record)     {}
func (g given) Finish() analyzers.Result { return g.result }

// TestExcusesTakeBackTheirFindingOnly: kind, packet and connection must fit.
func TestExcusesTakeBackTheirFindingOnly(t *testing.T) {
	finding := func(rule string, connection int, packet uint64) analyzers.Finding {
		return analyzers.Finding{Rule: rule, Severity: analyzers.Violation, Connection: connection, Packets: []uint64{packet}}
	}
	guess := given{"retrans", analyzers.Result{Findings: []analyzers.Finding{
		finding("retrans.timeout-early", 1, 7), finding("retrans.timeout-early", 1, 8), finding("retrans.timeout-early", 2, 7),
		finding("retrans.retry-exceeded", 1, 7), finding("retrans.atomic-replay", 1, 7),
	}}}
	knows := given{"gbn", analyzers.Result{Excuses: []analyzers.Excuse{{Connection: 1, Packet: 7, Kind: analyzers.ExcusesInstant}}}}
	doc, err := analyzers.Run(t.Context(), trace.CheckedRecords(trace.Meta{Connections: &trace.Connections{}}, nil), guess, knows)
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Findings) != 4 || doc.Verdict != analyzers.Fail {
		t.Fatalf("%v: %+v", doc.Verdict, doc.Findings)
	}
	for _, f := range doc.Findings {
		if f.Rule == "retrans.timeout-early" && f.Connection == 1 && f.Packets[0] == 7 {
			t.Errorf("not taken back: %+v", f)
		}
	}
}

// TestExcusableRulesExist: a renamed rule would not be excused any more.
func TestExcusableRulesExist(t *testing.T) {
	known := map[string]bool{}
	for _, r := range retrans.Rules() {
		known[r.ID] = true
	}
	for _, rule := range analyzers.Excusable() {
		if !known[rule] {
			t.Errorf("%s is not a rule", rule)
		}
	}
}
