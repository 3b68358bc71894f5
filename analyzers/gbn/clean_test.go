package gbn_test

import (
	"testing"

	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/trace"
)

var timeout67ms = gbn.Config{Default: gbn.Limits{TimeoutNS: 67_108_864, Retry: gbn.AtMost(7), RNRRetry: gbn.AtMost(7)},
	HostDelayNS: 10_000}

func TestCorrectEndpointsAreNotBlamed(t *testing.T) {
	check(t, map[string]scene{
		"two writes, each acknowledged at its end": {traffic: "write*10 write*10", trace: `
			> 1-10; < ack 10; > 11-20; < ack 20`},
		"one ack for two messages": {traffic: "write*3 send*3", trace: `> 1-6; < ack 6`},
		"a zero-length write and a zero-length send": {traffic: "write send", trace: `
			> 1 len=0 dma=0; < ack 1; > 2 len=0; < ack 2`},
		"a dropped packet is nacked and the round goes back to it": {traffic: "write*10", cfg: timeout67ms, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; > 5-10; < ack 10`},
		"the old round goes on after the nack, with packets sent for the first time": {traffic: "write*10 write*10",
			cfg:   timeout67ms,
			trace: `> 1-4; > 5 drop; > 6; < nak 5; > 7-14; > 5-20; < ack 10; < ack 20`},
		"a corrupted packet counts as lost": {traffic: "write*10", cfg: timeout67ms, trace: `
			> 1-4; > 5 corrupt; > 6-10; < nak 5; > 5-10; < ack 10`},
		"a lost retransmission of a nacked packet is recovered by timeout, without a second nack": {traffic: "write*10",
			cfg: timeout67ms, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5; > 5 drop; > 6-10; @ 68ms; > 5-10; < ack 10`},
		"a lost tail is recovered by timeout from the oldest unacknowledged packet": {traffic: "write*10", cfg: timeout67ms,
			trace: `
			> 1-9; > 10 drop; @ 68ms; > 1-10; < ack 9; < ack 10`},
		"a lost nack is recovered by timeout": {traffic: "write*10", cfg: timeout67ms, trace: `
			> 1-4; > 5 drop; > 6-10; < nak 5 drop; @ 68ms; > 1-10; < ack 4; < ack 10`},
		"a lost ack is recovered by timeout and duplicates are acknowledged again": {traffic: "write*3", cfg: timeout67ms,
			trace: `
			> 1-3; < ack 3 drop; @ 68ms; > 1-3; < ack 3; < ack 3; < ack 3`},
		"duplicates may be acknowledged with their own psn": {traffic: "write*3", cfg: timeout67ms, trace: `
			> 1-3; < ack 3 drop; @ 68ms; > 1-3; < ack 1; < ack 2; < ack 3`},
		"a timeout crosses the ack": {traffic: "write*3 write*3", trace: `
			> 1-3; @ 68ms; < ack 3; > 1-3; < ack 3; > 4-6; < ack 6`},
		"an ack that arrives during a round lets it skip what is acknowledged": {traffic: "write*5 write*5", trace: `
			> 1-5; @ 68ms; > 1-2; < ack 5; > 6-10; < ack 10`},
		"a timeout that crosses a nack, and the nack answered later": {traffic: "write*10", cfg: timeout67ms, trace: `
			> 1-4; > 5 drop; > 6-10; @ 68ms; < nak 5; > 1-3; > 5-10; < ack 10`},
		"a nack answered twice because a timeout crossed it": {traffic: "write*10", cfg: timeout67ms, trace: `
			> 1-4; < ack 4; > 5 drop; > 6-10; @ 68ms; < nak 5; > 5-7; > 5-10; < ack 7; < ack 10`},
		"losses within the round of retransmission": {traffic: "write*10", cfg: timeout67ms, trace: `
			> 1-2; > 3 drop; > 4-10; < nak 3; > 3-5; > 6 drop; > 7-10; < nak 6; > 6-10; < ack 10`},
		"an ack sent before the nack, both late": {traffic: "write*10", trace: `
			> 1-4; > 5 drop; > 6-10; < ack 3; < nak 5; > 5-10; < ack 10`},
		"rnr nak, and the send comes again after the timer": {traffic: "send*3", cfg: timeout67ms, trace: `
			> 1-3; < rnr 1; @ 1ms; > 1-3; < ack 3`},
		"rnr nak twice for the same send": {traffic: "send*3", cfg: timeout67ms, trace: `
			> 1-3; < rnr 1; @ 1ms; > 1-3; < rnr 1; @ 1ms; > 1-3; < ack 3`},
		"rnr nak in the middle of the flight hides a gap after it": {traffic: "send send*5", cfg: timeout67ms, trace: `
			> 1-2; > 3 drop; > 4-6; < rnr 1; @ 1ms; > 1-6; < ack 1; < ack 6`},
		"a responder gives up an answer that a repeated request supersedes": {traffic: "read*3 write*3", trace: `
			> 1-6; @ 68ms; > 1 ; > 4; > 5 drop; > 6; < ack 6 msn=2; @ 68ms; > 1-6; < resp 1-3; < ack 6`},
		"an atomic after a repeated read is given up with it": {traffic: "read atomic write*3", trace: `
			> 1-4; @ 68ms; > 1; > 2-4; < ack 4 msn=2; @ 68ms; > 1-5; < resp 1; < atomic 2; < ack 5`},
		"a read": {traffic: "read*10", trace: `> 1; < resp 1-10`},
		"a single-packet read and a write after it": {traffic: "read write*2", trace: `> 1; > 2-3; < resp 1; < ack 3`},
		"a read response is lost and asked for again": {traffic: "read*10", cfg: timeout67ms, trace: `
			> 1; < resp 1-4; < resp 5 drop; < resp 6-10; > 5; < resp 5-10`},
		"two reads outstanding when a response is lost": {traffic: "read*5 read*5", cfg: timeout67ms, trace: `
			> 1-10; < resp 1-2; < resp 3 drop; < resp 4-10; > 3-10; < resp 3-10`},
		"the last read response is lost: timeout": {traffic: "read*5", cfg: timeout67ms, trace: `
			> 1; < resp 1-4; < resp 5 drop; @ 68ms; > 5; < resp 5`},
		"a read request is lost and the next request shows it": {traffic: "read*5 write*2", cfg: timeout67ms, trace: `
			> 1 drop; > 6-7; < nak 1; > 1-7; < resp 1-5; < ack 7`},
		"an ack after lost read responses is an implied nak": {traffic: "read*5 write*2", cfg: timeout67ms, trace: `
			> 1-7; < resp 1-3; < resp 4 drop; < resp 5 drop; < ack 7; > 4-7; < resp 4-5; < ack 7`},
		"re-request crosses late responses": {traffic: "read*5", trace: `
			> 1; < resp 1; @ 68ms; < resp 2-5; > 2; < resp 2-5`},
		"atomics": {traffic: "atomic atomic", cfg: timeout67ms,
			trace: `> 1-2; < atomic 1; < atomic 2 drop; @ 68ms; > 2; < atomic 2`},
		"both directions at once": {traffic: "write*4", trace: `
			> 1-2; ~> 1-4; > 3-4; < ack 4; ~< ack 4`},
		"a pair of captures": {traffic: "write*4", kind: trace.KindPair, trace: `
			> 1-4 sent; > 1 passed; > 3-4 passed; < nak 2 sent; < nak 2 passed; > 2-4 sent; > 2-4 passed; < ack 4 sent; < ack 4 passed`},
		"an atomic ACK is lost after the tap, and the next ACK asks for it": {traffic: "write*4 atomic write*4",
			kind: trace.KindPlain, trace: `
			> 1-9; < nak 2; > 2-9; < atomic 5; < ack 6; > 5-9; < atomic 5; < ack 9`},
		"an atomic ACK is late, and the next ACK asks for it": {traffic: "write*4 atomic write*4", trace: `
			> 1-6; < atomic 5 delay; < ack 6; > 7-9; > 5-9; < atomic 5; < ack 9`},
		"a READ response is late and closes the gap that asked for it": {traffic: "read*5 write*3", trace: `
			> 1; < resp 1; < resp 2 drop; < resp 3; < resp 4 delay; < resp 5; > 2; < resp 2-3; < resp 4 drop; < resp 5
			> 6-8; < ack 8; > 5-8; < resp 5; < ack 8`},
		"the first READ response is lost after the tap, and the others ask for it": {traffic: "write*4 read*3 write*2",
			kind: trace.KindPlain, trace: `
			> 1-9; < nak 2; > 2-9; < resp 5-7; < ack 9; > 5-9; < resp 5-7; < ack 9`},
		"a plain capture before the loss": {traffic: "write*10", kind: trace.KindPlain, trace: `
			> 1-10; < nak 5; > 5-10; < ack 10`},
		"the ack of a duplicate is lost, too, and the requester gives up": {traffic: "write*2",
			cfg:   gbn.Config{Default: gbn.Limits{ErrorsExpected: true}},
			trace: `> 1-2; < ack 2 drop; @ 68ms; > 1-2; < ack 2 drop; < ack 2 drop`},
		"a fatal nak where the test expects an error": {traffic: "write*3",
			cfg:   gbn.Config{Default: gbn.Limits{ErrorsExpected: true}},
			trace: `> 1-3; < nak-inv 1`},
	})
}

func TestPlainCapturesGetNotesForWhatTheyLack(t *testing.T) {
	check(t, map[string]scene{
		"a loss before the tap": {traffic: "write*10", kind: trace.KindPlain, want: []string{"capture-gap"}, trace: `
			> 1-4; > 6-10; < nak 5; > 5-10; < ack 10`},
		"a mirror trace that begins between two messages, the ack of the first still out": {traffic: "write*10 write*3",
			midway: true,
			trace:  `< ack 10; > 11-13; < ack 13`},
		"a mirror trace that begins inside a message": {traffic: "write*10 write*3", midway: true, trace: `
			> 5-10; < ack 10; > 11-13; < ack 13`},
		"a mirror trace that begins before a later message": {traffic: "write*10 write*3", midway: true, trace: `
			> 11-13; < ack 10; < ack 13`},
		"a capture that begins midway": {traffic: "write*10 write*3", kind: trace.KindPlain, midway: true, trace: `
			> 5-10; < ack 10; > 11-13; < ack 13`},
		"a capture that ends early": {traffic: "write*10", kind: trace.KindPlain, want: []string{"incomplete"},
			trace: `> 1-10`},
		"a read response lost before the tap": {traffic: "read*5", kind: trace.KindPlain, want: []string{"capture-gap"},
			trace: `
			> 1; < resp 1-2; < resp 4-5; > 3; < resp 3-5`},
	})
}
