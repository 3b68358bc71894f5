package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/packet"
)

// TestADriftIsThatOfTheFramesThatHugIt has frames that passed one tap first, most of them at the start.
func TestADriftIsThatOfTheFramesThatHugIt(t *testing.T) {
	const span = 10_000_000_000
	var c clockBounds
	for i := range int64(100) {
		c.lower(i, i) // at the start, without a difference
	}
	c.lower(span+500_000, span) // 50 ppm later
	c.lower(2*span, 2*span)     // a slow frame
	e, err := c.estimate(true)
	if err != nil || e.report.DriftPPB < 45_000 || e.report.DriftPPB > 55_000 || e.report.UncertaintyNS != -1 {
		t.Errorf("%v: %+v, want a drift of 50 ppm", err, e.report)
	}
	if e.report.ReferenceNS != span {
		t.Errorf("reference %d, want %d, the middle", e.report.ReferenceNS, span)
	}
}

// TestAFewContradictionsOfEitherSideAreDiscarded has one bound that contradicts all others.
func TestAFewContradictionsOfEitherSideAreDiscarded(t *testing.T) {
	for _, upper := range []bool{false, true} {
		var c clockBounds
		for i := range int64(200) {
			c.lower(i*1000, i*1000+700)
			c.upper(i*1000+5000, i*1000)
		}
		if upper {
			c.upper(1000, 90_000)
		} else {
			c.lower(90_000, 1000)
		}
		e, err := c.estimate(true)
		if err != nil || e.report.Discarded != 1 || e.report.OffsetNS != -700 || e.report.Matched != 401 {
			t.Errorf("upper %t: %v, %+v", upper, err, e)
		}
	}
}

// glimpses makes a survey of one way by hand from what each capture shows, by content.
func glimpses(first, second map[uint64]glimpse) *survey {
	s := newSurvey()
	s.way(flowKey{a: 1})
	for i, list := range [2]map[uint64]glimpse{first, second} {
		for key, g := range list {
			if g.copies == 0 {
				g.copies = 1
			}
			g.lastNS = max(g.lastNS, g.timeNS)
			s.taps[i].seen[key] = &g
		}
	}
	return s
}

// TestFramesOfOneCaptureOnlyAreCountedBetweenThoseOfBoth counts by hand, at the ends of what both captures show.
func TestFramesOfOneCaptureOnlyAreCountedBetweenThoseOfBoth(t *testing.T) {
	at := func(ns int64) glimpse { return glimpse{timeNS: ns} }
	both := map[uint64]glimpse{1: at(1000), 2: at(9000)}
	with := func(key uint64, g glimpse) map[uint64]glimpse {
		return map[uint64]glimpse{1: both[1], 2: both[2], key: g}
	}
	twice := glimpse{timeNS: 2000, lastNS: 3000, copies: 2}
	acked := uint64(7)<<8 | placeRequest
	type row struct {
		first, second map[uint64]glimpse
		want          wayEvidence
		missed        [2]float64
	}
	none := [2]float64{}
	data := func(place uint64) glimpse { return glimpse{timeNS: 2000, data: true, place: place} }
	ttl := func(n uint8) glimpse { return glimpse{timeNS: 2000, ttl: n} }
	marked := glimpse{timeNS: 2000, marked: true}
	for name, tc := range map[string]row{
		"before what both show":      {with(3, at(1000)), both, wayEvidence{matched: 2}, none},
		"after it":                   {with(3, at(9000)), both, wayEvidence{matched: 2}, none},
		"just within":                {with(3, at(1001)), both, wayEvidence{matched: 2, alone: [2]int{1, 0}}, none},
		"just within, in the second": {both, with(3, at(8999)), wayEvidence{matched: 2, alone: [2]int{0, 1}}, none},
		"repeated in both":           {with(3, twice), with(3, twice), wayEvidence{matched: 3, repeated: 1}, none},
		"repeated in the first": {
			with(3, twice), with(3, at(2000)), wayEvidence{matched: 2, repeated: 1, lostFirst: 1}, none,
		},
		"repeated in the second": {
			with(3, at(2000)), with(3, twice), wayEvidence{matched: 2, repeated: 1, lostSecond: 1}, none,
		},
		"an acknowledged request":            {with(3, data(acked)), both, wayEvidence{matched: 2}, [2]float64{0, 1}},
		"a request that nobody acknowledged": {with(3, data(acked+1<<8)), both, wayEvidence{matched: 2}, none},
		"a READ response": {
			both, with(3, data(acked-placeRequest+placeAnswer+9<<8)), wayEvidence{matched: 2}, [2]float64{1, 0},
		},
		"a lower TTL":  {with(3, ttl(64)), with(3, ttl(63)), wayEvidence{matched: 3, hopsFirst: 1}, none},
		"a higher TTL": {with(3, ttl(63)), with(3, ttl(64)), wayEvidence{matched: 3, hopsSecond: 1}, none},
		"a CE mark":    {with(3, at(2000)), with(3, marked), wayEvidence{matched: 3, marksFirst: 1}, none},
	} {
		s := glimpses(tc.first, tc.second)
		s.acked[0] = 7
		list, missed := s.evidence()
		if list[0] != tc.want || missed != tc.missed {
			t.Errorf("%s:\n got %+v, missed %v\nwant %+v, missed %v", name, list[0], missed, tc.want, tc.missed)
		}
		if complete := s.complete(); complete != (tc.missed == [2]float64{}) {
			t.Errorf("%s: complete %t", name, complete)
		}
	}
	first := map[uint64]glimpse{1: at(1000), 2: at(9000), 3: twice, 4: at(4000)}
	second := map[uint64]glimpse{1: at(1000), 2: at(9000), 3: at(2000), 4: {timeNS: 4000, lastNS: 5000, copies: 2}}
	if lostEachWay := glimpses(first, second); lostEachWay.complete() {
		t.Error("either capture shows a packet more often than the other: a tap missed a frame")
	}
}

// TestTheSecondCaptureIsUpstreamIfNoDirectionPassesTheFirstBefore names what shows it.
func TestTheSecondCaptureIsUpstreamIfNoDirectionPassesTheFirstBefore(t *testing.T) {
	second := WayReport{Reason: "the TTL decreases", certain: true}
	first := WayReport{FirstUpstream: true, Reason: "CE marks appear", certain: true}
	assumed := WayReport{Reason: "taken for granted"}
	for _, tc := range []struct {
		places []WayReport
		want   string
	}{
		{[]WayReport{second, second}, "the TTL decreases"}, {[]WayReport{second, assumed}, "the TTL decreases"},
		{[]WayReport{assumed}, ""}, {[]WayReport{first, second}, ""}, {[]WayReport{second, first}, ""}, {nil, ""},
	} {
		if got := swapped(tc.places); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.places, got, tc.want)
		}
	}
}

// TestPairsGivenInTheWrongOrderAreNotJudged swaps the captures that are named as before and after.
func TestPairsGivenInTheWrongOrderAreNotJudged(t *testing.T) {
	var packets []tapped
	for i := range 40 {
		x := tapped{at: int64(i+1) * 10_000, transit: 500, p: data(i), event: EventNone}
		if i%8 == 3 {
			x.event = EventECN
		}
		packets = append(packets, x)
	}
	before, after := capturePair(t, packets)
	if _, _, err := CheckPair(t.Context(), before, after, Options{Ordered: true}); err != nil {
		t.Fatal(err)
	}
	var unjudged *UnjudgedError
	_, _, err := CheckPair(t.Context(), after, before, Options{Ordered: true})
	if !errors.As(err, &unjudged) || !strings.Contains(err.Error(), "CE marks appear") {
		t.Errorf("%v", err)
	}
}

// TestAPacketThatTheUpstreamTapMissedIsSentInItsPlace has two flows; the upstream tap lacks a packet of one. It was
// sent before the packet that passed after it.
func TestAPacketThatTheUpstreamTapMissedIsSentInItsPlace(t *testing.T) {
	other := func(i int) *packet.Packet { p := data(i); p.BTH.DestQP = 18; return p }
	all := []tapped{
		{1000, 500, EventNone, data(1)}, {1100, 500, EventNone, other(7)}, {1200, 500, EventNone, data(2)},
		{1300, 500, EventDrop, data(3)}, {1400, 500, EventNone, data(4)}, {1500, 500, EventNone, other(8)},
	}
	_, after := capturePair(t, all)
	for _, missing := range []int{1, 2, 4} {
		before, _ := capturePair(t, slices.Delete(slices.Clone(all), missing, missing+1))
		checked, report, err := CheckPair(t.Context(), before, after, Options{SameClock: true, Placement: PlacementBracket})
		if err != nil || report.Missed != 1 {
			t.Fatalf("without packet %d: %+v, %v", missing, report, err)
		}
		sent := map[uint32][]uint32{}
		err = checked.ForEach(t.Context(), func(r *Record) error {
			if r.Has(Sent) {
				sent[uint32(r.DestQP)] = append(sent[uint32(r.DestQP)], uint32(r.PSN))
			}
			return nil
		})
		if got := fmt.Sprint(sent); err != nil || got != "map[17:[1 2 3 4] 18:[7 8]]" {
			t.Errorf("without packet %d: sent %s by queue pair, want each flow in order; %v", missing, got, err)
		}
	}
}

// TestErrorsOfACallerEndEveryPass covers the passes of a mirror trace, of a capture, of a pair and of records.
func TestErrorsOfACallerEndEveryPass(t *testing.T) {
	packets := []tapped{{1000, 500, EventNone, data(1)}, {2000, 500, EventNone, data(2)}, {3000, 500, EventNone, data(3)}}
	before, after := capturePair(t, packets)
	pair, _, err := CheckPair(t.Context(), before, after, Options{})
	if err != nil {
		t.Fatal(err)
	}
	plain, _, err := Check(t.Context(), before, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mirror, _, err := checkMirror(t, counted(5, 1, 0), Counters{})
	if err != nil {
		t.Fatal(err)
	}
	memory := CheckedRecords(Meta{}, []Record{{ID: 1}, {ID: 2}, {ID: 3}})
	for name, c := range map[string]*Checked{"pair": pair, "plain": plain, "mirror": mirror, "records": memory} {
		if err := c.ForEach(t.Context(), func(*Record) error { return errStop }); !errors.Is(err, errStop) {
			t.Errorf("%s, records: %v", name, err)
		}
		buffer := func() []Record { return make([]Record, 2) }
		if err := c.ForEachBatch(t.Context(), buffer, func([]Record) error { return errStop }); !errors.Is(err, errStop) {
			t.Errorf("%s, batches: %v", name, err)
		}
		if c.payloads != nil {
			var list []Sighting
			if err := c.ForEach(t.Context(), func(r *Record) error {
				list = append(list, Sighting{r.Flow, r.PSN, r.TimeNS})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			err := c.payloads(t.Context(), newWantedPackets(list), func(*Record) error { return errStop })
			if !errors.Is(err, errStop) {
				t.Errorf("%s, payloads: %v", name, err)
			}
		}
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errStop)
	if err := pair.ForEach(ended, func(*Record) error { return nil }); !errors.Is(err, errStop) {
		t.Errorf("a pair in a context that has ended: %v", err)
	}
	if err := newSurvey().read(ended, 0, nil); !errors.Is(err, errStop) {
		t.Errorf("a survey in a context that has ended: %v", err)
	}
}

// TestBatchesHoldWhatRecordsDo has batches that do not divide the number of records, and none.
func TestBatchesHoldWhatRecordsDo(t *testing.T) {
	for n := range 8 {
		var list, got []Record
		for i := range n {
			list = append(list, Record{ID: uint64(i + 1)})
		}
		c := CheckedRecords(Meta{}, list)
		batches := 0
		err := c.ForEachBatch(t.Context(), func() []Record { return make([]Record, 3) }, func(b []Record) error {
			batches++
			if len(b) == 0 {
				t.Errorf("%d records: an empty batch", n)
			}
			got = append(got, b...)
			return nil
		})
		if err != nil || !slices.Equal(got, list) || batches != (n+2)/3 {
			t.Errorf("%d records: %d in %d batches, %v", n, len(got), batches, err)
		}
	}
}

// TestCapturesAreClosed counts what passes over a pair open.
func TestCapturesAreClosed(t *testing.T) {
	before, after := capturePair(t, []tapped{{1000, 500, EventNone, data(1)}, {2000, 500, EventNone, data(2)}})
	open := 0
	counting := func(src Source) Source {
		inner := src.Open
		src.Open = func() (io.ReadCloser, error) {
			f, err := inner()
			open++
			return &countedFile{f, &open}, err
		}
		return src
	}
	checked, _, err := CheckPair(t.Context(), counting(before), counting(after), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, stop := range []error{nil, errStop} {
		if err := checked.ForEach(t.Context(), func(*Record) error { return stop }); !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
	if open != 0 {
		t.Errorf("%d captures are still open", open)
	}
}

type countedFile struct {
	io.ReadCloser
	open *int
}

func (f *countedFile) Close() error {
	*f.open--
	return f.ReadCloser.Close()
}

// TestATruncatedCaptureOfAPairIsKeptIfAsked cuts the last frame off the first capture.
func TestATruncatedCaptureOfAPairIsKeptIfAsked(t *testing.T) {
	var packets []tapped
	for i := range 20 {
		packets = append(packets, tapped{at: int64(i+1) * 1000, transit: 500, p: data(i)})
	}
	before, after := capturePair(t, packets)
	file, err := before.Open()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	cut := memorySource("before.pcap", whole[:len(whole)-7])
	if _, _, err := CheckPair(t.Context(), cut, after, Options{}); !errors.Is(err, ErrTruncatedFile) {
		t.Errorf("not asked: %v", err)
	}
	checked, _, err := CheckPair(t.Context(), cut, after, Options{KeepTruncated: true})
	if err != nil || !strings.Contains(strings.Join(checked.Meta().Notes, "\n"), "before.pcap: packet 20") {
		t.Fatalf("%v", err)
	}
}

// TestAHostileCaptureIsBounded has more flows, and more messages of the connection manager, than anybody follows.
func TestAHostileCaptureIsBounded(t *testing.T) {
	inf := NewInference()
	for i := range maxHalves {
		if n := inf.find(flowKey{a: uint64(i)}); n != i || inf.tooMany {
			t.Fatalf("flow %d has number %d, too many: %t", i, n, inf.tooMany)
		}
	}
	if n := inf.find(flowKey{a: maxHalves}); n >= 0 || !inf.tooMany {
		t.Errorf("one flow too many has number %d", n)
	}
	if n := inf.find(flowKey{a: 5}); n != 5 {
		t.Errorf("a known flow has number %d", n)
	}
	var e exchanges
	for i := range uint32(maxExchanges) {
		e.add(flowKey{a: 1}, &packet.CM{Attribute: packet.CMConnectRequest, LocalID: i})
	}
	if e.tooMany || len(e.pending) != maxExchanges {
		t.Errorf("%d exchanges, too many: %t", len(e.pending), e.tooMany)
	}
	e.add(flowKey{a: 1}, &packet.CM{Attribute: packet.CMConnectRequest, LocalID: maxExchanges})
	if !e.tooMany || len(e.pending) != maxExchanges {
		t.Errorf("one more: %d exchanges, too many: %t", len(e.pending), e.tooMany)
	}
}

// TestPacketsOfAnotherLengthThanTheMTUAreCounted has full packets of three lengths.
func TestPacketsOfAnotherLengthThanTheMTUAreCounted(t *testing.T) {
	for given, want := range map[int]string{
		0:    "MTU 1024, but 3 FIRST or MIDDLE packets have another length",
		1024: "MTU 1024 is given, but 3 FIRST or MIDDLE packets have another length",
		2048: "MTU 2048 is given, but 6 FIRST or MIDDLE packets have another length",
	} {
		w := newWire()
		w.inf.MTU = given
		for i, size := range []int{512, 1024, 1024, 1024, 1024, 2048, 100} {
			op := packet.WriteMiddle
			if i == 0 {
				op = packet.WriteFirst
			}
			w.pkt(false, 17, op, packet.PSN(i), size)
		}
		w.pkt(true, 18, packet.Acknowledge, 6, 0)
		if _, notes := w.result(t); !strings.Contains(notes, want) {
			t.Errorf("given %d: notes %q, want %q", given, notes, want)
		}
	}
}

// TestSettingsOfADocumentHaveRanges reads the largest value of each, and one more. Problems name their place.
func TestSettingsOfADocumentHaveRanges(t *testing.T) {
	doc := func(setting string, value int) string {
		return fmt.Sprintf(`{"schema":"candela.connections/v1","connections":[
{"index":1,"mtu":1024,%q:%d,"requester":{"ip":"10.0.0.1","qpn":17,"ipsn":1},
"responder":{"ip":"10.0.0.2","qpn":18,"ipsn":1}}]}`, setting, value)
	}
	for setting, most := range map[string]int{
		"timeout": 31, "retry": 7, "rnr_retry": 7, "dscp": 63, "cnp_dscp": 63, "ecn": 2, "mig_req": 1,
	} {
		if _, err := ReadConnections(strings.NewReader(doc(setting, most))); err != nil {
			t.Errorf("%s %d: %v", setting, most, err)
		}
		want := fmt.Sprintf("2:%d: connections[0].%s: %d is not a whole number from 0 to %d",
			26+len(setting), setting, most+1, most)
		if _, err := ReadConnections(strings.NewReader(doc(setting, most+1))); err == nil || err.Error() != want {
			t.Errorf("%s %d: %v, want %s", setting, most+1, err, want)
		}
	}
	_, err := ReadConnections(strings.NewReader(strings.Replace(doc("retry", 7), "1024", "1000", 1)))
	if err == nil || !strings.HasPrefix(err.Error(), "2:1: connections[0].mtu: 1000 is not a path MTU") {
		t.Errorf("%v", err)
	}
}

// TestAFullDiskEndsAConversion has room for some packets only.
func TestAFullDiskEndsAConversion(t *testing.T) {
	list := make([]copyOf, 3000)
	for i := range list {
		list[i] = copyOf{seq: uint64(i + 1), ns: int64(i) * 100, p: testPacket(packet.WriteMiddle, 17, packet.PSN(i), 512)}
	}
	src := memorySource("mirror.pcap", mirrorFile(t, list))
	n, err := ToPlain(t.Context(), src, FormatMirror, ViewBefore, &fullDisk{room: 300 << 10}, "plain.pcap")
	if !errors.Is(err, errDiskFull) || n >= int64(len(list)) {
		t.Errorf("%d packets, %v", n, err)
	}
}

// TestTheRoomOfAClockIsBetweenItsBounds has bounds on both sides, and on one.
func TestTheRoomOfAClockIsBetweenItsBounds(t *testing.T) {
	l := &lines{below: []point{{0, -3}, {10, -5}}, above: []point{{0, 4}, {10, 2}}}
	if lo, hi := l.offsets(0); lo != -3 || hi != 2 {
		t.Errorf("from %v to %v", lo, hi)
	}
	if lo, hi := l.offsets(0.1); lo != -3 || hi != 1 {
		t.Errorf("from %v to %v with a drift", lo, hi)
	}
	if lo, hi := (&lines{below: l.below}).offsets(0); lo != -3 || !math.IsInf(hi, 1) {
		t.Errorf("from %v to %v without upper bounds", lo, hi)
	}
	address := netip.MustParseAddr("10.0.0.9")
	if (&tapView{connections: &Connections{}}).isRequester(address) {
		t.Error("a host of no connection is a requester")
	}
}

// TestAnAnswerInTheSecondCaptureShowsTheOtherDirection has captures of two hosts, whose only ACK is lost on its way to
// the requester.
func TestAnAnswerInTheSecondCaptureShowsTheOtherDirection(t *testing.T) {
	var first, second []written
	for i := range 10 {
		p := data(i)
		p.BTH.AckReq = i == 9
		f := p.AppendTo(nil)
		at := int64(i+1) * 10_000
		first, second = append(first, written{at, f, len(f)}), append(second, written{at + 500, f, len(f)})
	}
	ack := testPacket(packet.Acknowledge, 27, 9, 0)
	ack.IP.Src, ack.IP.Dst = ack.IP.Dst, ack.IP.Src
	b := ack.AppendTo(nil)
	second = append(second, written{110_000, b, len(b)})
	checked, _, err := CheckPair(t.Context(), memorySource("a.pcap", pcapOf(t, first)),
		memorySource("b.pcap", pcapOf(t, second)),
		Options{Placement: PlacementHosts, SameClock: true})
	if err != nil {
		t.Fatal(err)
	}
	meta := checked.Meta()
	if c := meta.Connections.All(); len(c) != 1 || c[0].Requester.QPN != 27 || c[0].Responder.QPN != 17 ||
		!meta.Connections.Inferred {
		t.Errorf("%+v", c)
	}
	if notes := strings.Join(meta.Notes, "\n"); strings.Contains(notes, "only one direction") {
		t.Errorf("notes %q", notes)
	}
	answers := 0
	err = checked.ForEach(t.Context(), func(r *Record) error {
		if r.Opcode == packet.Acknowledge && r.Has(Sent) && r.Flow == 1 && r.Event == EventDrop {
			answers++
		}
		return nil
	})
	if err != nil || answers != 1 {
		t.Errorf("%d answers that were sent and lost, %v", answers, err)
	}
}
