package retrans_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/trace"
)

// analyse runs the analyzer over hand-written records of two connections.
func analyse(t *testing.T, meta trace.Meta, cfg retrans.Config, text string) *analyzers.Analysis {
	t.Helper()
	records, err := tracetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	checked := trace.CheckedRecords(meta, records)
	doc, err := analyzers.Run(context.Background(), checked, retrans.New(checked.Meta(), cfg),
		counters.New(checked.Meta(), counters.Input{}))
	if err != nil {
		t.Fatal(err)
	}
	doc = doc.Only(retrans.Name)
	agreesAlone(t, doc, checked, cfg)
	book.Add(t, doc.Findings)
	return doc
}

// agreesAlone compares the findings of an analyzer with a shared tracker and with its own.
func agreesAlone(t *testing.T, shared *analyzers.Analysis, checked *trace.Checked, cfg retrans.Config) {
	t.Helper()
	a := retrans.New(checked.Meta(), cfg)
	if err := checked.ForEach(context.Background(), func(r *trace.Record) error { a.Packet(r); return nil }); err != nil {
		t.Fatal(err)
	}
	alone := analyzers.Analysis{Findings: []analyzers.Finding{}, Metrics: []analyzers.Metric{},
		Coverage: map[string]map[string]int64{}}
	alone.Add(retrans.Name, a.Finish())
	if diff := cmp.Diff(alone.Findings, shared.Findings) + cmp.Diff(alone.Metrics,
		shared.Metrics) + cmp.Diff(alone.Coverage, shared.Coverage); diff != "" {
		t.Errorf("alone (-) and together with another analyzer (+):\n%s", diff)
	}
}

// sums returns the values of the metrics over all connections, without empty ones.
func sums(doc *analyzers.Analysis) map[string][]int64 {
	values := map[string][]int64{}
	for _, m := range doc.Metrics {
		if m.Connection == 0 && m.Count > 0 {
			values[m.Name] = m.Values
		}
	}
	return values
}

// rules lists the rules of all findings with their severities.
func rules(doc *analyzers.Analysis) []string {
	var list []string
	for _, f := range doc.Findings {
		list = append(list, string(f.Severity)+" "+f.Rule)
	}
	return list
}

// known is T = 65.5 us (exponent 4).
var known = retrans.Params{Known: true, TimeoutExponent: 4, RetryCount: 2, RNRRetry: 1}

// slow is T = 67 ms (exponent 14).
var slow = retrans.Params{Known: true, TimeoutExponent: 14, RetryCount: 2, RNRRetry: 1}

func TestMeasures(t *testing.T) {
	tests := []struct {
		name, text string
		cfg        retrans.Config
		want       map[string][]int64
	}{
		{
			name: "one loss in the middle of a WRITE is NACKed and repaired",
			text: `
				0 > first 1
				1 > mid 2 drop
				2 > mid 3          # the first delivered out of order
				3 > mid 4
				4.5 < nak 2
				5 > mid 5          # still in the pipeline
				9.5 > mid 2
				10 > mid 3
				11 > last 4 ar
				13 < ack 4`,
			want: map[string][]int64{
				"retrans.nack-generation": {2500}, "retrans.nack-reaction": {5000}, "retrans.retransmission": {8500},
			},
		},
		{
			name: "a half RTT from a calibration run gives corrected values beside the raw ones",
			cfg:  retrans.Config{HalfRTT: retrans.Sides{Requester: 1000, Responder: 600}},
			text: `
				0 > first 1 drop
				1 > mid 2
				3 < nak 1
				6 > first 1`,
			want: map[string][]int64{
				"retrans.nack-generation": {2000}, "retrans.nack-generation.corrected": {1400},
				"retrans.nack-reaction": {3000}, "retrans.nack-reaction.corrected": {2000},
				"retrans.retransmission": {6000},
			},
		},
		{
			name: "a packet lost after an earlier loss is repaired by that one's NACK",
			text: `
				0 > first 1
				1 > mid 2 drop
				2 > mid 3 corrupt
				3 > mid 4
				5 < nak 2
				8 > mid 2
				9 > mid 3
				10 > mid 4`,
			want: map[string][]int64{
				"retrans.nack-generation": {2000}, "retrans.nack-reaction": {3000}, "retrans.retransmission": {7000, 7000},
			},
		},
		{
			name: "a NACK that is dropped starts no reaction, the timeout repairs",
			text: `
				0 > first 1 drop
				1 > mid 2
				2 > last 3 ar
				3 < nak 1 drop
				500 > first 1
				501 > mid 2
				502 > last 3 ar
				504 < ack 3`,
			want: map[string][]int64{
				"retrans.nack-generation": {2000}, "retrans.timeout": {500_000}, "retrans.timeout.retry-1": {500_000},
				"retrans.timer-restarts": {1},
			},
		},
		{
			name: "timeouts of a lost tail are counted by retry of the lost packet, whatever restarts before it",
			text: `
				0 > first 1
				1 > last 2 ar drop
				100 > first 1
				101 > last 2 ar drop
				103 < ack 1
				301 > last 2 ar drop
				702 > last 2 ar
				704 < ack 2`,
			want: map[string][]int64{
				"retrans.timeout":         {100_000, 200_000, 401_000},
				"retrans.timeout.retry-1": {100_000}, "retrans.timeout.retry-2": {200_000}, "retrans.timeout.retry-3": {401_000},
				"retrans.timer-restarts": {1, 1, 2},
			},
		},
		{
			name: "a lost ACK is a timeout of the packet at which the round restarts",
			text: `
				0 > only 1 ar
				2 < ack 1 drop
				300 > only 1 ar
				302 < ack 1`,
			want: map[string][]int64{"retrans.timeout": {300_000}, "retrans.timeout.retry-1": {300_000},
				"retrans.timer-restarts": {1}},
		},
		{
			name: "timeouts after a NACK that made the requester forget the loss repair nothing, but are counted",
			text: `
				0 > first 1 drop
				1 > mid 2
				2 > last 3 ar
				3 < nak 2
				6 > mid 2
				7 > last 3 ar
				307 > mid 2
				308 > last 3 ar
				608 > mid 2
				609 > last 3 ar`,
			want: map[string][]int64{
				"retrans.nack-reaction": {3000}, "retrans.retransmission": {5000}, "retrans.timer-restarts": {2, 3},
			},
		},
		{
			name: "a lost retransmission of a NACKed packet is repaired by timeout",
			text: `
				0 > first 1 drop
				1 > mid 2
				3 < nak 1
				6 > first 1 drop
				7 > mid 2
				406 > first 1`,
			want: map[string][]int64{
				"retrans.nack-generation": {2000}, "retrans.nack-reaction": {3000}, "retrans.retransmission": {6000},
				"retrans.timeout": {400_000}, "retrans.timeout.retry-1": {400_000}, "retrans.timer-restarts": {2},
			},
		},
		{
			name: "the repeated READ request plays the NACK",
			text: `
				0 > read 1+5
				2 < resp 1
				3 < resp 2 drop
				4 < resp 3
				5 < resp 4
				5.5 > read 2+4
				6 < resp 5
				9 < resp 2
				10 < resp 3
				11 < resp 4
				12 < resp 5`,
			want: map[string][]int64{
				"retrans.nack-generation": {1500}, "retrans.nack-reaction": {3500}, "retrans.retransmission": {6000},
			},
		},
		{
			name: "a lost last READ response is a timeout of that response",
			text: `
				0 > read 1+2
				2 < resp 1
				3 < resp 2 drop
				203 > read 2+1
				206 < resp 2`,
			want: map[string][]int64{"retrans.timeout": {203_000}, "retrans.timeout.retry-1": {203_000},
				"retrans.timer-restarts": {1}},
		},
		{
			name: "a lost READ request is a timeout of the request",
			text: `
				0 > read 1+2 drop
				200 > read 1+2
				202 < resp 1
				203 < resp 2`,
			want: map[string][]int64{"retrans.timeout": {200_000}, "retrans.timeout.retry-1": {200_000},
				"retrans.timer-restarts": {1}},
		},
		{
			name: "an ACK that passes over an outstanding READ is an implied NACK",
			text: `
				0 > read 1+1
				1 > only 2 ar
				2 < resp 1 drop
				3 < ack 2
				5 > read 1+1
				8 < resp 1
				9 > only 2 ar
				10 < ack 2`,
			want: map[string][]int64{
				"retrans.nack-generation": {2000}, "retrans.nack-reaction": {3000}, "retrans.retransmission": {6000},
			},
		},
		{
			name: "an RNR NAK is followed by its delay, not by a NACK reaction",
			text: `
				0 > send 1 ar
				2 < rnr 1 code=1
				15 > send 1 ar
				17 < ack 1`,
			want: map[string][]int64{"retrans.rnr-delay": {13_000}},
		},
		{
			name: "connections are kept apart and summed",
			text: `
				0 > first 1 drop
				0 2> first 1 drop
				1 > mid 2
				1 2> mid 2
				2 < nak 1
				3 2< nak 1
				4 > first 1
				6 2> first 1`,
			want: map[string][]int64{
				"retrans.nack-generation": {1000, 2000}, "retrans.nack-reaction": {2000, 3000},
				"retrans.retransmission": {4000, 6000},
			},
		},
		{
			name: "both directions of a bidirectional connection are measured",
			text: `
				0 > first 1
				0 < first 1 drop
				1 < last 2 ar
				3 > nak 1
				7 < first 1`,
			want: map[string][]int64{
				"retrans.nack-generation": {2000}, "retrans.nack-reaction": {4000}, "retrans.retransmission": {7000},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := analyse(t, tracetest.Meta(tracetest.Connections(2, false)), test.cfg, test.text)
			if diff := cmp.Diff(test.want, sums(doc)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			if len(doc.Findings) > 0 {
				t.Errorf("findings: %+v", doc.Findings)
			}
		})
	}
}

func TestMeasuresPlainCapture(t *testing.T) {
	// The tap is before the injector: the loss of 2 is not visible.
	meta := trace.Meta{Kind: trace.KindPlain, Connections: tracetest.Connections(1, false)}
	doc := analyse(t, meta, retrans.Config{}, `
		0 > first 1
		1 > mid 2
		2 > mid 3
		4 < nak 2
		9 > mid 2
		10 > mid 3`)
	want := map[string][]int64{
		"retrans.nack-generation": {2000}, "retrans.nack-reaction": {5000}, "retrans.retransmission": {8000},
	}
	if diff := cmp.Diff(want, sums(doc)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestJudges(t *testing.T) {
	exact := retrans.Config{Default: known, HostDelayNS: 1, JitterNS: 1, NakSilenceNS: time.Second.Nanoseconds()}
	adaptive := exact
	adaptive.Default.Adaptive = true
	off := exact
	off.Default.TimeoutExponent = 0
	tests := []struct {
		name, text string
		cfg        retrans.Config
		want       []string
	}{
		{
			name: "a timeout after T is right",
			cfg:  exact,
			text: "0 > only 1 ar drop\n 66 > only 1 ar",
		},
		{
			name: "a timeout before T is a violation",
			cfg:  exact,
			text: "0 > only 1 ar drop\n 60 > only 1 ar",
			want: []string{"violation retrans.timeout-early"},
		},
		{
			name: "within the jitter of the path the first packet proves nothing",
			cfg:  retrans.Config{Default: known, HostDelayNS: 10_000},
			text: "0 > only 1 ar drop\n 60 > only 1 ar",
		},
		{
			name: "an ACK proves progress whatever the jitter",
			cfg:  retrans.Config{Default: slow},
			text: "0 > only 1 ar\n 2 < ack 1\n 3 > only 2 ar drop\n 60000 > only 2 ar",
			want: []string{"violation retrans.timeout-early"},
		},
		{
			name: "a timer that expired before the progress arrived is not early",
			cfg:  retrans.Config{Default: slow},
			text: "0 > first 1\n 1 > mid 2\n 2 > last 3 ar drop\n 65000 < ack 2\n 67200 > last 3 ar",
		},
		{
			name: "an ACK that may still be in flight is not progress",
			cfg:  exact,
			text: "0 > first 1\n 1 > mid 2 ar\n 66 < ack 2\n 66.5 > first 1\n",
		},
		{
			name: "an adaptive timer that undercuts T is noted",
			cfg:  adaptive,
			text: "0 > only 1 ar drop\n 10 > only 1 ar",
			want: []string{"note retrans.timeout-early"},
		},
		{
			name: "with unknown parameters no timeout is judged",
			text: "0 > only 1 ar drop\n 10 > only 1 ar",
		},
		{
			name: "a timeout without a timer is a violation",
			cfg:  off,
			text: "0 > only 1 ar drop\n 1000 > only 1 ar",
			want: []string{"violation retrans.timer-off"},
		},
		{
			name: "above 4 T a timeout is late",
			cfg:  exact,
			text: "0 > only 1 ar drop\n 270 > only 1 ar",
			want: []string{"warning retrans.timeout-late"},
		},
		{
			name: "a restart that a NAK may have caused is not an early timeout",
			cfg:  exact,
			text: "0 > first 1 drop\n 1 > last 2 ar\n 3 < nak 1\n 6 > first 1",
		},
		{
			name: "a second restart after a dropped retransmission is one",
			cfg:  exact,
			text: "0 > only 1 ar\n 1 < ack 1\n 2 > first 2 drop\n 3 > last 3 ar\n 4 < nak 2\n 6 > first 2 drop\n 7 > last 3\n " +
				"20 > first 2",
			want: []string{"violation retrans.timeout-early"},
		},
		{
			name: "a NAK that may have crossed a timeout may cause a second restart",
			cfg:  exact,
			text: "0 > first 1 drop\n 1 > last 2 ar\n 66 < nak 1\n 66.5 > first 1\n 68 > first 1",
		},
		{
			name: "a timeout of just before the NAK that brings progress counts among the retries of before",
			cfg:  exact,
			text: "0 > first 1\n 1 > mid 2 drop\n 2 > last 3 ar\n 60 < nak 2\n 126 > mid 2 drop\n 127 > last 3 ar drop\n" +
				"196 > mid 2 drop\n 197 > last 3 ar drop\n 266 > mid 2 drop\n 267 > last 3 ar drop",
		},
		{
			name: "so it does if an acknowledgement just before that NAK brings it",
			cfg:  exact,
			text: "0 > first 1\n 1 > mid 2 drop\n 2 > last 3 ar\n 60 < ack 1\n 61 < nak 2\n 127 > mid 2 drop\n 128 > last 3 " +
				"ar drop\n" +
				"197 > mid 2 drop\n 198 > last 3 ar drop\n 267 > mid 2 drop\n 268 > last 3 ar drop",
		},
		{
			name: "it excuses one retry only",
			cfg:  exact,
			text: "0 > first 1\n 1 > mid 2 drop\n 2 > last 3 ar\n 60 < nak 2\n 126 > mid 2 drop\n 127 > last 3 ar drop\n" +
				"196 > mid 2 drop\n 197 > last 3 ar drop\n 266 > mid 2 drop\n 267 > last 3 ar drop\n 336 > mid 2",
			want: []string{"violation retrans.retry-exceeded"},
		},
		{
			name: "a NAK that is obeyed at once is a retry",
			cfg:  exact,
			text: "0 > first 1\n 1 > mid 2 drop\n 2 > last 3 ar\n 60 < nak 2\n 65 > mid 2 drop\n 66 > last 3 ar drop\n" +
				"135 > mid 2 drop\n 136 > last 3 ar drop\n 205 > mid 2 drop\n 206 > last 3 ar drop",
			want: []string{"violation retrans.retry-exceeded"},
		},
		{
			name: "more than retry_cnt restarts without progress are a violation",
			cfg:  exact,
			text: "0 > only 1 ar drop\n 70 > only 1 ar drop\n 140 > only 1 ar drop\n 210 > only 1 ar drop",
			want: []string{"violation retrans.retry-exceeded"},
		},
		{
			name: "progress reloads the retry count",
			cfg:  exact,
			text: `0 > first 1
				1 > last 2 ar drop
				70 > first 1
				71 > last 2 ar drop
				73 < ack 1
				141 > last 2 ar drop
				211 > last 2 ar`,
		},
		{
			name: "a request repeated before the RNR timer has run is a violation",
			cfg:  exact,
			text: "0 > send 1 ar\n 2 < rnr 1 code=1\n 9 > send 1 ar",
			want: []string{"violation retrans.rnr-early"},
		},
		{
			name: "where the timeout is unknown it may have been one, so it is a note",
			text: "0 > send 1 ar\n 2 < rnr 1 code=1\n 9 > send 1 ar",
			want: []string{"note retrans.rnr-early"},
		},
		{
			name: "an early repetition that may have been a timeout is not",
			cfg:  exact,
			text: "0 > send 1 ar\n 64 < rnr 1 code=1\n 66 > send 1 ar",
		},
		{
			name: "more than rnr_retry repetitions are a violation",
			cfg:  exact,
			text: `0 > send 1 ar
				1 < rnr 1 code=1
				12 > send 1 ar
				13 < rnr 1 code=1
				24 > send 1 ar`,
			want: []string{"violation retrans.rnr-retry-exceeded"},
		},
		{
			name: "a READ repeated after an out-of-order response is not a timeout",
			cfg:  exact,
			text: "0 > read 1+3\n 1 < resp 1 drop\n 2 < resp 2\n 3 > read 1+3\n 4 < resp 3\n 5 < resp 1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := analyse(t, tracetest.Meta(tracetest.Connections(1, false)), test.cfg, test.text)
			if diff := cmp.Diff(test.want, rules(doc)); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, doc.Findings)
			}
		})
	}
}

func TestCalibrationTakesTheShortestRoundTripOfEachSide(t *testing.T) {
	records, err := tracetest.Parse(`
		0 > only 1 ar
		1.5 < ack 1
		3 > only 2 ar
		4.2 < ack 2
		5 > first 3
		5.1 > last 4 ar
		7 < ack 4`)
	if err != nil {
		t.Fatal(err)
	}
	c := retrans.Calibrate(tracetest.Meta(tracetest.Connections(1, false)))
	for i := range records {
		c.Packet(&records[i])
	}
	if diff := cmp.Diff(retrans.Sides{Requester: 800, Responder: 1200}, c.HalfRTT()); diff != "" {
		t.Errorf("half RTT (-want +got):\n%s", diff)
	}
	names := map[string]int64{}
	for _, m := range c.Finish().Metrics {
		names[m.Name] += m.Count
	}
	want := map[string]int64{"retrans.half-rtt.requester": 4, "retrans.half-rtt.responder": 6}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
