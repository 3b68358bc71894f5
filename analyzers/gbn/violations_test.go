package gbn_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/trace"
)

func TestRequesterViolationsAreNamed(t *testing.T) {
	check(t, map[string]scene{
		"a psn is never sent": {traffic: "write*10", want: []string{"psn-skip"}, trace: `
			> 1-4; > 6-10; < nak 5; > 5-10; < ack 10`},
		"the round skips the lost packet": {traffic: "write*10", want: []string{"incomplete", "retransmit-first"}, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; > 6-10`},
		"the round starts one too early": {traffic: "write*10", want: []string{"retransmit-first"}, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; > 4-10; < ack 4; < ack 10`},
		"only the lost packet is retransmitted (selective repeat)": {traffic: "write*10 write*5", want: []string{"round-gap"},
			trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; > 5; > 11-15; < nak 6; > 6-15; < ack 10; < ack 15`},
		"a restart past a READ response that is lost, and none of it was late": {traffic: "read*5 write*3",
			want: []string{"nak-unanswered", "retransmit-first"}, trace: `
			> 1; < resp 1; < resp 2 drop; < resp 3 delay; < resp 4-5; > 2; < resp 2-3; < resp 4 drop; < resp 5
			> 6-8; < ack 8; > 5-8; < resp 5; < ack 8`},
		"a restart past what late READ responses close": {traffic: "read*5 write*3",
			want: []string{"nak-unanswered", "retransmit-first"}, trace: `
			> 1; < resp 1; < resp 2 drop; < resp 3; < resp 4 delay; < resp 5; > 2; < resp 2-3; < resp 4 drop; < resp 5
			> 6-8; < ack 8; > 6-8; < ack 8`},
		"a restart before an atomic whose ACK is late": {traffic: "write*4 atomic write*4", want: []string{"timeout-start"},
			trace: `
			> 1-6; < atomic 5 delay; < ack 6; > 7-9; > 4-9; < atomic 5; < ack 9`},
		"a timeout restarts past the oldest unacknowledged packet": {traffic: "write*10", want: []string{"timeout-start"},
			trace: `
			> 1-9; > 10 drop; @ 68ms; > 10; < ack 10`},
		"a timeout restarts in the middle of what may be acknowledged": {traffic: "write*10", want: []string{"timeout-start"},
			trace: `
			> 1-10; < ack 4; @ 20ms; > 3-10; < ack 4; < ack 10`},
		"acknowledged packets are retransmitted long after": {traffic: "write*10", want: []string{"resend-acknowledged"},
			trace: `
			> 1-9; > 10 drop; < ack 9; @ 68ms; > 1-10; < ack 9; < ack 10`},
		"a nack without any answer": {traffic: "write*10", want: []string{"nak-unanswered"}, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5`},
		"a retransmission without nack before the timeout": {traffic: "write*10", cfg: timeout67ms,
			want: []string{"timeout-early"}, trace: `
			> 1-10; @ 30ms; > 1-10; < ack 10; < ack 10`},
		"the second retransmission for one nack comes early": {traffic: "write*10", cfg: timeout67ms,
			want: []string{"timeout-early"}, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; > 5-10; > 5-10; < ack 10`},
		"a send is repeated before the rnr timer": {traffic: "send*3", cfg: timeout67ms, want: []string{"rnr-early"}, trace: `
			> 1-3; < rnr 1; @ 100us; > 1-3; < ack 3`},
		"one retry too many": {traffic: "write*2", want: []string{"retry-exceeded"},
			cfg: gbn.Config{Default: gbn.Limits{Retry: gbn.AtMost(2)}}, trace: `
			> 1-2 drop; @ 68ms; > 1-2 drop; @ 68ms; > 1-2 drop; @ 68ms; > 1-2; < ack 2`},
		"a retransmission with another opcode": {traffic: "write*4",
			want: []string{"retransmit-changed", "nak-fatal-missing"}, trace: `
			> 1; > 2 drop; > 3-4; < nak 2; > 2 op=WRITE_FIRST; > 3-4; < ack 4`},
		"a retransmission with another length": {traffic: "write*4",
			want: []string{"retransmit-changed", "nak-fatal-missing"}, trace: `
			> 1; > 2 drop; > 3-4; < nak 2; > 2 len=1000; > 3-4; < ack 4`},
		"a retransmission to another address": {traffic: "write*4", want: []string{"retransmit-changed"}, trace: `
			> 1 drop; > 2-4; < nak 1; > 1 va=7; > 2-4; < ack 4`},
		"middle without first": {traffic: "write*3 write*3", want: []string{"opcode-sequence", "nak-fatal-missing"}, trace: `
			> 1-3; > 4 op=WRITE_MIDDLE; > 5-6; < ack 6`},
		"send in the middle of a write": {traffic: "write*3", want: []string{"opcode-sequence", "nak-fatal-missing"}, trace: `
			> 1; > 2 op=SEND_MIDDLE; > 3; < ack 3`},
		"a message is not finished": {traffic: "write*3 write*3",
			want: []string{"dma-length", "opcode-sequence", "nak-fatal-missing"}, trace: `
			> 1-2; > 3 op=WRITE_MIDDLE; > 4-6; < ack 6 msn=1`},
		"a short middle packet": {traffic: "send*3", want: []string{"payload-length", "nak-fatal-missing"},
			trace: `> 1; > 2 len=512; > 3; < ack 3`},
		"an empty last packet": {traffic: "send*3", want: []string{"payload-length", "nak-fatal-missing"},
			trace: `> 1-2; > 3 len=0; < ack 3`},
		"an oversized packet": {traffic: "send", want: []string{"payload-length", "nak-fatal-missing"},
			trace: `> 1 len=1028; < ack 1`},
		"a write longer than announced": {traffic: "write*3", want: []string{"dma-length", "nak-fatal-missing"}, trace: `
			> 1 dma=3000; > 2-3; < ack 3`},
		"a write shorter than announced": {traffic: "write*3", want: []string{"dma-length", "nak-fatal-missing"}, trace: `
			> 1 dma=3073; > 2-3; < ack 3`},
		"a wrong pad count": {traffic: "send*2", want: []string{"pad-count"}, trace: `> 1; > 2 len=3 pad=0; < ack 2`},
		"a read is asked for again from the wrong place": {traffic: "read*10", want: []string{"retransmit-first"}, trace: `
			> 1; < resp 1-4; < resp 5 drop; < resp 6-10; > 7 ; < resp 7-10; @ 50ms; > 5; < resp 5-6; < resp 7 op=READ_RESPONSE_MIDDLE; < resp 8-10`},
		"a read is asked for again with the old length": {traffic: "read*10", want: []string{"read-restart"}, trace: `
			> 1; < resp 1-4; < resp 5 drop; < resp 6-10; > 5 dma=10240; < resp 5-9; < resp 10 op=READ_RESPONSE_MIDDLE; < resp 11-13 op=READ_RESPONSE_MIDDLE; < resp 14 op=READ_RESPONSE_LAST`},
		"a read is asked for again at the old address": {traffic: "read*10", want: []string{"read-restart"}, trace: `
			> 1; < resp 1-4; < resp 5 drop; < resp 6-10; > 5 va=0x1000; < resp 5-10`},
		"a missing read response is never asked for again": {traffic: "read*10", want: []string{"nak-unanswered"}, trace: `
			> 1; < resp 1-4; < resp 5 drop; < resp 6-10`},
		"a lost tail is never retransmitted": {traffic: "write*10", want: []string{"incomplete"}, trace: `> 1-9; > 10 drop`},
	})
}

func TestResponderViolationsAreNamed(t *testing.T) {
	check(t, map[string]scene{
		"the nack names the packet after the lost one": {traffic: "write*10", want: []string{"nak-psn", "incomplete"},
			trace: `
			> 1-4; > 5 drop; > 6-10; < nak 6; > 6-10`},
		"the nack names the packet before the lost one": {traffic: "write*10", want: []string{"nak-psn"}, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 4; > 4-10; < ack 10`},
		"a second nack for the same gap": {traffic: "write*10", want: []string{"nak-repeat"}, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; < nak 5; > 5-10; < ack 10`},
		"a second nack after the retransmission was lost": {traffic: "write*10", want: []string{"nak-repeat"}, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; > 5 drop; > 6-10; < nak 5; > 5-10; < ack 10`},
		"a nack for the second loss while the first is open": {traffic: "write*10", want: []string{"nak-psn"}, trace: `
			> 1-4; > 5 drop; > 6; > 7 drop; > 8-10; < nak 5; < nak 7; > 5-10; < ack 10`},
		"a nack for a duplicate": {traffic: "write*3", want: []string{"nak-duplicate"}, trace: `
			> 1-3; < ack 3 drop; @ 68ms; > 1-3; < nak 1; < ack 3`},
		"a nack without a gap": {traffic: "write*3", want: []string{"nak-unprovoked"},
			trace: `> 1-3; < nak 2; > 2-3; < ack 3`},
		"a nack for a lost tail, which nothing shows": {traffic: "write*3", want: []string{"nak-unprovoked"}, trace: `
			> 1-2; > 3 drop; < nak 3; > 3; < ack 3`},
		"a gap without a nack, recovered by timeout": {traffic: "write*10", want: []string{"nak-missing"}, trace: `
			> 1-4; > 5 drop; > 6-10; @ 68ms; > 1-10; < ack 10`},
		"a gap without a nack at the end": {traffic: "write*10", want: []string{"nak-missing"}, trace: `
			> 1-4; > 5 drop; > 6-10`},
		"a gap without a nack, but the next gap has one": {traffic: "write*10", want: []string{"nak-missing"}, trace: `
			> 1-2; > 3 drop; > 4-10; @ 68ms; > 1-4; > 5 drop; > 6-10; < nak 5; > 5-10; < ack 10`},
		"a dropped packet is acknowledged": {traffic: "write*10", want: []string{"nak-missing", "ack-beyond"}, trace: `
			> 1-4; > 5 drop; > 6-10; < ack 10`},
		"a corrupted packet is acknowledged": {traffic: "write", want: []string{"ack-beyond", "ack-missing"}, trace: `
			> 1 corrupt; < ack 1; > 1`},
		"an ack for a packet that was never sent": {traffic: "write*3", want: []string{"ack-beyond"},
			trace: `> 1-3; < ack 7; < ack 3`},
		"acks decrease without a duplicate": {traffic: "write*3 write*3", want: []string{"ack-decreasing"}, trace: `
			> 1-6; < ack 6; < ack 3`},
		"more acks below than duplicates": {traffic: "write*3", want: []string{"ack-decreasing"}, trace: `
			> 1-3; < ack 3 drop; @ 68ms; > 1-3; < ack 1; < ack 1; < ack 3`},
		"an ack below the duplicate": {traffic: "write*3 write*3", want: []string{"ack-decreasing"}, trace: `
			> 1-3; < ack 3; > 4-6; < ack 6 drop; @ 68ms; > 4-6; < ack 2; < ack 6`},
		"the last message is never acknowledged": {traffic: "write*3 write*3", want: []string{"ack-missing"}, trace: `
			> 1-6; < ack 3`},
		"duplicates are not acknowledged": {traffic: "write*2", want: []string{"ack-missing"}, trace: `
			> 1-2; < ack 2 drop; @ 68ms; > 1-2`},
		"a repeated read is not answered": {traffic: "read*2", want: []string{"read-missing"}, trace: `
			> 1; < resp 1; < resp 2 drop; @ 68ms; > 2`},
		"an msn too low":  {traffic: "write*3 write*3", want: []string{"msn"}, trace: `> 1-6; < ack 3; < ack 6 msn=1`},
		"an msn too high": {traffic: "write*3 write*3", want: []string{"msn"}, trace: `> 1-3; < ack 3 msn=2; > 4-6; < ack 6`},
		"an msn in a nack that counts the open message": {traffic: "write*10", want: []string{"msn"}, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5 msn=1; > 5-10; < ack 10`},
		"a reserved syndrome": {traffic: "write*3", want: []string{"syndrome"},
			trace: `> 1-3; < ack 3 syndrome=0x40; < ack 3`},
		"an rnr nak for an acknowledged packet": {traffic: "send*3", want: []string{"rnr-unprovoked"}, trace: `
			> 1-3; < ack 3; < rnr 2`},
		"a fatal nak": {traffic: "write*3", want: []string{"incomplete"}, trace: `> 1-3; < nak-inv 1`},
		"a fatal nak for a packet that did not arrive": {traffic: "write*3", want: []string{"incomplete", "nak-unprovoked"},
			trace: `
			> 1 drop; > 2-3 drop; < nak-inv 1`},
		"a read is not answered": {traffic: "read*3", want: []string{"read-missing"}, trace: `> 1`},
		"a read is answered by an ack": {traffic: "read*3", want: []string{"nak-unanswered", "read-missing"},
			trace: `> 1; < ack 3`},
		"a read answer breaks off": {traffic: "read*3 write", want: []string{"read-missing"}, trace: `
			> 1; > 4; < resp 1-2; < ack 4; > 3-4; < resp 3; < ack 4`},
		"an ack overtakes read responses": {traffic: "read*3 write",
			want: []string{"read-missing", "read-unexpected", "read-unexpected", "read-unexpected"}, trace: `
			> 1; > 4; < ack 4; < resp 1-3; @ 1ms; > 4; < ack 4`},
		"read answers in the wrong order": {traffic: "read*2 read*2",
			want: []string{"read-missing", "read-unexpected", "read-unexpected"}, trace: `
			> 1-4; < resp 3-4; < resp 1-2; @ 1ms; > 1-4; < resp 1-4`},
		"a read response is left out": {traffic: "read*4", want: []string{"read-order"}, trace: `
			> 1; < resp 1-2; < resp 4; > 3; < resp 3-4`},
		"a read response nobody asked for": {traffic: "write*4", want: []string{"read-unexpected"}, trace: `
			> 1-4; < resp 2 op=READ_RESPONSE_ONLY; < ack 4`},
		"a read response to a dropped request": {traffic: "read", want: []string{"read-unexpected"}, trace: `
			> 1 drop; < resp 1; > 1; < resp 1`},
		"the last read response is a middle": {traffic: "read*3", want: []string{"read-opcode"}, trace: `
			> 1; < resp 1-2; < resp 3 op=READ_RESPONSE_MIDDLE`},
		"last before the end": {traffic: "read*3", want: []string{"read-opcode"}, trace: `
			> 1; < resp 1; < resp 2 op=READ_RESPONSE_LAST; < resp 3`},
		"a short read response": {traffic: "read*3", want: []string{"read-length"}, trace: `
			> 1; < resp 1; < resp 2 len=1000; < resp 3`},
		"the linux kernel's replay": {traffic: "read*10", want: []string{"replay-opcode"}, trace: `
			> 1; < resp 1-4; < resp 5 drop; < resp 6-10; > 5; < resp 5 op=READ_RESPONSE_MIDDLE; < resp 6-10`},
		"an atomic ack nobody asked for": {traffic: "write atomic", want: []string{"atomic-unexpected"}, trace: `
			> 1-2; < ack 1; < atomic 1; < atomic 2`},
		"an atomic without ack": {traffic: "atomic write", want: []string{"nak-unanswered", "read-missing"},
			trace: `> 1-2; < ack 2`},
	})
}

func TestPlainCapturesStillShowSomeViolations(t *testing.T) {
	plain := func(s scene) scene { s.kind = trace.KindPlain; return s }
	check(t, map[string]scene{
		"a second nack for the same packet": plain(scene{traffic: "write*10", want: []string{"nak-repeat"}, trace: `
			> 1-10; < nak 5; < nak 5; > 5-10; < ack 10`}),
		"the first jump is not to the nacked packet": plain(scene{traffic: "write*10", want: []string{"retransmit-first"},
			trace: `
			> 1-10; < nak 5; > 6-10; @ 68ms; > 5-10; < ack 10`}),
		"a nack for an acknowledged packet": plain(scene{traffic: "write*10", want: []string{"nak-duplicate"}, trace: `
			> 1-10; < ack 6; < nak 5; > 7-10; < ack 10`}),
		"a read response with the syndrome of a nack": plain(scene{traffic: "read*3", want: []string{"syndrome"}, trace: `
			> 1; < resp 1 syndrome=0x60; < resp 2; < resp 3`}),
		"an atomic ack with the syndrome of a NAK": plain(scene{traffic: "write atomic", want: []string{"syndrome"}, trace: `
			> 1-2; < ack 1; < atomic 2 syndrome=0x62`}),
		"a restart before an atomic whose ACK may have been lost": plain(scene{traffic: "write*4 atomic write*4",
			want: []string{"timeout-start"}, trace: `
			> 1-9; < nak 2; > 2-9; < atomic 5; < ack 6; > 4-9; < ack 4; < atomic 5; < ack 9`}),
		"acks decrease": plain(scene{traffic: "write*10", want: []string{"ack-decreasing"}, trace: `
			> 1-10; < ack 6; < ack 4; < ack 10`}),
	})
}

// TestTheObserverDecidesWhatASingleCaptureShows: this package does not judge there what was received and sent before an
// ACK.
func TestTheObserverDecidesWhatASingleCaptureShows(t *testing.T) {
	for name, s := range map[string]scene{
		"an ack before three requests were sent": {traffic: "write*10", want: []string{"gbn.ack-beyond"}, trace: `
			> 1-5; < ack 8; > 6-10; < ack 10`},
		"an ack after them": {traffic: "write*10", trace: `
			> 1-5; > 6-10; < ack 8; < ack 10`},
		"a corrupted packet is acknowledged": {traffic: "write*3", complete: true, want: []string{"gbn.ack-beyond"}, trace: `
			> 1; > 2 badicrc; > 3; < ack 3; @ 68ms; < ack 3`},
		"a corrupted packet is retransmitted": {traffic: "write*3", complete: true, trace: `
			> 1; > 2 badicrc; > 3; < nak 2; > 2-3; < ack 3`},
	} {
		t.Run(name, func(t *testing.T) {
			meta := trace.Meta{Kind: trace.KindPlain, Connections: connections(t, 1, s.ipsn, false), Complete: s.complete}
			c := trace.CheckedRecords(meta, s.records(t))
			fresh := func(m trace.Meta) []analyzers.Analyzer { return []analyzers.Analyzer{gbn.New(m, s.cfg)} }
			doc, err := analyzers.Run(t.Context(), c, fresh(c.Meta())...)
			if err != nil {
				t.Fatal(err)
			}
			if err := analyzers.SoftenUnseen(t.Context(), c, 1, doc, fresh); err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range doc.Findings {
				if f := &doc.Findings[i]; f.Severity == analyzers.Violation {
					got = append(got, f.Rule)
				}
			}
			if len(got) > 1 {
				got = got[:1] // what follows from the first
			}
			if !slices.Equal(got, s.want) {
				t.Errorf("violations %v, want %v\n%s", got, s.want, dump(doc.Findings))
			}
		})
	}
}
