package gbn_test

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/trace"
)

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, gbn.Rules(), gbn.Causes())
}

// TestEveryCauseIsReportedAsDocumented runs a trace for each cause: docs/reference/rules.md shows what the analyzer
// reports there.
func TestEveryCauseIsReportedAsDocumented(t *testing.T) {
	var all []analyzers.Finding
	for _, s := range examples {
		all = append(all, s.run(t).Findings...)
	}
	causetest.Reported(t, gbn.OwnCauses(), all)
}

var (
	retries = gbn.Config{Default: gbn.Limits{Retry: gbn.AtMost(2), RNRRetry: gbn.AtMost(1)}}
	both    = gbn.Config{Default: gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(1), RNRRetry: gbn.AtMost(1)}}
	gaveUp  = gbn.Config{HostDelayNS: 10_000, Default: gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(2)}}
	oneMore = gbn.Config{HostDelayNS: 10_000,
		Default: gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(1), RNRRetry: gbn.AtMost(3)}}
	plain = trace.KindPlain
)

// examples has a trace for each sentence of gbn.Causes, in that order.
var examples = []scene{
	// psn-skip, round-gap
	{traffic: "write*10", trace: `> 1-4; > 6-10; < nak 5; > 5-10; < ack 10`},
	{traffic: "write*10 write*5",
		trace: `> 1-4; > 5 drop; > 6-10; < nak 5; > 5; > 11-15; < nak 6; > 6-15; < ack 10; < ack 15`},
	// retransmit-first
	{traffic: "write*10", trace: `> 1-4; > 5 drop; > 6-10; < nak 5; > 6-10; @ 68ms; > 5-10; < ack 10`},
	// timeout-start
	{traffic: "write*10", trace: `> 1-9; > 10 drop; @ 68ms; > 10; < ack 10`},
	// resend-acknowledged
	{traffic: "write*10", trace: `> 1-9; > 10 drop; < ack 9; @ 68ms; > 1-10; < ack 9; < ack 10`},
	{traffic: "write*3", trace: `> 1-3; < ack 3; > 0`},
	// retransmit-changed
	{traffic: "write*4", trace: `> 1; > 2 drop; > 3-4; < nak 2; > 2 op=WRITE_FIRST; > 3-4; < ack 4`},
	{traffic: "write*4", trace: `> 1; > 2 drop; > 3-4; < nak 2; > 2 len=1000; > 3-4; < ack 4`},
	{traffic: "write*4", trace: `> 1 drop; > 2-4; < nak 1; > 1 va=7; > 2-4; < ack 4`},
	{traffic: "write*4", trace: `> 1 drop; > 2-4; < nak 1; > 1 dma=4000; > 2-4; < ack 4`},
	{traffic: "write*3", trace: `> 1 rkey=7 drop; > 2-3; < nak 1; > 1 rkey=8; > 2-3; < ack 3`},
	// read-restart
	{traffic: "read*3", trace: `> 1; < resp 1 drop; < resp 2-3; > 1 op=WRITE_ONLY; < ack 1`},
	{traffic: "read*10", trace: `> 1; < resp 1-4; < resp 5 drop; < resp 6-10; > 5 va=0x1000; < resp 5-10`},
	{traffic: "read*10", trace: `> 1; < resp 1-4; < resp 5 drop; < resp 6-10; > 5 dma=10240; < resp 5-9`},
	{traffic: "read*3", trace: `> 1 rkey=7; < resp 1 drop; < resp 2-3; > 1 rkey=8; < resp 1-3`},
	// timeout-early, rnr-early, retry-exceeded
	{traffic: "write*10", cfg: timeout67ms, trace: `> 1-10; @ 30ms; > 1-10; < ack 10; < ack 10`},
	{traffic: "send*3", cfg: timeout67ms, trace: `> 1-3; < rnr 1; @ 100us; > 1-3; < ack 3`},
	{traffic: "write*2", cfg: retries,
		trace: `> 1-2 drop; @ 68ms; > 1-2 drop; @ 68ms; > 1-2 drop; @ 68ms; > 1-2; < ack 2`},
	{traffic: "send", cfg: retries, trace: `> 1; < rnr 1; @ 1ms; > 1; < rnr 1; @ 1ms; > 1; < ack 1`},
	{traffic: "write*3", cfg: both, trace: `
		> 1 drop; > 2-3; < nak 1; > 1-3; < rnr 1; @ 68ms;
		 > 1-3; < rnr 1; @ 68ms; > 1-3; < rnr 1; @ 68ms; > 1-3; < rnr 1; @ 68ms; > 1-3; < ack 3`},
	// nak-unanswered
	{traffic: "write*10", cfg: timeout67ms, trace: `> 1-4; > 5 drop; > 6-10; < nak 5`},
	{traffic: "send", cfg: retries, trace: `> 1; < rnr 1; @ 1ms; > 1; < rnr 1`},
	{traffic: "send", cfg: oneMore, trace: `> 1; < rnr 1 drop; < rnr 1 drop; @ 68ms; > 1; < rnr 1; @ 1ms`},
	// incomplete
	{traffic: "write*10", trace: `> 1-9; > 10 drop`},
	{traffic: "write*3", trace: `> 1-3; < ack 3 drop`},
	{traffic: "write*3", trace: `> 1-3; < nak-inv 1`},
	{traffic: "write", cfg: gaveUp, trace: `> 1 drop; @ 68ms; > 1 drop; @ 68ms; > 1 drop`},
	// after-error
	{traffic: "write*6", trace: `> 1 foreign; < nak-acc 1; @ 50ms; > 2-6`},
	{traffic: "write*6", trace: `> 1-3; < nak-inv 1; < ack 3`},
	// opcode-sequence, payload-length, dma-length, pad-count
	{traffic: "write*3", trace: `> 1; > 2 op=SEND_MIDDLE; > 3; < ack 3`},
	{traffic: "write*3 write*3", trace: `> 1-3; > 4 op=WRITE_MIDDLE; > 5-6; < ack 6`},
	{traffic: "send*3", trace: `> 1; > 2 len=512; > 3; < ack 3`},
	{traffic: "write*3", trace: `> 1 dma=3000; > 2-3; < ack 3`},
	{traffic: "write*3", trace: `> 1 dma=3073; > 2-3; < ack 3`},
	{traffic: "write*3 write*3", trace: `> 1-2; > 3 op=WRITE_MIDDLE; > 4-6; < ack 6 msn=1`},
	{traffic: "send*2", trace: `> 1; > 2 len=3 pad=0; < ack 2`},
	// solicited, p-key-changed, icrc, unknown-qp
	{traffic: "write*3", trace: `> 1; > 2 solicited; > 3; < ack 3`},
	{traffic: "write*3", trace: `> 1 pkey=65535; > 2 pkey=0x8001; > 3 pkey=65535; < ack 3`},
	{traffic: "write*3", trace: `> 1; > 2 badicrc; > 3; < nak 2; > 2-3; < ack 3`},
	{traffic: "write*3", trace: `> 1-2; > 3 stray qp=77; < ack 2`},
	// capture-gap
	{traffic: "write*10", kind: plain, trace: `> 1-3; > 6-10; < ack 10`},
	{traffic: "read*6", kind: plain, trace: `> 1; < resp 1-2; < resp 4-6`},
	// ack-beyond, ack-decreasing, ack-missing
	{traffic: "write*10", trace: `> 1-4; > 5 drop; > 6-10; < ack 10`},
	{traffic: "write*3", trace: `> 1-3; < ack 7; < ack 3`},
	{traffic: "write*3 write*3", trace: `> 1-6; < ack 6; < ack 3`},
	{traffic: "write*10", kind: plain, trace: `> 1-10; < ack 6; < ack 4; < ack 10`},
	{traffic: "write*3", trace: `> 1; < ack 1 back=2; > 2-3; < ack 3`},
	{traffic: "write*3 write*3", trace: `> 1-6; < ack 3`},
	{traffic: "write*2", trace: `> 1-2; < ack 2 drop; @ 68ms; > 1-2`},
	// nak-psn, nak-repeat, nak-duplicate
	{traffic: "write*10", trace: `> 1-4; > 5 drop; > 6-10; < nak 6; > 6-10`},
	{traffic: "write*10", trace: `> 1-4; > 5 drop; > 6; > 7 drop; > 8-10; < nak 5; < nak 7; > 5-10; < ack 10`},
	{traffic: "write*10", trace: `> 1-4; > 5 drop; > 6-10; < nak 5; < nak 5; > 5-10; < ack 10`},
	{traffic: "write*3", trace: `> 1-3; < ack 3 drop; @ 68ms; > 1-3; < nak 1; < ack 3`},
	{traffic: "write*10", kind: plain, trace: `> 1-10; < ack 6; < nak 5; > 7-10; < ack 10`},
	// nak-unprovoked, nak-missing
	{traffic: "write*3", trace: `> 1-3; < nak 2; > 2-3; < ack 3`},
	{traffic: "write*3", trace: `> 1-2; > 3 delay; < nak 3; < ack 3`},
	{traffic: "write*3", trace: `> 1 drop; > 2-3 drop; < nak-inv 1`},
	{traffic: "write*10", trace: `> 1-4; > 5 drop; > 6-10`},
	{traffic: "write*10", trace: `> 1-4; > 5 drop; > 6-10; @ 68ms; > 1-10; < ack 10`},
	// rnr-unprovoked, msn, syndrome, rnr-timer
	{traffic: "send*3", trace: `> 1-3; < ack 3; < rnr 2`},
	{traffic: "send*3", kind: plain, trace: `> 1-3; < ack 3; < rnr 2`},
	{traffic: "write*3 write*3", trace: `> 1-6; < ack 3; < ack 6 msn=1`},
	{traffic: "write*3", trace: `> 1-3; < ack 3 syndrome=0x40; < ack 3`},
	{traffic: "send", cfg: gbn.Config{Default: gbn.Limits{MinRNRTimerNS: 1_280_000}},
		trace: `> 1; < rnr 1; @ 2ms; > 1; < ack 1`},
	// READs and atomics
	{traffic: "write*4", trace: `> 1-4; < resp 2 op=READ_RESPONSE_ONLY; < ack 4`},
	{traffic: "write*4", kind: plain, trace: `> 1-4; < resp 2 op=READ_RESPONSE_ONLY; < ack 4`},
	{traffic: "read*4", trace: `> 1; < resp 1-2; < resp 4; > 3; < resp 3-4`},
	{traffic: "read*3", trace: `> 1`},
	{traffic: "atomic write", trace: `> 1-2; < ack 2`},
	{traffic: "read*3", trace: `> 1; < resp 1-2`},
	{traffic: "read*3 write", trace: `> 1; > 4; < resp 1-2; < ack 4; > 3-4; < resp 3; < ack 4`},
	{traffic: "read*2", trace: `> 1; < resp 1; < resp 2 drop; @ 68ms; > 2`},
	{traffic: "read*3", trace: `> 1; < resp 1-2; < resp 3 op=READ_RESPONSE_MIDDLE`},
	{traffic: "read*3", trace: `> 1; < resp 1; < resp 2 len=1000; < resp 3`},
	{traffic: "read*10",
		trace: `> 1; < resp 1-4; < resp 5 drop; < resp 6-10; > 5; < resp 5 op=READ_RESPONSE_MIDDLE; < resp 6-10`},
	{traffic: "write atomic", trace: `> 1-2; < ack 1; < atomic 1; < atomic 2`},
	// nak-fatal-missing, nak-code
	{traffic: "send", trace: `> 1 len=1028; < ack 1`},
	{traffic: "send", trace: `> 1 len=1028`},
	{traffic: "send", trace: `> 1 len=1028; < nak-acc 1`},
	{traffic: "write*3", trace: `> 1-3; < nak-inv 2`},
	// strays and unknown opcodes
	{traffic: "write*3", kind: plain, trace: `> 1-3; < ack 3; < ack 3 stray`},
	{traffic: "write*3", kind: plain, trace: `> 1-3; < ack 3; > 3 unknown`},
}
