package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

func TestPairsOfSoftRoCEShowTheDocumentedEventAndNothingElse(t *testing.T) {
	for _, tc := range rxeCaptures {
		base := filepath.Join("../packet/testdata/rxe", tc.name)
		checked, report, err := CheckPair(t.Context(), FileSource(base+".in.pcap"), FileSource(base+".out.pcap"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := []PairEvent{}
		if tc.event != EventNone {
			want = append(want, PairEvent{tc.frame, tc.event.String()})
		}
		if diff := cmp.Diff(want, report.Events); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
		if report.Sent != int64(tc.sent) || report.Passed != int64(tc.passed) || report.Missed != 0 ||
			report.MinTransitNS < -1000 {
			t.Errorf("%s: %+v", tc.name, report)
		}
		meta := checked.Meta()
		if meta.Kind != KindPair || meta.PacketIDs != PacketIDsFrame || !meta.EventsKnown || len(meta.Notes) != 3 ||
			meta.Packets != int64(tc.sent+tc.passed) {
			t.Errorf("%s: meta %+v", tc.name, meta)
		}
		checkPairRecords(t, tc.name, checked)
	}
}

// checkPairRecords checks what holds for the records of every pair without extra packets: order of time, one Sent
// record for each id, and then a Passed one.
func checkPairRecords(t *testing.T, name string, checked *Checked) {
	t.Helper()
	last := int64(0)
	passed, sent := make(map[uint64]bool), make(map[uint64]Record)
	err := checked.ForEach(t.Context(), func(r *Record) error {
		if r.TimeNS < last {
			return fmt.Errorf("%s: record %+v goes back in time", name, r)
		}
		last = r.TimeNS
		if r.Has(Sent) == r.Has(Passed) {
			return fmt.Errorf("%s: record %+v is not one of Sent and Passed", name, r)
		}
		if r.Has(Sent) {
			sent[r.ID] = *r
			return nil
		}
		s, ok := sent[r.ID]
		if !ok || passed[r.ID] || s.PSN != r.PSN || s.Event == EventDrop {
			return fmt.Errorf("%s: record %+v passed but was sent as %+v (%t)", name, r, s, ok)
		}
		passed[r.ID] = true
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// fataler is what *testing.T, *testing.B and *rapid.T have in common here.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// tapped is a packet on its way through an injector.
type tapped struct {
	at      int64 // ns at the first tap
	transit int64 // to the second
	event   EventType
	p       *packet.Packet
}

// capturePair writes what both taps see, the second in order of time.
func capturePair(tb fataler, packets []tapped) (before, after Source) {
	tb.Helper()
	var first, second []written
	for _, x := range packets {
		frame := x.p.AppendTo(nil)
		first = append(first, written{x.at, frame, len(frame)})
		out := bytes.Clone(frame)
		switch x.event {
		case EventDrop:
			continue
		case EventECN:
			setCE(out[packet.EthernetLen:])
			setTTL(out[packet.EthernetLen:], 64)
		case EventCorrupt:
			corrupt(out[packet.EthernetLen:], nil)
			setTTL(out[packet.EthernetLen:], 64)
		case EventTrim:
			out = out[:80]
		}
		w := written{x.at + x.transit, out, len(out)}
		i := len(second)
		for i > 0 && second[i-1].TimeNS > w.TimeNS {
			i--
		}
		second = append(second[:i], append([]written{w}, second[i:]...)...)
	}
	return memorySource("before.pcap", pcapOf(tb, first)), memorySource("after.pcap", pcapOf(tb, second))
}

func pcapOf(tb fataler, frames []written) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewPcapWriter(&b, "x", 0)
	for _, f := range frames {
		if err := w.Write(f.TimeNS, f.Data, f.Orig); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// data is a WRITE packet of 64 bytes, cnp a CNP the other way.
func data(psn int) *packet.Packet { return testPacket(packet.WriteMiddle, 17, packet.PSN(psn), 64) }

func cnp() *packet.Packet {
	p := testPacket(packet.CNP, 27, 0, packet.CNPPayloadLen)
	p.IP.Src, p.IP.Dst = p.IP.Dst, p.IP.Src
	return p
}

func TestPairEvents(t *testing.T) {
	steps := func(gap, transit int64, psns ...int) []tapped {
		var out []tapped
		for i, p := range psns {
			out = append(out, tapped{at: int64(i+1) * gap, transit: transit, p: data(p)})
		}
		return out
	}
	with := func(in []tapped, i int, event EventType) []tapped { in[i].event = event; return in }
	late := steps(1000, 100, 1, 2, 3, 4)
	late[1].transit = 5000
	cnps := []tapped{{1000, 10, EventNone, cnp()}, {2000, 10, EventDrop, cnp()}, {3000, 10, EventNone, cnp()},
		{4000, 10, EventNone, cnp()}}
	twice := steps(1000, 100, 1, 2, 3, 3, 4)
	for _, tc := range []struct {
		name    string
		packets []tapped
		want    []PairEvent
	}{
		{"nothing happens", steps(1000, 100, 1, 2, 3), []PairEvent{}},
		{"more is under way than the gap between packets", steps(10, 100, 1, 2, 3, 4, 5), []PairEvent{}},
		{"two equal packets are under way at once", steps(10, 100, 1, 2, 1, 2, 3), []PairEvent{}},
		{"first packet of all is dropped", with(steps(1000, 100, 1, 2, 3), 0, EventDrop), []PairEvent{{1, "drop"}}},
		{"a packet is dropped and its repetition passes", with(steps(1000, 100, 1, 2, 3, 2, 3), 1, EventDrop),
			[]PairEvent{{2, "drop"}}},
		{"the repetition is dropped and the original passed", with(steps(1000, 100, 1, 2, 3, 2, 3), 3, EventDrop),
			[]PairEvent{{4, "drop"}}},
		{"both are dropped", with(with(steps(1000, 100, 1, 2, 3, 2, 2), 1, EventDrop), 3, EventDrop),
			[]PairEvent{{2, "drop"}, {4, "drop"}}},
		{"the tail is dropped and repeated long after",
			with(append(steps(1000, 100, 1, 2, 3), tapped{67e6, 100, EventNone, data(3)}), 2, EventDrop),
			[]PairEvent{{3, "drop"}}},
		{"repeated at once, the first of the two dropped", with(twice, 2, EventDrop), []PairEvent{{3, "drop"}}},
		{"all but the last packet are dropped", with(with(steps(1000, 1, 1, 2, 3), 0, EventDrop), 1, EventDrop),
			[]PairEvent{{1, "drop"}, {2, "drop"}}},
		{"CE appears", with(steps(1000, 100, 1, 2, 3), 1, EventECN), []PairEvent{{2, "ecn"}}},
		{"iCRC breaks", with(steps(1000, 100, 1, 2, 3), 1, EventCorrupt), []PairEvent{{2, "corrupt"}}},
		{"the packet is cut", with(steps(1000, 100, 1, 2, 3), 1, EventTrim), []PairEvent{{2, "trim"}}},
		{"a packet is overtaken", late, []PairEvent{{2, "reorder"}}},
		{"one of several equal CNPs is dropped", cnps, []PairEvent{{2, "drop"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := capturePair(t, tc.packets)
			checked, report, err := CheckPair(t.Context(), before, after, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, report.Events); diff != "" || report.Missed != 0 {
				t.Errorf("%d extra; %s", report.Missed, diff)
			}
			checkPairRecords(t, tc.name, checked)
		})
	}
}

func TestAnyLossBetweenTwoTapsIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var packets []tapped
		var want []PairEvent
		at, psn, free := int64(0), 0, int64(0)
		for i := range rapid.IntRange(1, 60).Draw(t, "n") {
			// Equal packets are never in the injector at the same time: they could not be distinguished.
			gap := rapid.Int64Range(1, 400).Draw(t, "gap")
			if rapid.IntRange(0, 5).Draw(t, "repeat") == 0 {
				// or it could be a second copy of the same frame
				psn, gap = rapid.IntRange(0, psn).Draw(t, "psn"), twinWindowNS+3000
			}
			at += gap
			x := tapped{at: at, p: data(psn)}
			free = max(free, at) + rapid.Int64Range(0, 30).Draw(t, "service") // FIFO
			x.transit = free - at
			x.event = rapid.SampledFrom([]EventType{EventNone, EventNone, EventNone, EventDrop, EventECN, EventCorrupt}).Draw(t,
				"event")
			if x.event != EventNone {
				want = append(want, PairEvent{uint64(i + 1), x.event.String()})
			}
			packets = append(packets, x)
			psn++
		}
		before, after := capturePair(t, packets)
		_, report, err := CheckPair(context.Background(), before, after,
			Options{SameClock: true, Placement: PlacementBracket})
		if len(want) == len(packets) && errors.Is(err, ErrNothingToAnalyse) &&
			!slices.ContainsFunc(want, func(e PairEvent) bool { return e.Event != "drop" }) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 {
			want = []PairEvent{}
		}
		if diff := cmp.Diff(want, report.Events); diff != "" || report.Missed != 0 {
			t.Errorf("%d extra; %s", report.Missed, diff)
		}
	})
}

func TestLongOutageKeepsMemoryBounded(t *testing.T) {
	var packets []tapped
	for i := range 3 * lookahead {
		x := tapped{at: int64(i) * 100, transit: 10, p: data(i), event: EventDrop}
		if i == 0 || i == 3*lookahead-1 {
			x.event = EventNone
		}
		packets = append(packets, x)
	}
	before, after := capturePair(t, packets)
	_, report, err := CheckPair(t.Context(), before, after, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Dropped != 3*lookahead-2 || report.Passed != 2 || report.Missed != 0 || len(report.Events) != listLimit {
		t.Errorf("dropped %d, passed %d, extra %d", report.Dropped, report.Passed, report.Missed)
	}
}

func TestSecondCaptureWithPacketsOfItsOwn(t *testing.T) {
	before, _ := capturePair(t, []tapped{{1000, 10, EventNone, data(1)}, {3000, 10, EventNone, data(3)}})
	_, after := capturePair(t, []tapped{{1000, 10, EventNone, data(1)}, {2000, 10, EventNone, data(2)},
		{3000, 10, EventNone, data(3)}})
	checked, report, err := CheckPair(t.Context(), before, after, Options{})
	if err != nil || report.Missed != 1 || len(report.Events) != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	var ids []uint64
	if err := checked.ForEach(t.Context(), func(r *Record) error { ids = append(ids, r.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint64{1, 1, PairSecond + 2, PairSecond + 2, 2, 2}, ids); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkPair(b *testing.B) {
	const n = 20_000
	var packets []tapped
	for i := range n {
		x := tapped{at: int64(i) * 100, transit: 1000, p: data(i)}
		if i%1000 == 999 {
			x.event = EventDrop
		}
		packets = append(packets, x)
	}
	before, after := capturePair(b, packets)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := CheckPair(context.Background(), before, after, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	perPacket(b, n)
}

func TestAPacketPassesBeforeWhatIsSentLaterInTheSameTick(t *testing.T) {
	before, after := capturePair(t, []tapped{{1000, 0, EventNone, data(1)}, {1000, 0, EventNone, data(2)}})
	checked, _, err := CheckPair(t.Context(), before, after, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = checked.ForEach(t.Context(), func(r *Record) error {
		got = append(got, fmt.Sprintf("%d sent %t", r.ID, r.Has(Sent)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 sent true", "1 sent false", "2 sent true", "2 sent false"}, got); diff != "" {
		t.Error(diff)
	}
}
