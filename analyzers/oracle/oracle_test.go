package oracle

import (
	"strings"
	"testing"
)

// judged is a hand-written trace with the standard's verdict on each endpoint.
type judged struct {
	name   string
	clause string
	trace  string
	want   [2]Verdict // requester, responder
}

var handWritten = []judged{
	{"one acknowledged WRITE", "9.7.5.1", `
		! closed retry=7 rnr-retry=7 T=1000
		> write-only 0 ar
		< ack 0 msn=1`, [2]Verdict{}},
	{"coalesced acknowledgement", "9.7.5.1.2", `
		! closed retry=7 rnr-retry=7 T=1000
		> write-first 0+3
		> write-middle 1
		> write-last 2 ar
		> send-only 3 ar
		< ack 3 msn=2`, [2]Verdict{}},
	{"NAK and go-back", "9.7.5.2", `
		! closed retry=7 rnr-retry=7 T=1000
		> write-first 0+3
		> write-middle 1 drop
		> write-last 2 ar
		< nak 1 msn=0
		> write-middle 1
		> write-last 2 ar
		< ack 2 msn=1`, [2]Verdict{}},
	{"timeout that crosses the acknowledgement", "9.7.6.1.3", `
		! closed retry=7 rnr-retry=7
		> write-only 0 ar
		< ack 0 msn=1
		> write-only 0 ar
		< ack 0 msn=1`, [2]Verdict{}},
	{"READ continued where its responses end", "9.4.4", `
		! closed retry=7 rnr-retry=7
		> read-request 0+3
		< read-response-first 0 msn=1
		< read-response-middle 1 drop
		< read-response-last 2 msn=1
		> read-request 1+2
		< read-response-first 1 msn=1
		< read-response-last 2 msn=1`, [2]Verdict{}},
	{"RNR NAK and wait", "9.7.5.2.8", `
		! closed retry=7 rnr-retry=7
		0 > send-only 0 ar
		1 > send-only 1 ar
		2 < rnr 0 msn=0
		20 > send-only 0 ar
		21 > send-only 1 ar
		22 < ack 1 msn=2`, [2]Verdict{}},
	{"repeated atomic answered from its result", "9.4.5", `
		! closed retry=7 rnr-retry=7
		> fetch-add 0
		< atomic-ack 0 msn=1 va=7 drop
		> fetch-add 0
		< atomic-ack 0 msn=1 va=7`, [2]Verdict{}},
	{"duplicate acknowledged with a later PSN", "9.7.5.1.3", `
		! closed retry=7 rnr-retry=7
		> send-only 0 ar
		> send-only 1 ar
		< ack 0 msn=1 drop
		< ack 1 msn=2 drop
		> send-only 0 ar
		< ack 1 msn=2
		> send-only 1 ar
		< ack 1 msn=2`, [2]Verdict{}},
	{"an acknowledgement after a READ is an implied NAK", "9.7.5.1.2; 9.7.6.1.1", `
		! closed retry=7 rnr-retry=7
		> read-request 0+1
		> write-only 1 ar
		< read-response-only 0 msn=1 drop
		< ack 1 msn=2
		> read-request 0+1
		> write-only 1 ar
		< read-response-only 0 msn=2
		< ack 1 msn=2`, [2]Verdict{}},
	{"the NAK was overtaken by the repair", "9.7.5.2", `
		! closed retry=7 rnr-retry=7
		> write-only 0 ar drop
		> write-only 1 ar
		> write-only 0 ar
		> write-only 1 ar
		< ack 1 msn=2`, [2]Verdict{}},
	{"gives up when retries are exhausted", "9.9.2.1.1", `
		! closed retry=1 rnr-retry=7 T=10
		0 > write-only 0 ar drop
		20 > write-only 0 ar drop`, [2]Verdict{}},
	{"plain capture: a loss after the tap", "docs/internals/architecture.md", `
		! plain
		> write-only 0 ar
		> write-only 1 ar
		< nak 0 msn=0
		> write-only 0 ar
		> write-only 1 ar
		< ack 1 msn=2`, [2]Verdict{}},

	// What no endpoint does.
	{"a PSN left out", "9.7.3.1", `
		> send-only 0 ar
		> send-only 2 ar`, [2]Verdict{Violation, Possible}},
	{"a PSN left out of a plain capture", "9.7.3.1", `
		! plain
		> send-only 0 ar
		> send-only 2 ar`, [2]Verdict{Warning, Possible}},
	{"a round with a hole", "9.7.2", `
		> send-only 0
		> send-only 1
		> send-only 2
		> send-only 0
		> send-only 2`, [2]Verdict{Violation, Possible}},
	{"the jump misses the PSN of the NAK", "9.7.5.2", `
		> send-only 0 ar
		> send-only 1 ar drop
		> send-only 2 ar
		< ack 0 msn=1
		< nak 1 msn=1
		> send-only 2 ar`, [2]Verdict{Violation, Possible}},
	{"goes back before an acknowledgement that it has used", "9.7.6.1.3", `
		> send-only 0 ar
		< ack 0 msn=1
		> send-only 1 ar
		> send-only 2 ar drop
		< ack 1 msn=2
		> send-only 2 ar
		< ack 2 msn=3
		> send-only 1 ar`, [2]Verdict{Violation, Possible}}, // the jump back to 2 proves that the ACK of 1 has arrived
	{"a restart proves the acknowledgement, the next ignores it", "9.7.6.1.3", `
		> send-only 0 ar
		> send-only 1 ar
		> send-only 2 ar
		< ack 0 msn=1
		> send-only 1 ar
		> send-only 0 ar`, [2]Verdict{Violation, Possible}},
	{"another message under the same PSN", "9.7.2", `
		> send-only 0 ar
		> write-only 0 ar`, [2]Verdict{Violation, Possible}},
	{"the timer fires early", "9.7.6.1.3", `
		! T=100 H=10
		0 > send-only 0 ar drop
		60 > send-only 0 ar`, [2]Verdict{Violation, Possible}},
	{"the timer fires as early as the host delay allows", "9.7.6.1.3", `
		! T=100 H=10
		0 > send-only 0 ar drop
		90 > send-only 0 ar`, [2]Verdict{Possible, Possible}},
	{"the clock of the second tap may hide when a frame arrived", "docs/internals/architecture.md", `
		! T=1000 H=10 U=40
		0 > send-only 0 ar sent
		1 > send-only 0 ar passed
		5 < nak-acc 0 msn=0 sent
		6 < nak-acc 0 msn=0 passed
		60 > send-only 1 ar sent`, [2]Verdict{Possible, Possible}},
	{"but not for ever", "10.3.1", `
		! T=1000 H=10 U=40
		0 > send-only 0 ar sent
		1 > send-only 0 ar passed
		5 < nak-acc 0 msn=0 sent
		6 < nak-acc 0 msn=0 passed
		70 > send-only 1 ar sent`, [2]Verdict{Violation, Possible}},
	{"the MSN counts a request that can't be complete", "9.7.7.1", `
		> send-first 0 ar
		> read-request 1+1
		< ack 0 msn=1`, [2]Verdict{Violation, Violation}},
	{"no wait after an RNR NAK", "9.7.5.2.8", `
		0 > send-only 0 ar
		1 > send-only 1 ar
		2 < ack 0 msn=1
		3 < rnr 1 msn=1
		5 > send-only 1 ar`, [2]Verdict{Possible, Possible}}, // perhaps a timeout that crossed the RNR NAK
	{"no wait after an RNR NAK that it has certainly received", "9.7.5.2.8", `
		! T=100 H=5
		0 > send-only 0 ar
		2 < rnr 0 msn=0
		11 > send-only 0 ar`, [2]Verdict{Violation, Possible}},
	{"one retry too many", "9.9.2.1.1", `
		! retry=1
		> send-only 0 ar drop
		> send-only 0 ar drop
		> send-only 0 ar`, [2]Verdict{Violation, Possible}},
	{"gives up without a retry", "9.9.2.1.1", `
		! closed retry=2 rnr-retry=7 T=100
		> send-only 0 ar drop`, [2]Verdict{Violation, Possible}},
	{"sends after a fatal NAK that it has received", "10.3.1", `
		! T=1000 H=10
		0 > send-only 0 ar
		1 < nak-acc 0 msn=0
		50 > send-only 1 ar`, [2]Verdict{Violation, Possible}},
	{"MIDDLE without FIRST", "9.7.4.1.2", `
		> send-middle 0 ar`, [2]Verdict{Violation, Possible}},
	{"FIRST inside a message", "9.7.4.1.2", `
		> send-first 0
		> send-first 1`, [2]Verdict{Violation, Possible}},
	{"a WRITE longer than announced", "9.7.4.1.6", `
		> write-first 0+2
		> write-middle 1
		> write-last 2 ar`, [2]Verdict{Violation, Possible}},
	{"a READ starts again elsewhere", "9.4.4", `
		> read-request 0+3
		< read-response-first 0 msn=1
		> read-request 2+1`, [2]Verdict{Violation, Possible}},
	{"a READ starts again with another end", "9.4.4", `
		> read-request 0+3
		< read-response-first 0 msn=1
		> read-request 1+1`, [2]Verdict{Violation, Possible}},
	{"a READ starts again at another address", "9.4.4", `
		> read-request 0+3
		< read-response-first 0 msn=1
		> read-request 1+2 va=0x100`, [2]Verdict{Violation, Possible}},
	{"acknowledges what has not arrived", "9.7.5.1.1", `
		> send-only 0 ar
		< ack 1 msn=2
		> send-only 1 ar`, [2]Verdict{Possible, Violation}},
	{"acknowledges what was lost", "9.7.5.1.1", `
		> send-only 0 ar drop
		< ack 0 msn=1`, [2]Verdict{Possible, Violation}},
	{"acknowledges what was lost after a plain tap", "9.7.5.1.1", `
		! plain
		> send-only 0 ar
		< ack 1 msn=2`, [2]Verdict{Possible, Warning}},
	{"acknowledges three more than a plain tap saw", "9.7.5.1.1", `
		! plain
		> send-only 0 ar
		< ack 3 msn=4`, [2]Verdict{Possible, Violation}}, // a single unseen READ of three packets has three responses
	{"goes back with its acknowledgements", "9.7.5.1.2", `
		> send-only 0 ar
		> send-only 1 ar
		< ack 1 msn=2
		< ack 0 msn=1`, [2]Verdict{Possible, Violation}},
	{"a NAK without a gap", "9.7.4.1.1", `
		> send-only 0 ar
		< nak 0 msn=0`, [2]Verdict{Possible, Violation}},
	{"a NAK for the wrong PSN", "9.7.5.2", `
		> send-only 0 ar
		> send-only 1 ar drop
		> send-only 2 ar
		< nak 0 msn=0`, [2]Verdict{Possible, Violation}},
	{"two NAKs for one gap", "9.7.5.2", `
		> send-only 0 ar drop
		> send-only 1 ar
		< nak 0 msn=0
		> send-only 2 ar
		< nak 0 msn=0`, [2]Verdict{Possible, Violation}},
	{"no NAK for a gap", "9.7.4.1.1", `
		! closed retry=7 rnr-retry=7
		> send-only 0 ar drop
		> send-only 1 ar
		> send-only 0 ar drop
		> send-only 1 ar`, [2]Verdict{Possible, Violation}},
	{"a NAK for a duplicate", "9.7.5.1.3", `
		> send-only 0 ar
		< ack 0 msn=1 drop
		> send-only 0 ar
		< nak 1 msn=1`, [2]Verdict{Possible, Violation}},
	{"no acknowledgement", "9.7.5.1", `
		! closed retry=0 rnr-retry=7
		> send-only 0 ar`, [2]Verdict{Possible, Violation}},
	{"an MSN too high", "9.7.7.1", `
		> send-first 0
		> send-last 1 ar
		< ack 1 msn=2`, [2]Verdict{Possible, Violation}},
	{"an MSN that stays", "9.7.7.1", `
		> send-only 0 ar
		< ack 0 msn=1
		> send-only 1 ar
		< ack 1 msn=1`, [2]Verdict{Possible, Violation}},
	{"READ responses out of order", "9.4.4", `
		> read-request 0+3
		< read-response-first 0 msn=1
		< read-response-last 2 msn=1`, [2]Verdict{Possible, Violation}},
	{"a READ response with the wrong opcode", "9.4.4", `
		> read-request 0+3
		< read-response-first 0 msn=1
		< read-response-last 1 msn=1`, [2]Verdict{Possible, Violation}},
	{"READ responses missing at the end", "9.4.4", `
		! closed retry=0 rnr-retry=0
		> read-request 0+3
		< read-response-first 0 msn=1`, [2]Verdict{Possible, Violation}},
	{"an acknowledgement passes READ responses", "9.4.4", `
		> read-request 0+1
		> send-only 1 ar
		< ack 1 msn=2`, [2]Verdict{Possible, Violation}},
	{"a READ response without a request", "9.4.4", `
		> send-only 0 ar
		< read-response-only 0 msn=1`, [2]Verdict{Possible, Violation}},
	{"a repeated atomic is executed again", "9.4.5", `
		> fetch-add 0
		< atomic-ack 0 msn=1 va=7 drop
		> fetch-add 0
		< atomic-ack 0 msn=1 va=8`, [2]Verdict{Possible, Violation}},
	{"answers after a fatal NAK", "10.3.1", `
		> send-only 0 ar
		> send-only 1 ar
		< nak-op 0 msn=0
		< ack 1 msn=1`, [2]Verdict{Possible, Violation}},
	{"executes an invalid request", "9.7.4.1.2", `
		> send-middle 0 ar
		< ack 0 msn=0`, [2]Verdict{Violation, Violation}},
	{"an RNR NAK for what is not expected", "9.7.5.2.8", `
		> send-only 0 ar
		< ack 0 msn=1
		< rnr 0 msn=1`, [2]Verdict{Possible, Violation}},
	{"a sequence NAK after an RNR NAK", "9.7.5.2.8", `
		> send-only 0 ar
		< rnr 0 msn=0
		> send-only 1 ar
		< nak 0 msn=0`, [2]Verdict{Possible, Violation}},
	{"a duplicate acknowledged with an earlier PSN", "9.7.5.1.3", `
		> send-only 0 ar
		> send-only 1 ar
		< ack 0 msn=1
		< ack 1 msn=2
		> send-only 1 ar
		< ack 0 msn=2`, [2]Verdict{Possible, Violation}},
}

func TestHandWrittenTraces(t *testing.T) {
	violations := 0
	for _, c := range handWritten {
		tr, err := Parse(c.trace)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for e := Requester; e <= Responder; e++ {
			got := Decide(tr, e)
			if got.Verdict != c.want[e] {
				t.Errorf("%s (%s): %v: %v (unseen %d, at %d), want %v\n%s", c.name, c.clause, e, got.Verdict, got.Unseen, got.At,
					c.want[e],
					strings.TrimSpace(c.trace))
			}
			if c.want[e] != Possible {
				violations++
			}
		}
	}
	if violations < 30 {
		t.Errorf("only %d violations in the table", violations)
	}
}
