package trace

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/packet"
)

func TestNamesOfKindsAndEvents(t *testing.T) {
	for kind, want := range map[Kind]string{KindMirror: "mirror", KindPlain: "plain", KindPair: "pair", 0: "unknown",
		9: "unknown"} {
		if kind.String() != want {
			t.Errorf("kind %d is %q, want %q", kind, kind, want)
		}
	}
	for e := EventNone; e <= MaxEventType; e++ {
		if got, ok := ParseEventType(e.String()); ok != (e != EventNone) || ok && got != e {
			t.Errorf("%v is read back as %v, %t", e, got, ok)
		}
	}
	for _, name := range []string{"", "none", "no such event", "event(99)"} {
		if got, ok := ParseEventType(name); ok || got != EventNone {
			t.Errorf("%q is read as %v", name, got)
		}
	}
	if s := (MaxEventType + 1).String(); s != fmt.Sprintf("event(%d)", MaxEventType+1) {
		t.Errorf("an event beyond the last is %q", s)
	}
	for flow, connection := range map[FlowID]int{NoFlow: 0, -7: 0, 0: 1, 1: 1, 2: 2, 3: 2} {
		if flow.Connection() != connection {
			t.Errorf("flow %d is of connection %d, want %d", flow, flow.Connection(), connection)
		}
	}
}

// TestRecordsInMemoryCompleteTheirMeta leaves each field out, or gives it.
func TestRecordsInMemoryCompleteTheirMeta(t *testing.T) {
	list := []Record{{TimeNS: 50}, {TimeNS: 20}, {TimeNS: 70}}
	for _, tc := range []struct {
		in, want Meta
	}{
		{Meta{}, Meta{Kind: KindMirror, PacketIDs: PacketIDsMirror, EventsKnown: true}},
		{Meta{Kind: KindPlain}, Meta{Kind: KindPlain, PacketIDs: PacketIDsFrame}},
		{Meta{Kind: KindPlain, EventsKnown: true}, Meta{Kind: KindPlain, PacketIDs: PacketIDsFrame, EventsKnown: true}},
		{Meta{Kind: KindPair}, Meta{Kind: KindPair, PacketIDs: PacketIDsFrame, EventsKnown: true}},
		{Meta{Kind: KindMirror, PacketIDs: PacketIDsFrame},
			Meta{Kind: KindMirror, PacketIDs: PacketIDsFrame, EventsKnown: true}},
	} {
		tc.want.Packets, tc.want.StartNS, tc.want.EndNS = 3, 20, 70
		c := CheckedRecords(tc.in, list)
		if diff := cmp.Diff(tc.want, c.Meta()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.in, diff)
		}
		var times []int64
		stop := errors.New("stop")
		err := c.ForEach(t.Context(), func(r *Record) error {
			times = append(times, r.TimeNS)
			r.TimeNS = 0 // is not seen by the next pass
			if len(times) == 5 {
				return stop
			}
			return nil
		})
		if second := c.ForEach(t.Context(), func(r *Record) error {
			times = append(times, r.TimeNS)
			if len(times) == 5 {
				return stop
			}
			return nil
		}); err != nil || !errors.Is(second, stop) || !slices.Equal(times, []int64{50, 20, 70, 50, 20}) {
			t.Errorf("times %v, %v, %v", times, err, second)
		}
	}
}

// TestOnlyTracesThatMayMissFramesHaveAReadingWithUnseenOnes has every kind of trace.
func TestOnlyTracesThatMayMissFramesHaveAReadingWithUnseenOnes(t *testing.T) {
	list := []Record{
		{ID: 1, Flags: Sent, Event: EventDrop}, {ID: 2, Flags: Sent}, {ID: 2, Flags: Passed},
		{ID: 3, Flags: Sent | Passed | AckReq, Event: EventECN},
	}
	for _, tc := range []struct {
		meta Meta
		want string
	}{
		{Meta{Kind: KindMirror}, "none"},
		{Meta{Kind: KindPlain, Complete: true}, "none"},
		{Meta{Kind: KindPair, Complete: true}, "none"},
		{Meta{Kind: KindPlain, MayMiss: true}, "none"},
		{Meta{Kind: KindPlain}, "plain: 1 s drop, 2 s none, 2 p none, 3 sp ecn"},
		{Meta{Kind: KindPair}, "plain: 1 sp none, 2 sp none, 3 sp none"},
	} {
		c := CheckedRecords(tc.meta, list)
		got := "none"
		if other, ok := c.WithUnseenFrames(); ok {
			var words []string
			err := other.ForEach(t.Context(), func(r *Record) error {
				word := fmt.Sprint(r.ID, " ")
				if r.Has(Sent) {
					word += "s"
				}
				if r.Has(Passed) {
					word += "p"
				}
				words = append(words, word+" "+r.Event.String())
				return nil
			})
			meta := other.Meta()
			if err != nil || !meta.MayMiss || meta.EventsKnown != (tc.meta.Kind == KindPlain && c.Meta().EventsKnown) {
				t.Errorf("%+v: meta %+v, %v", tc.meta, meta, err)
			}
			got = meta.Kind.String() + ": " + strings.Join(words, ", ")
		}
		if got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.meta, got, tc.want)
		}
	}
}

// TestRewritesShowInEveryFieldOfARecord rewrites each field of a READ request, a response and an atomic, and compares
// whole records.
func TestRewritesShowInEveryFieldOfARecord(t *testing.T) {
	base := func(op packet.Opcode) Record {
		return Record{
			Opcode: op, Flow: 2, DestQP: 0x11, PSN: 5, PKey: 0xffff, DSCP: 26, ECN: packet.ECT0, DMALen: 4096, RKey: 7, MSN: 3,
			Syndrome: packet.SyndromeAckNoCredit, Flags: Sent | Passed,
		}
	}
	for _, tc := range []struct {
		field  packet.RewriteField
		value  uint64
		op     packet.Opcode // that has the field
		lacks  packet.Opcode // that has not; 0 (SEND first) has only what all have
		change func(r *Record)
	}{
		{packet.RewriteDSCP, 9, packet.ReadRequest, packet.ReadRequest, func(r *Record) { r.DSCP = 9 }},
		{packet.RewriteECN, 3, packet.ReadRequest, packet.ReadRequest, func(r *Record) { r.ECN = packet.CE }},
		{packet.RewriteDestQP, 0x12, packet.ReadRequest, packet.ReadRequest,
			func(r *Record) { r.DestQP, r.Flow = 0x12, NoFlow }},
		{packet.RewriteDestQP, 0x11, packet.ReadRequest, packet.ReadRequest, func(*Record) {}},
		{packet.RewriteAckReq, 1, packet.ReadRequest, packet.ReadRequest, func(r *Record) { r.Flags |= AckReq }},
		{packet.RewriteAckReq, 0, packet.ReadRequest, packet.ReadRequest, func(*Record) {}},
		{packet.RewriteSolicited, 1, packet.SendOnly, packet.SendOnly, func(r *Record) { r.Flags |= Solicited }},
		{packet.RewriteSolicited, 0, packet.SendOnly, packet.SendOnly, func(*Record) {}},
		{packet.RewritePSN, 77, packet.ReadRequest, packet.ReadRequest, func(r *Record) { r.PSN = 77 }},
		{packet.RewriteSyndrome, 0x60, packet.Acknowledge, packet.ReadRequest, func(r *Record) { r.Syndrome = 0x60 }},
		{packet.RewriteMSN, 99, packet.Acknowledge, packet.ReadRequest, func(r *Record) { r.MSN = 99 }},
		{packet.RewriteRKey, 8, packet.ReadRequest, packet.SendFirst,
			func(r *Record) { r.RKey, r.Flags = 8, r.Flags|ForeignRKey }},
		{packet.RewriteRKey, 8, packet.FetchAdd, packet.Acknowledge,
			func(r *Record) { r.RKey, r.Flags = 8, r.Flags|ForeignRKey }},
		{packet.RewriteDMALength, 8, packet.ReadRequest, packet.FetchAdd, func(r *Record) { r.DMALen = 8 }},
		{packet.RewriteOpcode, uint64(packet.WriteLast), packet.SendMiddle, packet.ReadRequest,
			func(r *Record) { r.Opcode = packet.WriteLast }},
		{packet.RewritePKey, 0x7fff, packet.ReadRequest, packet.ReadRequest, func(r *Record) { r.PKey = 0x7fff }},
		{packet.RewritePKey, 0x8001, packet.ReadRequest, packet.ReadRequest,
			func(r *Record) { r.PKey, r.Flags = 0x8001, r.Flags|ForeignPKey }},
		{packet.RewriteHopLimit, 3, packet.ReadRequest, packet.ReadRequest, func(*Record) {}},
		{packet.RewriteSrcPort, 3, packet.ReadRequest, packet.ReadRequest, func(*Record) {}},
	} {
		for _, flags := range []Flags{0, AckReq | Solicited} {
			r := base(tc.op)
			r.Flags |= flags
			want := r
			if tc.value == 0 {
				want.Flags &^= AckReq | Solicited
				want.Flags |= flags &^ map[packet.RewriteField]Flags{packet.RewriteAckReq: AckReq,
					packet.RewriteSolicited: Solicited}[tc.field]
			}
			tc.change(&want)
			d := Departure{Event: EventRewrite, Field: tc.field, Value: tc.value}
			if !d.offered(&r) {
				t.Errorf("%v of %v: not offered", tc.field, tc.op)
			}
			if r.rewrite(tc.field, tc.value); r != want {
				t.Errorf("%v of %v (-want +got):\n%s", tc.field, tc.op, cmp.Diff(want, r))
			}
			if lacks := base(tc.lacks); tc.lacks != tc.op && d.offered(&lacks) {
				t.Errorf("%v is offered by %v", tc.field, tc.lacks)
			}
			if d.Event = EventDelay; !d.offered(&r) {
				t.Errorf("a delay is offered by every packet")
			}
		}
	}
	unknown := base(packet.ReadRequest)
	unknown.PKey = 0
	if unknown.rewrite(packet.RewritePKey, 0x7fff); unknown.PKey != 0x7fff || unknown.Has(ForeignPKey) {
		t.Errorf("a key that is not known is the default one: %+v", unknown)
	}
}

// TestErrorsOfACallerEndDepartures returns an error at each record.
func TestErrorsOfACallerEndDepartures(t *testing.T) {
	for i := range Actions {
		event := Actions[i].Event
		if !event.Departs() {
			continue
		}
		d := Actions[i].Departure([]uint64{uint64(packet.RewriteMSN), 5})
		d.Event, d.PSN, d.HasPSN = event, 1, true
		list := []Record{{ID: 1, PSN: 1, Flags: Sent | Passed, Opcode: packet.WriteMiddle, Event: event},
			{ID: 2, PSN: 2, TimeNS: 9, Flags: Sent | Passed, Opcode: packet.WriteMiddle}}
		c := CheckedRecords(Meta{}, list).WithDepartures([]Departure{d})
		total := 0
		if err := c.ForEach(t.Context(), func(*Record) error { total++; return nil }); err != nil || total < 3 {
			t.Fatalf("%v: %d records, %v", event, total, err)
		}
		for at := range total {
			n := 0
			err := c.ForEach(t.Context(), func(*Record) error {
				if n++; n == at+1 {
					return errStop
				}
				return nil
			})
			if !errors.Is(err, errStop) || n != at+1 {
				t.Errorf("%v: error at record %d of %d: %v after %d", event, at+1, total, err, n)
			}
		}
	}
}

// TestTrimsThatReceiversCannotRecogniseAreFlagged has two cuts of one packet, of which the second is not marked.
func TestTrimsThatReceiversCannotRecogniseAreFlagged(t *testing.T) {
	list := []Record{
		{ID: 1, Flow: 0, PSN: 4, Flags: Sent | Passed, Event: EventTrim, Opcode: packet.WriteMiddle, PayloadLen: 100},
		{ID: 2, Flow: 0, PSN: 4, Flags: Sent | Passed, Event: EventDrop, Opcode: packet.WriteMiddle, PayloadLen: 100},
		{ID: 3, Flow: 0, PSN: 4, Flags: Sent | Passed, Event: EventTrim, Opcode: packet.WriteMiddle, PayloadLen: 100},
		{ID: 4, Flow: 0, PSN: 5, Flags: Sent | Passed, Event: EventTrim, Opcode: packet.WriteMiddle, PayloadLen: 100},
	}
	// In the wrong order, as several files may have them; an entry that found the packet too short to be cut is skipped.
	cuts := []Cut{{Flow: 0, PSN: 4, Nth: 3, Size: 64, Unmarked: true}, {Flow: 0, PSN: 4, Nth: 1, Size: 64},
		{Flow: 0, PSN: 4, Nth: 2, Size: 9000}}
	c := CheckedRecords(Meta{}, list).WithTrims(TrimReactions{}, cuts)
	var arrives []bool
	if err := c.ForEach(t.Context(),
		func(r *Record) error { arrives = append(arrives, r.HeaderArrives()); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []bool{true, false, false, true}; !slices.Equal(arrives, want) {
		t.Errorf("headers arrive: %v, want %v", arrives, want)
	}
}

// TestConnectionsNameEachProblemOfAnAddress has one wrong field each.
func TestConnectionsNameEachProblemOfAnAddress(t *testing.T) {
	good := Connection{
		Index: 1, Verb: "write", MTU: 1024,
		Requester: Side{IP: netip.MustParseAddr("10.0.0.1"), QPN: 1, IPSN: maxUint24},
		Responder: Side{IP: netip.MustParseAddr("fd00::2"), QPN: maxUint24},
	}
	good.Requester.IP = netip.MustParseAddr("::ffff:10.0.0.1")
	good.Responder.IP = netip.MustParseAddr("10.0.0.2")
	for _, tc := range []struct {
		change func(s *Side)
		want   string
	}{
		{func(*Side) {}, ""},
		{func(s *Side) { s.IP = netip.Addr{} }, ".ip: missing or not an IP address"},
		{func(s *Side) { s.IP = netip.MustParseAddr("fe80::1%eth0") },
			".ip: fe80::1%eth0 has a zone, which packets do not carry"},
		{func(s *Side) { s.IP = netip.MustParseAddr("0.0.0.0") }, ".ip: 0.0.0.0 is not the address of one host"},
		{func(s *Side) { s.IP = netip.MustParseAddr("224.0.0.1") }, ".ip: 224.0.0.1 is not the address of one host"},
		{func(s *Side) { s.QPN = maxUint24 + 1 }, ".qpn: 16777216 is out of range (0 to 16777215, 0: not known)"},
		{func(s *Side) { s.IPSN = maxUint24 + 1 }, ".ipsn: 16777216 is out of range (0 to 16777215)"},
	} {
		for _, side := range []string{"requester", "responder"} {
			c := good
			if tc.change(&c.Requester); side == "responder" {
				c.Requester = good.Requester
				tc.change(&c.Responder)
			}
			_, err := NewConnections([]Connection{c})
			if tc.want == "" && err != nil || tc.want != "" &&
				(err == nil || !strings.Contains(err.Error(), "connections[0]."+side+tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		}
	}
	var none *Connections
	if f := none.Flow(good.Requester.IP, good.Responder.IP, 1); f != NoFlow {
		t.Errorf("flow %v of no connections", f)
	}
	c, err := NewConnections([]Connection{good})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		flow  FlowID
		space packet.Space
		want  packet.PSN
	}{{0, packet.Requests, maxUint24}, {0, packet.Responses, 0}, {1, packet.Requests, 0}, {1, packet.Responses, maxUint24},
		{NoFlow, packet.Requests, 0}, {2, packet.Requests, 0}} {
		if got := c.InitialPSN(tc.flow, tc.space); got != tc.want {
			t.Errorf("initial PSN of flow %d: %d, want %d", tc.flow, got, tc.want)
		}
	}
}

// TestTheWriterRefusesWhatPcapCannotHold goes to each limit.
func TestTheWriterRefusesWhatPcapCannotHold(t *testing.T) {
	const last = (1<<32)*1_000_000_000 - 1
	for _, tc := range []struct {
		ns   int64
		n    int
		fits bool
	}{{0, 0, true}, {-1, 0, false}, {last, 1, true}, {last + 1, 1, false}, {0, maxCapturedLen, true},
		{0, maxCapturedLen + 1, false}} {
		var b bytes.Buffer
		w := NewPcapWriter(&b, "x.pcap", 0)
		_, err := w.Reserve(tc.ns, tc.n, 9)
		want := fmt.Sprintf("x.pcap: packet 1 at byte 24: time %d ns, %d bytes: not representable in pcap", tc.ns, tc.n)
		if tc.fits != (err == nil) || err != nil && err.Error() != want {
			t.Errorf("%d ns, %d bytes: %v", tc.ns, tc.n, err)
		}
		if _, second := w.Reserve(0, 0, 0); tc.fits != (second == nil) {
			t.Errorf("after that: %v", second)
		}
		if tc.fits && (w.Packets() != 2 || w.Bytes() != int64(pcapHeaderLen+2*pcapRecordLen+tc.n)) {
			t.Errorf("%d packets, %d bytes", w.Packets(), w.Bytes())
		}
	}
	for snap, want := range map[int]uint32{0: maxCapturedLen, -1: maxCapturedLen, 1: 1, maxCapturedLen: maxCapturedLen,
		maxCapturedLen + 1: maxCapturedLen, 96: 96} {
		var b bytes.Buffer
		w := NewPcapWriter(&b, "x.pcap", snap)
		if err := errors.Join(w.Write(0, make([]byte, 200), 300), w.Flush()); err != nil {
			t.Fatal(err)
		}
		kept := min(200, int(want))
		if got := le32(b.Bytes()[16:]); got != want || b.Len() != pcapHeaderLen+pcapRecordLen+kept {
			t.Errorf("snap %d: the header has %d, want %d; %d bytes", snap, got, want, b.Len())
		}
		if frames, err := readAll(b.Bytes()); err != nil || len(frames) != 1 || frames[0].Orig != 300 ||
			len(frames[0].Data) != kept {
			t.Errorf("snap %d: %v, %v", snap, frames, err)
		}
	}
}

// lender is a destination that lends its own room, which may be too short.
type lender struct {
	bytes.Buffer
	lent int
}

func (l *lender) AvailableBuffer() []byte {
	b := l.Buffer.AvailableBuffer()
	if cap(b) >= firstBufferLen {
		l.lent++
	}
	return b
}

func TestTheWriterUsesTheRoomOfItsDestination(t *testing.T) {
	for _, room := range []int{0, firstBufferLen - 1, 1 << 20} {
		l := &lender{}
		l.Grow(room)
		w := NewPcapWriter(l, "x.pcap", 0)
		var want []written
		for i := range 3000 {
			f := written{int64(i), bytes.Repeat([]byte{byte(i)}, i%300), i % 300}
			want = append(want, f)
			if err := w.Write(f.TimeNS, f.Data, f.Orig); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(l.Bytes())
		if err != nil || !slices.EqualFunc(want, got,
			func(a, b written) bool { return a.TimeNS == b.TimeNS && bytes.Equal(a.Data, b.Data) }) {
			t.Errorf("room for %d: %d frames, %v", room, len(got), err)
		}
		if l.lent == 0 && room == 1<<20 {
			t.Errorf("room for %d was lent %d times", room, l.lent)
		}
	}
}

// TestClockReportsReadAsTheyAreMeant has each kind.
func TestClockReportsReadAsTheyAreMeant(t *testing.T) {
	for _, tc := range []struct {
		c    ClockReport
		want string
	}{
		{ClockReport{SameClock: true}, "both captures are taken to be stamped by one clock"},
		{ClockReport{OffsetNS: -1500, DriftPPB: 20_400, UncertaintyNS: -1, Matched: 7},
			"clock of the second capture: corrected by -1.5 us and +20.4 ppm, from 7 common frames; no answer bounds how " +
				"much later frames may have passed"},
		{ClockReport{OffsetNS: 1500, DriftPPB: -400, UncertaintyNS: 0, Matched: 7},
			"clock of the second capture: corrected by 1.5 us and -0.4 ppm, uncertainty 0 ns, from 7 common frames"},
	} {
		if got := tc.c.String(); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
	for _, tc := range []struct {
		e    *clockEstimate
		want int64
	}{
		{nil, 0}, {&clockEstimate{report: ClockReport{SameClock: true, UncertaintyNS: 9000}}, 0},
		{&clockEstimate{report: ClockReport{UncertaintyNS: -1}}, 1000},
		{&clockEstimate{report: ClockReport{UncertaintyNS: 4000}}, 1000},
		{&clockEstimate{report: ClockReport{UncertaintyNS: 4004}}, 1001},
		{&clockEstimate{report: ClockReport{UncertaintyNS: 200_000}}, 50_000},
		{&clockEstimate{report: ClockReport{UncertaintyNS: 200_004}}, 50_000},
	} {
		if got := tc.e.slack(); got != tc.want {
			t.Errorf("%+v: slack %d, want %d", tc.e, got, tc.want)
		}
	}
	w := WayReport{Source: netip.MustParseAddr("10.0.0.1"), Destination: netip.MustParseAddr("10.0.0.2"),
		Reason: "as given"}
	const want = "packets from 10.0.0.1 to 10.0.0.2 pass the second capture, then the first (as given)"
	if w.String() != want {
		t.Errorf("got %s, want %s", w.String(), want)
	}
}

// TestOneFactAfterTheOtherDecidesWhichCaptureIsUpstream has evidence of one kind, and contrary evidence of a
// lower-ranked kind.
func TestOneFactAfterTheOtherDecidesWhichCaptureIsUpstream(t *testing.T) {
	none := [2]float64{}
	for _, tc := range []struct {
		e      wayEvidence
		missed [2]float64
		side   int
		reason string
	}{
		{wayEvidence{}, none, 0, ""},
		{wayEvidence{hopsFirst: 1, marksSecond: 9}, none, 1, "the TTL decreases"},
		{wayEvidence{hopsSecond: 1, marksFirst: 9}, none, -1, "the TTL decreases"},
		{wayEvidence{hopsFirst: 3, hopsSecond: 1}, none, 0, ""},
		{wayEvidence{hopsFirst: 4, hopsSecond: 1}, none, 1, "the TTL decreases"},
		{wayEvidence{hopsFirst: 1, hopsSecond: 4}, none, -1, "the TTL decreases"},
		{wayEvidence{hopsFirst: 1, hopsSecond: 3, marksFirst: 1}, none, 1, "CE marks appear"},
		{wayEvidence{marksSecond: 1, lostFirst: 9}, none, -1, "CE marks appear"},
		{wayEvidence{marksFirst: 1, copiedSecond: 9}, none, 1, "CE marks appear"},
		{wayEvidence{copiedFirst: 1, lostSecond: 9}, none, 1, "copies of frames appear"},
		{wayEvidence{copiedSecond: 1, lostFirst: 9}, none, -1, "copies of frames appear"},
		{wayEvidence{copiedFirst: 1, copiedSecond: 1, lostFirst: 1}, none, 1, "lost packets were retransmitted"},
		{wayEvidence{lostFirst: 1, alone: [2]int{0, 9}}, none, 1, "lost packets were retransmitted"},
		{wayEvidence{lostSecond: 2, alone: [2]int{9, 0}}, none, -1, "lost packets were retransmitted"},
		{wayEvidence{lostFirst: 2, repeated: 9, alone: [2]int{0, 1}}, [2]float64{0, 0.1}, -1,
			"packets are missing in the other capture"},
		{wayEvidence{lostFirst: 4, repeated: 9}, [2]float64{0, 0.1}, 1, "lost packets were retransmitted"},
		{wayEvidence{lostSecond: 3, repeated: 9}, [2]float64{0.1, 0}, 0, ""},
		{wayEvidence{lostSecond: 4, repeated: 9}, [2]float64{0.1, 0}, -1, "lost packets were retransmitted"},
		{wayEvidence{alone: [2]int{1, 0}}, none, 1, "packets are missing in the other capture"},
		{wayEvidence{alone: [2]int{0, 1}}, none, -1, "packets are missing in the other capture"},
		{wayEvidence{alone: [2]int{3, 0}, matched: 9}, [2]float64{0, 0.1}, 0, ""},
		{wayEvidence{alone: [2]int{4, 0}, matched: 9}, [2]float64{0, 0.1}, 1, "packets are missing in the other capture"},
		{wayEvidence{alone: [2]int{0, 3}, matched: 9}, [2]float64{0.1, 0}, 0, ""},
	} {
		if side, reason, _ := tc.e.upstream(tc.missed); side != tc.side || reason != tc.reason {
			t.Errorf("%+v: %d %q, want %d %q", tc.e, side, reason, tc.side, tc.reason)
		}
	}
	for _, tc := range []struct {
		e    wayEvidence
		weak bool
	}{
		{wayEvidence{hopsFirst: 1}, false}, {wayEvidence{marksSecond: 1}, false},
		{wayEvidence{lostFirst: 2}, true}, {wayEvidence{lostFirst: 3}, false}, {wayEvidence{lostSecond: 2}, true},
		{wayEvidence{lostSecond: 3}, false},
		{wayEvidence{alone: [2]int{2, 0}}, true}, {wayEvidence{alone: [2]int{0, 3}}, false},
	} {
		if _, _, weak := tc.e.upstream(none); weak != tc.weak {
			t.Errorf("%+v: weak %t, want %t", tc.e, weak, tc.weak)
		}
	}
}

// TestWhatShowsThatACaptureHoldsFramesTwice counts frames and their twins by hand, at each bound.
func TestWhatShowsThatACaptureHoldsFramesTwice(t *testing.T) {
	type way struct{ frames, twins int }
	// Frames of n ways; each twin comes gap later, hops lower, under identification id.
	evidence := func(ways []way, gap int64, hops, ids int) *twinEvidence {
		e := &twinEvidence{hops: map[int]int{}, ways: map[flowKey]*twinWay{}, ids: map[uint16]bool{}}
		for i, w := range ways {
			e.ways[flowKey{qpn: uint64(i)}] = &twinWay{w.frames, w.twins}
			for range w.twins {
				e.gaps = append(e.gaps, gap)
				e.hops[hops]++
			}
		}
		for i := range ids {
			e.ids[uint16(i)] = true
		}
		return e
	}
	for _, tc := range []struct {
		name string
		e    *twinEvidence
		want *twinRule
	}{
		{"both ways doubled", evidence([]way{{20, 10}, {20, 10}}, 300, 0, 0), &twinRule{windowNS: 2200}},
		{"too few", evidence([]way{{8, 4}, {6, 3}}, 300, 0, 0), nil},
		{"just enough", evidence([]way{{8, 4}, {8, 4}}, 300, 0, 0), &twinRule{windowNS: 2200}},
		{"one way doubled", evidence([]way{{20, 10}, {20, 0}}, 300, 0, 10), nil},
		{"one way only, identified", evidence([]way{{20, 10}}, 300, 0, 6), &twinRule{windowNS: twinWindowNS}},
		{"one way only, hardly identified", evidence([]way{{20, 10}}, 300, 0, 5), nil},
		{"a fifth is missing", evidence([]way{{20, 8}, {20, 8}}, 300, 0, 0), &twinRule{windowNS: 2200}},
		{"more is missing", evidence([]way{{20, 8}, {20, 7}}, 300, 0, 0), nil},
		{"a router, of one way", evidence([]way{{20, 10}, {20, 0}}, 300, 1, 0), &twinRule{windowNS: twinWindowNS, hops: 1}},
		{"a router, of no way", evidence([]way{{40, 10}, {20, 0}}, 300, 1, 0), nil},
		{"far apart", evidence([]way{{20, 10}, {20, 10}}, 90_000, 0, 0), &twinRule{windowNS: twinWindowNS}},
	} {
		got := tc.e.rule()
		if (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	e := evidence([]way{{20, 10}, {20, 10}}, 300, 0, 0)
	for i := range e.gaps {
		e.gaps[i] = int64(20-i) * 100 // the 19th of 20 is 1900
	}
	if got := e.rule(); got == nil || got.windowNS != 4*1900+1000 {
		t.Errorf("window %+v", got)
	}
	mixed := evidence([]way{{20, 10}, {20, 10}}, 300, 0, 0)
	mixed.hops = map[int]int{0: 10, 2: 10}
	if got := mixed.rule(); got == nil || got.hops != 0 {
		t.Errorf("half of the twins have a lower TTL: %+v", got)
	}
	if s := (&twinRule{windowNS: 2200}).String(); s != "the capture holds frames twice, at most 2.2 us apart" {
		t.Error(s)
	}
	if s := (&twinRule{hops: 2}).String(); !strings.HasSuffix(s, "with a TTL that is 2 lower") {
		t.Error(s)
	}
}

// TestAReadResponseThatIsLostInBetweenIsNotMissedByTheSecondTap repeats a READ from the lost response on: the new
// response starts a message, so it is a different packet.
func TestAReadResponseThatIsLostInBetweenIsNotMissedByTheSecondTap(t *testing.T) {
	const lost, second, before, after = 1, 2, 3, 4
	for _, tc := range []struct {
		name     string
		repeated bool
		complete bool
	}{{"repeated", true, true}, {"not repeated", false, false}} {
		s := newSurvey()
		s.list = []flowKey{{}}
		see := func(key uint64, timeNS int64, psn uint64, taps ...int) {
			for _, i := range taps {
				s.taps[i].seen[key] = &glimpse{timeNS: timeNS, lastNS: timeNS, copies: 1, data: true, place: psn<<8 | placeAnswer}
			}
		}
		see(before, 1000, 7, 0, 1)
		see(lost, 2000, 8, 0)
		if tc.repeated {
			see(second, 3000, 8, 0, 1)
		}
		see(after, 4000, 9, 0, 1)
		if s.complete() != tc.complete {
			t.Errorf("%s: complete %t", tc.name, s.complete())
		}
	}
}
