package observer_test

import (
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/analyzers/oracle"
)

// TestFindingsOfTheObserverHaveDeclaredCauses shows a trace to the observer alone, for some of its reasons.
func TestFindingsOfTheObserverHaveDeclaredCauses(t *testing.T) {
	causetest.Table(t, gbn.Rules(), gbn.Causes())
	for text, want := range map[string]string{
		"! plain complete\n> send-only 0 ar\n> send-only 2 ar": "Requester of qpn 1 sent data psn 3 (SEND_ONLY) and skipped " +
			"at least one request before it.",
		"! plain\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=9": "Responder of qpn 1 sent ack psn 2, msn 9, but it " +
			"cannot have completed that many or that few messages.",
		"! plain\n> send-only 0 ar\n< ack 3 msn=4": "Responder of qpn 1 sent ack psn 4, msn 4 before everything up to that " +
			"psn can have arrived.",
		"! plain\n> send-only 0 ar\n> send-only 1 ar\n< nak 0 msn=0\n< nak 0 msn=0": "Responder of qpn 1 sent nack psn 1 " +
			"a second time before that request can have arrived.",
		"! plain\n> send-only 0 ar\n> send-only 1 ar\n< read-response-only 1 msn=2": "Responder of qpn 1 sent " +
			"read-response psn 2 (READ_RESPONSE_ONLY) although no request for it can have arrived.",
		"! plain complete\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=2\n< ack 0 msn=2": "Responder of qpn 1 sent " +
			"ack psn 1, msn 2 after it had acknowledged more, and no duplicate can have arrived.",
		"! plain\n> send-only 0 ar\n> send-only 1 ar\n< atomic-ack 0 msn=1 va=1": "Responder of qpn 1 sent atomic-ack " +
			"psn 1 although no request for it can have arrived.",
	} {
		tr, err := oracle.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c := tr.Checked(oracle.Connections())
		o := observer.New(c.Meta(), observer.Config{})
		for _, r := range tr.Records() {
			o.Packet(&r)
		}
		found := false
		for _, end := range o.Finish() {
			causetest.Declared(t, gbn.Causes(), end.Unexplained)
			for _, f := range end.Unexplained {
				if found = found || f.Headline == want; f.Headline != want {
					t.Logf("also: %s", f.Headline)
				}
			}
		}
		if !found {
			t.Errorf("%s\nis not reported as %q", text, want)
		}
	}
}
