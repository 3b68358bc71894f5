package gbn_test

import (
	"testing"

	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func TestTracesThatBeginWithSequenceNumberOneHoldTheirConnectionsFromTheStart(t *testing.T) {
	check(t, map[string]scene{
		"an ack of a lost tail": {traffic: "write*10", inferred: true, want: []string{"ack-beyond"}, trace: `
			> 1-9; > 10 drop; < ack 10`},
		"an msn that counts packets": {traffic: "write*2 write*2", inferred: true, want: []string{"msn", "msn"}, trace: `
			> 1-2; < ack 2 msn=2; > 3-4; < ack 4 msn=4`},
	})
}

func TestNothingFollowsAFatalNak(t *testing.T) {
	check(t, map[string]scene{
		"an ack": {traffic: "write*5 write*5", want: []string{"incomplete", "after-error"},
			trace: `> 1-5; < nak-inv 1; > 6-10; < ack 10`},
		"requests long after": {traffic: "write*5", want: []string{"incomplete", "after-error", "after-error"}, trace: `
			> 1-5; < nak-inv 1; @ 68ms; > 1-2`},
		"requests that were on their way": {traffic: "write*5 write*5", want: []string{"incomplete"},
			trace: `> 1-5; < nak-inv 1; > 6-10`},
	})
}

func TestARestartTooSoonForAnyTimerMustObeyTheNack(t *testing.T) {
	check(t, map[string]scene{
		"back to the start of the message": {traffic: "write*5 write*5", want: []string{"retransmit-first"}, trace: `
			> 1-7; > 8 drop; > 9-10; < ack 5; < nak 8; > 6-10; < ack 7; < ack 10`},
		"back to the first response of a read": {traffic: "read*6", want: []string{"retransmit-first"}, trace: `
			> 1; < resp 1-2; < resp 3 drop; < resp 4-6; > 1; < resp 1-6`},
		"a timeout that crossed it": {traffic: "write*5 write*5", trace: `
			> 1-7; > 8 drop; > 9-10; < ack 5; @ 4ms; < nak 8; > 6-10; < ack 7; < ack 10`},
	})
}

// If a guest's packet was delayed by more than half a timeout, the switch sees it restart sooner than its timer ran.
func TestOfSoftwareHostsAnInstantProvesNothingButATime(t *testing.T) {
	cfg := gbn.Config{Default: gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(1), RNRRetry: gbn.AtMost(1)}}
	soft := cfg
	soft.SoftwareHosts = true
	for trace, want := range map[string][2][]string{
		`> 1-7; > 8 drop; > 9-10; < ack 5; < nak 8; @ 20ms; > 6-10; < ack 7; < ack 10`: {{"retransmit-first"},
			{"timeout-early"}},
		`> 1-5; < nak-inv 1; @ 20ms; > 1-2`: {{"after-error", "incomplete"},
			{"timeout-early", "incomplete"}},
	} {
		check(t, map[string]scene{
			"hardware " + trace: {traffic: "write*5 write*5", cfg: cfg, want: want[0], trace: trace},
			"software " + trace: {traffic: "write*5 write*5", cfg: soft, want: want[1], trace: trace},
		})
	}
}

// Two rounds by timeout, 800 ms after everything before psn 6 was acknowledged. A guest that was suspended for longer
// may not know that; one that answered echoes in the meantime does.
func TestWhatASoftwareHostKnowsFollowsFromHowLongItHeldPacketsInThisRun(t *testing.T) {
	held := func(ns int64) gbn.Config {
		return gbn.Config{SoftwareHosts: true, HostDelayNS: ns,
			Default: gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(7), RNRRetry: gbn.AtMost(7)}}
	}
	const after800ms = `> 1-10; < ack 5; @ 801ms; > 1-10; < ack 10`
	const after60ms = `> 1-10; < ack 5; @ 61ms; > 1-10; < ack 10`
	check(t, map[string]scene{
		"it was suspended for 5 s": {traffic: "write*5 write*5",
			cfg: held(5_000_000_000), trace: after800ms},
		"it held packets for 20 ms at most": {traffic: "write*5 write*5",
			cfg: held(20_000_000), want: []string{"resend-acknowledged"}, trace: after800ms},
		"what was never measured is taken for 250 ms, which blames": {traffic: "write*5 write*5", cfg: held(0),
			want: []string{"resend-acknowledged"}, trace: after800ms},
		"what was never measured is taken for 250 ms, which is too lax": {traffic: "write*5 write*5", cfg: held(0),
			trace: after60ms},
		"20 ms at most, and a restart that the fixed bound did not notice": {traffic: "write*5 write*5",
			cfg: held(20_000_000), want: []string{"resend-acknowledged"}, trace: after60ms},
	})
}

func TestASenderOfDamagedPacketsIsNamed(t *testing.T) {
	check(t, map[string]scene{
		"a request": {traffic: "write*3", want: []string{"icrc"}, trace: `
			> 1; > 2 badicrc; > 3; < nak 2; > 2-3; < ack 3`},
		"an ack": {traffic: "write*3", want: []string{"icrc"},
			trace: `> 1-3; < ack 3 badicrc; @ 68ms; > 1-3; < ack 3`},
		"the injector's": {traffic: "write*3", trace: `> 1; > 2 badicrc corrupt; > 3; < nak 2; > 2-3; < ack 3`},
		"after a lone tap": {traffic: "write*3", kind: trace.KindPlain,
			trace: `> 1; > 2 badicrc; > 3; < nak 2; > 2-3; < ack 3`},
		"its length proves nothing": {traffic: "write*3", kind: trace.KindPlain,
			trace: `> 1; > 2 badicrc len=20; > 3; < nak 2; > 2-3; < ack 3`},
		"nor does that of a retransmission": {traffic: "write*3", kind: trace.KindPlain,
			trace: `> 1-3; < ack 1; @ 68ms; > 2 badicrc len=20; > 3; @ 136ms; > 2-3; < ack 3`},
		"a right one does": {traffic: "write*3", kind: trace.KindPlain, want: []string{"retransmit-changed"},
			trace: `> 1-3; < ack 1; @ 68ms; > 2 len=20; > 3; < ack 3`},
	})
}

func TestAnAckForAnotherQueuePairIsNamed(t *testing.T) {
	check(t, map[string]scene{
		"an ack": {traffic: "write*3", want: []string{"unknown-qp", "capture-gap"}, trace: `> 1-3; < ack 3 stray; < ack 3`},
	})
}

func TestANackOfADuplicateMayNameTheNextPSN(t *testing.T) {
	check(t, map[string]scene{
		"the psn after the last": {traffic: "write*10", want: []string{"nak-duplicate"}, trace: `
			> 1-10; < ack 10 drop; @ 68ms; > 1-10; < nak 11 msn=1; < ack 10`},
	})
}

// A pair of captures may begin in the middle of a connection. An MSN that only one number of completed messages
// explains shows that it does not: from then on the responder's count is known.
func TestACountThatFitsShowsThatAPairBeginsWithItsConnection(t *testing.T) {
	pair := func(s scene) scene { s.kind, s.inferred = trace.KindPair, true; return s }
	check(t, map[string]scene{
		"duplicates are counted": pair(scene{traffic: "write*2 write*2", want: []string{"msn", "msn"}, trace: `
			> 1-2; < ack 2 drop; @ 70ms; > 1-2; < ack 2 msn=2; > 3-4; < ack 4 msn=3`}),
		"the connection is older": pair(scene{traffic: "write*2 write*2",
			trace: `> 1-2; < ack 2 msn=6; > 3-4; < ack 4 msn=7`}),
		"the connection is older by one message, and the first count fits": pair(scene{traffic: "write write write write",
			trace: `
			> 1-3; < ack 1 msn=2; < ack 3 msn=4; > 4; < ack 4 msn=5`}),
	})
}

func TestAGuessedMTUConvictsNoRead(t *testing.T) {
	check(t, map[string]scene{ // of MTU 4096, which nothing shows
		"two reads": {traffic: "read write", midway: true, kind: trace.KindPlain, want: []string{"incomplete", "capture-gap"},
			trace: `> 1 dma=4096; > 2 op=READ_REQUEST len=0 va=0 dma=9000`},
	})
}

// The restart at psn 8 that a NACK for psn 7 caused, answered meanwhile, must not use up the NACK for psn 8.
func TestAnOlderNackExplainsARestartBeforeANewerOne(t *testing.T) {
	cfg := simConfig{
		seed: 12941, messages: 10, maxPSNs: 1, verbs: []packet.Verb{packet.VerbAtomic}, delayNS: 10_000_000, lossPct: 10,
		losses:    8,
		timeoutNS: 50_000_000, window: 4,
	}
	c := trace.CheckedRecords(trace.Meta{Connections: connections(t, 1, 0, false)}, simulate(cfg).records)
	if res := analyse(t, c, cfg.known(true)); len(res.Findings) > 0 {
		t.Error(dump(res.Findings))
	}
}

// It is unknown which of two copies of a refused request the responder accepted until it has acknowledged everything.
// From then on its state is known, and it is judged like any other.
func TestAResponderThatHasAcknowledgedEverythingIsJudgedStrictly(t *testing.T) {
	const copies = "> 1 duplicate sent; > 1 duplicate passed; > 1 duplicate passed; "
	const refused = copies + "< rnr 1; @ 1ms; > 1; < ack 1; "
	check(t, map[string]scene{
		"an ack of a lost packet": {traffic: "send*1 send*3", want: []string{"ack-beyond"},
			trace: refused + `> 2-3; > 4 drop; < ack 4`},
		"a nak that is not sent": {traffic: "send*1 send*3 send*1", want: []string{"nak-missing"},
			trace: refused + `> 2; > 3 drop; > 4; @ 68ms; > 2-4; < ack 4`},
		"a wrong msn": {traffic: "send*1 send*3", want: []string{"msn"},
			trace: refused + `> 2-4; < ack 4 msn=4`},
		"an ack in the middle": {traffic: "send*3 send*3", want: []string{"ack-beyond"},
			trace: refused + `> 2; < ack 2; > 3; < ack 3; > 4-5; > 6 drop; < ack 6`},
		"the second copy was taken": {traffic: "send*1 send*3",
			trace: copies + `< rnr 1; < ack 1; @ 1ms; > 1; < ack 1; > 2-4; < ack 1; < ack 4`},
		"it was not, and both come again": {traffic: "send*1 send*3", trace: refused + `< ack 1; < ack 1; > 2-4; < ack 4`},
		"while packets are on their way it is not known": {traffic: "send*2 send*2",
			trace: copies + `> 2-3; < rnr 1; @ 1ms; > 1-2; < ack 1; > 3 drop; > 4;
			< ack 4`},
		"a read that was asked for twice may be answered twice": {traffic: "send*1 read*2 send*1",
			trace: copies + `< rnr 1; @ 1ms; > 1; > 2; < ack 1; < resp 2-3;
			> 2; > 4; < resp 2-3; < ack 4`},
	})
}

func TestARepeatedRequestHasItsRemoteKey(t *testing.T) {
	check(t, map[string]scene{
		"another key": {traffic: "write*3", want: []string{"retransmit-changed"},
			trace: `> 1 rkey=7 drop; > 2-3; < nak 1; > 1 rkey=8; > 2-3; < ack 3`},
		"the same": {traffic: "write*3", trace: `> 1 rkey=7 drop; > 2-3; < nak 1; > 1 rkey=7; > 2-3; < ack 3`},
		"another key of a read": {traffic: "read*3", want: []string{"read-restart"},
			trace: `> 1 rkey=7; < resp 1 drop; < resp 2-3; > 1 rkey=8; < resp 1-3`},
	})
}

func TestANackForWhatIsKnownToBeAcknowledgedIsNotObeyed(t *testing.T) {
	check(t, map[string]scene{
		"known for long": {traffic: "write*10", want: []string{"nak-psn", "resend-acknowledged"}, trace: `
			> 1-5; > 6 drop; > 7-10; < nak 6; @ 68ms; < nak 3; > 3-10; < ack 10`},
		// Responses arrive in order: a requester that received the second NAK had received the first.
		"the first nak came just before": {traffic: "write*10", want: []string{"nak-psn", "retransmit-first"}, trace: `
			> 1-5; > 6 drop; > 7-10; < nak 6; < nak 3; > 3-10; < ack 10`},
	})
}

func TestAnRNRNakAsksForItsQueuePairsMinimum(t *testing.T) {
	cfg := gbn.Config{Default: gbn.Limits{MinRNRTimerNS: packet.RNRTimer(2)}}
	check(t, map[string]scene{
		"less": {traffic: "send*1", cfg: cfg, want: []string{"rnr-timer"},
			trace: `> 1; < rnr 1 syndrome=0x21; @ 1ms; > 1; < ack 1`},
		"as much":   {traffic: "send*1", cfg: cfg, trace: `> 1; < rnr 1 syndrome=0x22; @ 1ms; > 1; < ack 1`},
		"not known": {traffic: "send*1", trace: `> 1; < rnr 1 syndrome=0x21; @ 1ms; > 1; < ack 1`},
		"the injector's": {traffic: "send*1", cfg: cfg,
			trace: `> 1; < ack 1 rewrite sent; < rnr 1 syndrome=0x21 passed; @ 1ms; > 1; < ack 1`},
	})
}

// A NAK waits for the READ responses that were requested before it, and for those of a repeated READ. The missing
// request may have arrived by then, because the requester misses a response, too. The responder may or may not send the
// NAK.
func TestANakThatTheMissingRequestOutrunsIsNotOwed(t *testing.T) {
	const readLost = `> 1; > 10 drop; > 11-18; < resp 1 drop; < resp 2-8; > 1; > 10-18; `
	cfg := gbn.Config{Default: gbn.Limits{TimeoutNS: 67_108_864}}
	soon := gbn.Config{Default: gbn.Limits{TimeoutNS: 8_192}}
	check(t, map[string]scene{
		"after a read that is asked for again": {traffic: "read*9 send*9", cfg: cfg,
			trace: readLost + `< resp 1-9; < ack 18`},
		"it is sent all the same": {traffic: "read*9 send*9", cfg: cfg,
			trace: readLost + `< resp 1-9; < nak 10 msn=1; > 10-18; < ack 18; < ack 18`},
		"the gap closed before the nak was due": {traffic: "read*9 send*9", cfg: cfg,
			trace: `> 1; < resp 1 drop; < resp 2-9; > 10 drop; > 11; > 1; > 10-18; < resp 1-9; < ack 18`},
		"a timer expired just after the gap": {traffic: "write*3 write*3", cfg: cfg,
			trace: `> 1-2; > 3 drop; @ 68ms; > 4; > 1-6; < ack 6`},
		"after a read that is answered slowly": {traffic: "read*3 send*3", cfg: soon,
			trace: `> 1; > 4 drop; > 5; < resp 1; @ 9us; > 1; > 4-6; < resp 2-3; < resp 1-3; < ack 6`},
		"the read was answered long before": {traffic: "read*3 send*3", cfg: cfg, want: []string{"nak-missing"},
			trace: `> 1; > 4 drop; > 5-6; < resp 1-3; @ 68ms; > 4-6; < ack 6`},
		"a read came again long after the nak's time": {traffic: "read*3 send*3", cfg: cfg, want: []string{"nak-missing"},
			trace: `
			> 1; > 4 drop; > 5-6; < resp 1 drop; < resp 2-3; @ 68ms; > 1; < resp 1-3; > 4-6; < ack 6`},
	})
}

// Whether an invalid request ended the connection is unknown until the NAK shows it: an RNR NAK that waits for READ
// responses may have refused the request before it. The invalid one was then dropped, and the READ may be answered
// again meanwhile.
func TestAnInvalidRequestAfterARefusedOneEndsNothing(t *testing.T) {
	const invalid = "> 1; < resp 1 drop; < resp 2-3; > 1; > 4; > 5 rewrite sent; > 5 op=WRITE_MIDDLE passed; > 6; < " +
		"resp 1 drop; < resp 2; > 1; "
	check(t, map[string]scene{
		"a read is answered again before the rnr nak": {traffic: "read*3 send*3",
			trace: invalid + `< resp 1-3; < rnr 4; @ 1ms; > 4-6; < ack 6`},
		"not blamed, though the nak shows that the connection had ended": {traffic: "read*3 send*3",
			trace: invalid + `< resp 1-3; < nak-inv 5`},
		"the responder must not take it": {traffic: "read*3 send*3",
			want: []string{"nak-fatal-missing"}, trace: invalid + `< resp 1-3; < ack 6`},
	})
}

// A late copy is refused, too, when the wait for the first RNR NAK is nearly over.
func TestAnRNRNakThatCrossesTheRestartForAnotherIsObeyedNext(t *testing.T) {
	cfg := gbn.Config{Default: gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(1), RNRRetry: gbn.AtMost(6)}}
	check(t, map[string]scene{"a late copy": {traffic: "send send send", cfg: cfg,
		trace: `> 1; > 2 delay sent; > 3; < ack 1; < nak 2; > 2-3; < rnr 2 syndrome=0x21;
		@ 10us; > 2 delay passed; < rnr 2 syndrome=0x21; > 2-3; @ 2us; < rnr 2 syndrome=0x21; @ 7us; > 2-3; < rnr 2 syndrome=0x21; @ 11us; > 2-3; < ack 3`}})
}
