package fields_test

import (
	"os"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(fields.Causes())

func TestMain(m *testing.M) { os.Exit(book.Main(m)) }

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, fields.Rules(), fields.Causes())
}

func TestMoreRetransmissionsThanAreComparedAreCounted(t *testing.T) {
	const compared = 1 << 16
	write := trace.Record{Opcode: packet.WriteOnly, PSN: 5, Flags: trace.MigReq, SrcPort: 50000, PayloadLen: 64}
	records := make([]trace.Record, 1+compared+1)
	for i := range records {
		records[i] = write
	}
	found := judge(t, trace.KindMirror, records...)
	if len(found) != 1 || found[0].Rule != fields.RuleNotCompared || found[0].Actual != "65536 compared, 1 not" {
		t.Errorf("%+v", found)
	}
}
