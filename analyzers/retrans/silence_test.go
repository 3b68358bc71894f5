package retrans_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/trace"
)

// Silence that only the timer ends is a warning with its time. The timer takes 65.5 us.
func TestSilence(t *testing.T) {
	exact := retrans.Config{Default: known, HostDelayNS: 1, JitterNS: 1}
	with := func(change func(c *retrans.Config)) retrans.Config { c := exact; change(&c); return c }
	unknown := retrans.Config{}
	ack, nak := []string{"warning retrans.ack-silence"}, []string{"warning retrans.nak-silence"}
	const late = "0 > only 1 ar\n 2 < ack 1\n 10 > only 2 ar\n 80 > only 2 ar\n 82 < ack 2\n"
	tests := []struct {
		name, text string
		cfg        retrans.Config
		kind       trace.Kind
		want       []string
	}{
		{"an acknowledgement that only the repeated request brought", late, exact, trace.KindMirror, ack},
		{"a capture does not show whether the request arrived", late, exact, trace.KindPlain, nil},
		{"of a responder that was as slow before",
			"0 > only 1 ar\n 60 < ack 1\n 70 > only 2 ar\n 140 > only 2 ar\n 142 < ack 2", exact, trace.KindMirror, nil},
		{"with a threshold beyond it", late, with(func(c *retrans.Config) { c.AckSilenceNS = 72_001 }), trace.KindMirror,
			nil},
		{"with a threshold just below", late, with(func(c *retrans.Config) { c.AckSilenceNS = 72_000 }), trace.KindMirror,
			ack},
		{"over links that take longer than the timer", late, with(func(c *retrans.Config) { c.LinkDelayNS = 20_000 }),
			trace.KindMirror, nil},
		{"the request was lost", "0 > only 1 ar\n 2 < ack 1\n 10 > only 2 ar drop\n 80 > only 2 ar\n 82 < ack 2", exact,
			trace.KindMirror, nil},
		{"the acknowledgement was lost", "0 > only 1 ar\n 2 < ack 1\n 10 > only 2 ar\n 12 < ack 2 drop\n 80 > only 2 ar\n " +
			"82 < ack 2", exact, trace.KindMirror, nil},
		{"a later request brings it", "0 > only 1 ar\n 2 < ack 1\n 10 > only 2 ar\n 11 > only 3 ar\n 13 < ack 3", exact,
			trace.KindMirror, nil},
		{"the second of two requests", "0 > only 1 ar\n 1 > only 2 ar\n 3 < ack 1\n 80 > only 2 ar\n 82 < ack 2", exact,
			trace.KindMirror, ack},
		{"the answer comes before the timer's round reaches the request",
			"0 > only 1 ar\n 2 < ack 1\n 10 > first 2\n 11 > mid 3\n 12 > last 4 ar\n" +
				"80 > first 2\n 82 < ack 4\n 83 > mid 3", exact, trace.KindMirror, ack},
		{"the timer repeats an older request whose acknowledgement was lost",
			"0 > only 1 ar\n 2 < ack 1\n 10 > first 2\n 11 > last 3 ar\n" +
				"13 < ack 3 drop\n 60 > only 4 ar\n 77 > first 2\n 78 < ack 4", exact, trace.KindMirror, nil},
		{"a receiver that was not ready did not accept the request",
			"0 > only 1 ar\n 2 < ack 1\n 10 > first 2\n 11 > last 3 ar\n 12 < rnr 2 drop\n" +
				"80 > first 2\n 81 > last 3 ar\n 82 < ack 3", exact, trace.KindMirror, nil},
		{"the receiver was not ready, and forgot the request later",
			"0 > only 1 ar\n 2 < ack 1\n 10 > first 2\n 11 > last 3 ar\n 12 < rnr 2 drop\n" +
				"80 > first 2\n 81 > last 3 ar\n 150 > first 2\n 151 < ack 3", exact, trace.KindMirror, ack},
		{"the repeated request was lost",
			"0 > only 1 ar\n 2 < ack 1\n 10 > first 2\n 11 > last 3 ar\n 80 > first 2 drop\n 82 < ack 3",
			exact, trace.KindMirror, nil},
		{"a READ that only its repetition answers", "0 > only 1 ar\n 2 < ack 1\n 10 > read 2\n 80 > read 2\n 82 < resp 2",
			exact, trace.KindMirror, ack},
		{"a READ whose response was lost", "0 > only 1 ar\n 2 < ack 1\n 10 > read 2\n 12 < resp 2 drop\n 80 > read 2\n 82 " +
			"< resp 2", exact, trace.KindMirror, nil},
		{"a READ that was lost", "0 > only 1 ar\n 2 < ack 1\n 10 > read 2 drop\n 80 > read 2\n 82 < resp 2", exact,
			trace.KindMirror, nil},
		{"nobody asked", "0 > only 1 ar\n 2 < ack 1\n 10 > only 2\n 80 > only 2\n 82 < ack 2", exact, trace.KindMirror, nil},

		{"a NAK that the timer follows", "0 > first 1 drop\n 1 > last 2 ar\n 3 < nak 1\n 66 > first 1\n 67 > last 2 ar\n " +
			"69 < ack 2", exact, trace.KindMirror, nak},
		{"a capture does not show whether the NAK arrived", "0 > first 1 drop\n 1 > last 2 ar\n 3 < nak 1\n 66 > first 1\n " +
			"67 > last 2 ar\n 69 < ack 2", exact, trace.KindPlain, nil},
		{"a NAK that is heeded", "0 > first 1 drop\n 1 > last 2 ar\n 3 < nak 1\n 20 > first 1\n 21 > last 2 ar\n 23 < ack 2",
			exact, trace.KindMirror, nil},
		{"a NAK that is lost", "0 > first 1 drop\n 1 > last 2 ar\n 3 < nak 1 drop\n 66 > first 1\n 67 > last 2 ar\n 69 < " +
			"ack 2", exact, trace.KindMirror, nil},
		{"a slow reaction, sooner than the timer", "0 > first 1 drop\n 1 > last 2 ar\n 3 < nak 1\n 51 > first 1\n 52 > " +
			"last 2 ar\n 54 < ack 2", exact, trace.KindMirror, nil},
		{"the same with a threshold",
			"0 > first 1 drop\n 1 > last 2 ar\n 3 < nak 1\n 51 > first 1\n 52 > last 2 ar\n 54 < ack 2",
			with(func(c *retrans.Config) { c.NakSilenceNS = 48_000 }), trace.KindMirror, nak},
		{"the timer is not known",
			"0 > first 1 drop\n 1 > last 2 ar\n 3 < nak 1\n 66 > first 1\n 67 > last 2 ar\n 69 < ack 2", unknown,
			trace.KindMirror, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			meta := tracetest.Meta(tracetest.Connections(2, false))
			meta.Kind, meta.EventsKnown = test.kind, test.kind == trace.KindMirror
			doc := analyse(t, meta, test.cfg, test.text)
			if diff := cmp.Diff(test.want, rules(doc)); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, doc.Findings)
			}
		})
	}
}

func TestSilenceIsReportedWithItsTime(t *testing.T) {
	doc := analyse(t, tracetest.Meta(tracetest.Connections(1, false)),
		retrans.Config{Default: known, HostDelayNS: 1, JitterNS: 1},
		"0 > only 1 ar\n 2 < ack 1\n 10 > only 2 ar\n 80 > only 2 ar\n 82 < ack 2")
	if len(doc.Findings) != 1 || !strings.Contains(doc.Findings[0].Actual, "72 us") ||
		!strings.Contains(doc.Findings[0].Actual, "2 us") {
		t.Errorf("%+v", doc.Findings)
	}
}
