package bounds_test

import (
	"math/bits"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestAnalyzersCallTheSameRetransmissionEarly looks for the least time after which each analyzer takes a retransmission
// for the timer's work. Nothing but the request itself passed before, so that only the assumed delay and the timer
// matter.
func TestAnalyzersCallTheSameRetransmissionEarly(t *testing.T) {
	for _, c := range []struct {
		name              string
		kind              trace.Kind
		delay, link, wait int64 // of which the last is how much less than T is granted
		exponent          uint8
	}{
		{"assumed, a quarter of the timer", trace.KindMirror, 0, 0, 4096 << 14 / 4, 14},
		{"assumed, a long timer", trace.KindMirror, 0, 0, 20 * ms, 18},
		{"assumed for captures", trace.KindPair, 0, 0, 250 * ms, 20},
		{"measured", trace.KindMirror, 3 * ms, 0, 3 * ms, 14},
		{"links that take longer", trace.KindMirror, 0, 12 * ms, 24 * ms, 14},
	} {
		timeout := int64(4096) << c.exponent
		limits := gbn.Limits{TimeoutNS: timeout, Retry: gbn.AtMost(7), RNRRetry: gbn.AtMost(7)}
		params := retrans.Params{Known: true, TimeoutExponent: c.exponent, RetryCount: 7, RNRRetry: 7}
		makers := map[string]func(trace.Meta) analyzers.Analyzer{
			"gbn.timeout-early": func(m trace.Meta) analyzers.Analyzer {
				return gbn.New(m, gbn.Config{Default: limits, HostDelayNS: c.delay, LinkDelayNS: c.link})
			},
			"retrans.timeout-early": func(m trace.Meta) analyzers.Analyzer {
				return retrans.New(m, retrans.Config{Default: params, HostDelayNS: c.delay, LinkDelayNS: c.link})
			},
		}
		for rule, fresh := range makers {
			early, punctual := int64(1), timeout
			for punctual-early > 1 {
				if mid := (early + punctual) / 2; blamed(t, c.kind, mid, rule, fresh) {
					early = mid
				} else {
					punctual = mid
				}
			}
			if want := timeout - c.wait; punctual != want {
				t.Errorf("%s: %s from %d ns on is right, want %d ns (T is 2^%d ns)", c.name, rule, punctual, want,
					bits.Len64(uint64(timeout))-1)
			}
		}
	}
}

// blamed reports whether an analyzer blames a requester that retransmits its only request after a time.
func blamed(t *testing.T, kind trace.Kind, after int64, rule string, fresh func(trace.Meta) analyzers.Analyzer) bool {
	meta := tracetest.Meta(tracetest.Connections(1, false))
	meta.Kind = kind
	request := trace.Record{
		ID: 1, TimeNS: 1000, PSN: tracetest.RequesterIPSN, Opcode: packet.WriteOnly, DestQP: 0x200, DMALen: 64,
		PayloadLen: 64,
		Flags:      trace.Sent | trace.Passed | trace.HasRETH | trace.AckReq,
	}
	repeated := request
	repeated.ID, repeated.TimeNS = 2, request.TimeNS+after
	c := trace.CheckedRecords(meta, []trace.Record{request, repeated})
	doc, err := analyzers.Run(t.Context(), c, fresh(c.Meta()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range doc.Findings {
		if doc.Findings[i].Rule == rule && doc.Findings[i].Severity == analyzers.Violation {
			return true
		}
	}
	return false
}
