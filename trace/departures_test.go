package trace_test

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// sequence prints what receivers and senders did: id, s for sent, p for passed, time, and the PSN if it is not the id.
func sequence(t *testing.T, c *trace.Checked) string {
	t.Helper()
	var words []string
	err := c.ForEach(t.Context(), func(r *trace.Record) error {
		word := fmt.Sprint(r.ID)
		if r.Has(trace.Sent) {
			word += "s"
		}
		if r.Has(trace.Passed) && r.Delivered() {
			word += "p"
		} else if !r.Has(trace.Sent) {
			word += "lost"
		}
		if uint64(r.PSN) != r.ID {
			word += fmt.Sprintf("(psn %d)", uint32(r.PSN))
		}
		words = append(words, fmt.Sprintf("%s@%d", word, r.TimeNS))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(words, " ")
}

func TestDeparturesShowWhatReceiversSawWhen(t *testing.T) {
	on := func(event trace.EventType, d trace.Departure) []trace.Departure {
		d.Event, d.PSN, d.HasPSN = event, 2, true
		return []trace.Departure{d}
	}
	for _, tt := range []struct {
		name       string
		event      trace.EventType // of packet 2
		departures []trace.Departure
		want       string
	}{
		{"nothing is known", trace.EventDelay, nil, "1sp@100 2sp@200 3sp@300 4sp@400"},
		{"delayed between two others", trace.EventDelay, on(trace.EventDelay, trace.Departure{DelayNS: 150}),
			"1sp@100 2s@200 3sp@300 2p@350 4sp@400"},
		{"due in the nanosecond of an arrival, it left before", trace.EventDelay,
			on(trace.EventDelay, trace.Departure{DelayNS: 100}),
			"1sp@100 2s@200 2p@300 3sp@300 4sp@400"},
		{"delayed past the end", trace.EventDelay, on(trace.EventDelay, trace.Departure{DelayNS: 1000}),
			"1sp@100 2s@200 3sp@300 4sp@400 2p@1200"},
		{"overtaken by one", trace.EventReorder, on(trace.EventReorder, trace.Departure{Behind: 1, LimitNS: 1000}),
			"1sp@100 2s@200 3sp@300 2p@300 4sp@400"},
		{"overtaken by two", trace.EventReorder, on(trace.EventReorder, trace.Departure{Behind: 2, LimitNS: 1000}),
			"1sp@100 2s@200 3sp@300 4sp@400 2p@400"},
		{"overtaken by fewer than asked", trace.EventReorder,
			on(trace.EventReorder, trace.Departure{Behind: 9, LimitNS: 150}),
			"1sp@100 2s@200 3sp@300 2p@350 4sp@400"},
		{"two copies more", trace.EventDuplicate, on(trace.EventDuplicate, trace.Departure{Copies: 2}),
			"1sp@100 2s@200 2p@200 2p@200 2p@200 3sp@300 4sp@400"},
		{"another PSN", trace.EventRewrite, on(trace.EventRewrite, trace.Departure{Field: packet.RewritePSN, Value: 9}),
			"1sp@100 2s@200 2p(psn 9)@200 3sp@300 4sp@400"},
		{"another PSN, after a rewrite of what the packet lacks", trace.EventRewrite, append(
			on(trace.EventRewrite, trace.Departure{Nth: 1, Field: packet.RewriteRKey, Value: 5}),
			on(trace.EventRewrite, trace.Departure{Nth: 2, Field: packet.RewritePSN, Value: 9})...),
			"1sp@100 2s@200 2p(psn 9)@200 3sp@300 4sp@400"},
		{"a partition that is not the sender's", trace.EventRewrite,
			on(trace.EventRewrite, trace.Departure{Field: packet.RewritePKey, Value: 0x8001}),
			"1sp@100 2s@200 2lost@200 3sp@300 4sp@400"},
		{"the sender's partition as a limited member", trace.EventRewrite,
			on(trace.EventRewrite, trace.Departure{Field: packet.RewritePKey, Value: 0x7fff}),
			"1sp@100 2s@200 2p@200 3sp@300 4sp@400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var records []trace.Record
			for i := range 4 {
				r := trace.Record{ID: uint64(i + 1), PSN: packet.PSN(i + 1), TimeNS: int64(100 * (i + 1)),
					Opcode: packet.WriteMiddle, Flags: trace.Sent | trace.Passed}
				if i == 1 {
					r.Event = tt.event
				}
				records = append(records, r)
			}
			c := trace.CheckedRecords(trace.Meta{}, records).WithDepartures(tt.departures)
			for range 2 { // every pass sees the same
				if got := sequence(t, c); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

func TestDeparturesOfOnePacketComeInTheOrderOfItsTransmissions(t *testing.T) {
	departures := []trace.Departure{
		{Event: trace.EventDelay, PSN: 1, HasPSN: true, Nth: 2, DelayNS: 5},
		{Event: trace.EventDelay, PSN: 1, HasPSN: true, Nth: 1, DelayNS: 3},
	}
	var records []trace.Record
	for i := range 3 {
		records = append(records, trace.Record{
			ID: 1, PSN: 1, TimeNS: int64(100 * (i + 1)), Opcode: packet.WriteMiddle, Flags: trace.Sent | trace.Passed,
			Event: trace.EventDelay,
		})
	}
	const want = "1s@100 1p@103 1s@200 1p@205 1s@300 1p@305"
	if got := sequence(t, trace.CheckedRecords(trace.Meta{}, records).WithDepartures(departures)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
