package retrans_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/tracetest"
)

// TestCalibrationMeasuresWholeRoundTripsOnly feeds packets that are not round trips, or only half of one.
func TestCalibrationMeasuresWholeRoundTripsOnly(t *testing.T) {
	type trips map[string][]int64
	const requester, responder = "retrans.half-rtt.requester", "retrans.half-rtt.responder"
	tests := []struct {
		name, text string
		want       trips
	}{
		{"packets of no stream", "0 > only 1 ar\n 1 < cnp psn=0xfffffc\n 2 < ack 1 stray\n 3 > only 1 stray ar\n 4 < ack 1",
			trips{responder: {4000}}},
		{"an ACK before any request", "0 < ack 0\n 1 > only 1", nil},
		{"a request that asks for nothing", "0 > only 1\n 2 < ack 1\n 3 > only 2", trips{requester: {1000}}},
		{"a lost request is not answered", "0 > only 1 ar drop\n 2 < ack 1", nil},
		{"an answer counts once", "0 > only 1 ar\n 2 < ack 1\n 5 < ack 1", trips{responder: {2000}}},
		{"an answer to another request", "0 > only 1 ar\n 1 > only 2\n 2 < ack 2", nil},
		{"a READ asks without a bit", "0 > read 1+1\n 2 < resp 1", trips{responder: {2000}}},
		{"a lost ACK starts nothing", "0 > only 1\n 2 < ack 1 drop\n 3 > only 2", nil},
		{"a NAK starts nothing", "0 > only 1\n 2 < nak 1\n 3 > only 2", nil},
		{"an ACK of a part starts nothing", "0 > first 1\n 1 > last 2\n 2 < ack 1\n 3 > only 3", nil},
		{"a repetition is not a new request", "0 > only 1\n 2 < ack 1\n 3 > only 1\n 4 > only 2", nil},
		{"the second request after an ACK is not its consequence", "0 > only 1\n 2 < ack 1\n 3 > only 2\n 4 > only 3",
			trips{requester: {1000}}},
		{"the responder's requests are answered by the requester", "0 < only 1 ar\n 3 > ack 1\n 4 < only 2",
			trips{requester: {3000}, responder: {1000}}},
		{"repetitions do not lower what must be acknowledged",
			"0 > first 1\n 1 > last 2\n 2 > first 1\n 3 < ack 1\n 4 > only 3", nil},
	}
	for _, test := range tests {
		c := retrans.Calibrate(tracetest.Meta(tracetest.Connections(1, false)))
		records, err := tracetest.Parse(test.text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			c.Packet(&records[i])
		}
		var got trips
		for _, m := range c.Finish().Metrics {
			if m.Connection == 0 && m.Count > 0 {
				if got == nil {
					got = trips{}
				}
				got[m.Name] = m.Values
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: round trips (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestCalibrationTakesTheShortestOfAllConnections has the shorter round trips on the second one, and lists what was
// measured.
func TestCalibrationTakesTheShortestOfAllConnections(t *testing.T) {
	records, err := tracetest.Parse(`
		0 > only 1 ar
		2 < ack 1
		5 > only 2
		10 2> only 1 ar
		11 2< ack 1
		12.5 2> only 2`)
	if err != nil {
		t.Fatal(err)
	}
	c := retrans.Calibrate(tracetest.Meta(tracetest.Connections(3, false)))
	for i := range records {
		c.Packet(&records[i])
	}
	if diff := cmp.Diff(retrans.Sides{Requester: 1500, Responder: 1000}, c.HalfRTT()); diff != "" {
		t.Errorf("half RTT (-want +got):\n%s", diff)
	}
	type row struct {
		connection int
		count      int64
	}
	var got []row
	for _, m := range c.Finish().Metrics {
		got = append(got, row{m.Connection, m.Count})
	}
	if diff := cmp.Diff([]row{{0, 2}, {0, 2}, {1, 1}, {1, 1}, {2, 1}, {2, 1}}, got,
		cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if empty := retrans.Calibrate(tracetest.Meta(tracetest.Connections(1, false))).Finish().Metrics; len(empty) != 2 ||
		empty[0].Connection+empty[1].Connection != 0 {
		t.Errorf("metrics of no trace: %+v", empty)
	}
}
