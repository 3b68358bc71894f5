package observer_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// unexplained has a trace for each cause, in the order of observer.Causes.
var unexplained = []string{
	// requesters
	"> send-only 0 ar\n> send-only 1 ar\n< nak-op 0 msn=0\n< ack 1 msn=1", // after-error, of a responder here
	"> send-only 0 ar\n< ack 0 msn=1\n> send-only 1 ar\n> send-only 2 ar drop\n< ack 1 msn=2\n> send-only 2 ar\n" +
		"< ack 2 msn=3\n> send-only 1 ar",
	"! plain complete\n> send-only 0 ar\n> send-only 2 ar",
	"> send-only 0 ar\n> send-only 1 ar drop\n> send-only 2 ar\n< ack 0 msn=1\n< nak 1 msn=1\n> send-only 2 ar",
	"> send-only 0\n> send-only 1\n> send-only 2\n> send-only 0\n> send-only 2",
	"> send-first 0 ar\n> read-request 1+1\n< ack 0 msn=1",
	"> send-only 0 ar\n> write-only 0 ar",
	"! T=10 retry=1\n> send-only 0 ar drop\n200 > send-only 0 ar drop\n400 > send-only 0 ar drop\n" +
		"600 > send-only 0 ar drop\n800 > send-only 0 ar drop\n1200 > send-only 0 ar drop",
	"! closed retry=7 rnr-retry=7 T=67000 H=1\n> send-only 0 ar\n50 > send-only 0 ar\n60 < ack 0 msn=1",
	// responders
	"! plain\n> send-only 0 ar\n< ack 0 msn=1\n< nak-inv 0 msn=1",
	"> send-only 0 ar\n< ack 0 msn=1\n< rnr 0 msn=1",
	"> send-only 0 ar\n< ack 0 msn=1\n> send-only 1 ar\n< nak 0 msn=1",
	"! plain\n> send-only 0 ar\n> send-only 1 ar\n< nak 0 msn=0\n< nak 0 msn=0",
	"> send-only 0 ar\n< nak 0 msn=0",
	"> read-request 0+2\n< read-response-first 0 msn=1\n< ack 1 msn=1",
	"! plain\n> send-only 0 ar\n< ack 3 msn=4",
	"! plain complete\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=2\n< ack 0 msn=2",
	"! plain\n> send-only 0 ar\n> send-only 1 ar\n< atomic-ack 0 msn=1 va=1",
	"! plain\n> send-only 0 ar\n> send-only 1 ar\n< read-response-only 1 msn=2",
	"> fetch-add 0\n< atomic-ack 0 msn=1 va=7 drop\n> fetch-add 0\n< atomic-ack 0 msn=1 va=8",
	"> read-request 0+3\n< read-response-first 0 msn=1\n< read-response-last 2 msn=1",
	"> read-request 0+3\n< read-response-first 0 msn=1\n< read-response-last 1 msn=1",
	"> read-request 0+2\n< read-response-first 0 msn=1 lacks=4\n< read-response-last 1 msn=1",
	"! plain\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=9",
	// the end
	"! closed complete retry=7 rnr-retry=7 T=1000 H=1\n> send-only 0 ar drop",
	"! closed complete T=67000 retry=1\n> send-only 0 ar\n> send-only 0 ar",
}

// TestEveryCauseIsReportedAsDocumented shows each trace to the observer alone.
func TestEveryCauseIsReportedAsDocumented(t *testing.T) {
	causetest.Table(t, gbn.Rules(), gbn.Causes())
	var all []analyzers.Finding
	for _, text := range unexplained {
		found := alone(t, text, func(*trace.Record) {})
		if len(found) == 0 {
			t.Errorf("nothing is found in\n%s", text)
		}
		all = append(all, found...)
	}
	// The notation of traces has no syndromes of READ responses.
	all = append(all, alone(t, "> read-request 0+1\n< read-response-only 0 msn=1", func(r *trace.Record) {
		if r.Opcode.IsReadResponse() {
			r.Syndrome = packet.SyndromeNakSequence
		}
	})...)
	// No trace is known in which no state explains a packet and yet no reason is found.
	reported := slices.DeleteFunc(observer.Causes(), func(c cause.Cause) bool { return c.Code == "unexplained" })
	causetest.Reported(t, reported, all)
}

// alone returns what the observer finds in a trace after change was applied to each record.
func alone(t *testing.T, text string, change func(*trace.Record)) (found []analyzers.Finding) {
	t.Helper()
	tr, err := oracle.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c := tr.Checked(oracle.Connections())
	o := observer.New(c.Meta(), observer.Config{Default: limits(tr.View)})
	for _, r := range tr.Records() {
		change(&r)
		o.Packet(&r)
	}
	for _, end := range o.Finish() {
		found = append(found, end.Unexplained...)
	}
	return found
}
