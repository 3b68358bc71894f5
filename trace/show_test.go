package trace

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/packet"
)

// story is a short trace with one of everything: Listing 5.2's second connection, a READ and a CNP.
func story(tb testing.TB) ([]byte, *Connections) {
	tb.Helper()
	c, err := NewConnections([]Connection{
		{Index: 1, Verb: "read", MTU: 1024, Requester: Side{hostA, 27, 2000}, Responder: Side{hostB, 17, 0}},
		{Index: 2, Verb: "write", MTU: 1024, Requester: Side{hostA, 28, maxUint24}, Responder: Side{hostB, 18, 0}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	var copies []copyOf
	add := func(back bool, event EventType, p *packet.Packet) {
		if back {
			p.IP.Src, p.IP.Dst = p.IP.Dst, p.IP.Src
		}
		copies = append(copies, copyOf{seq: uint64(500 + len(copies)), ns: 7_000_000 + 1234*int64(len(copies)), event: event,
			p: p})
	}
	nak := testPacket(packet.Acknowledge, 28, 0, 0)
	nak.AETH = packet.AETH{Syndrome: packet.SyndromeNakSequence, MSN: 3}
	ack := testPacket(packet.Acknowledge, 28, 1, 0)
	read := testPacket(packet.ReadRequest, 17, 2000, 0)
	read.RETH.Length = 1500
	last := testPacket(packet.WriteLast, 18, 1, 40)
	last.BTH.AckReq = true
	repeated := *last
	marked := testPacket(packet.ReadResponseFirst, 27, 2000, 1024)
	marked.IP.TOS = uint8(packet.CE)
	add(false, EventNone, testPacket(packet.WriteFirst, 18, maxUint24, 1024))
	add(false, EventDrop, testPacket(packet.WriteMiddle, 18, 0, 1024))
	add(false, EventNone, read)
	add(false, EventNone, last)
	add(true, EventNone, nak)
	add(true, EventNone, marked)
	add(true, EventECN, testPacket(packet.ReadResponseLast, 27, 2001, 476))
	add(false, EventCorrupt, testPacket(packet.WriteMiddle, 18, 0, 1024))
	add(false, EventNone, &repeated)
	add(true, EventNone, testPacket(packet.CNP, 28, 0, packet.CNPPayloadLen))
	add(true, EventNone, ack)
	add(false, EventNone, testPacket(packet.SendOnly, 99, 7, 8))
	return mirrorFile(tb, copies), c
}

func checkedStory(tb testing.TB) *Checked {
	tb.Helper()
	file, c := story(tb)
	checked, _, err := Check(tb.Context(), memorySource("story.pcap", file), Options{Connections: c})
	if err != nil {
		tb.Fatal(err)
	}
	return checked
}

func TestShowSpeaksTheWordsOfTheConfiguration(t *testing.T) {
	var b bytes.Buffer
	if err := Show(t.Context(), checkedStory(t), &b, ShowOptions{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "story.txt", b.Bytes())
}

func TestBytesOfTheMirrorEncodingAreFrozen(t *testing.T) {
	file, c := story(t)
	dec, p := NewDecoder(FormatMirror, c, true), NewPrinter(Meta{Kind: KindMirror, Connections: c})
	var b bytes.Buffer
	err := memorySource("story.pcap", file).ForEachFrame(t.Context(), func(f *Frame) error {
		var r Record
		if err := dec.Decode(f, &r); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s\n%s\n", p.AppendLine(nil, &r), hex.Dump(f.Data[:min(len(f.Data), 80)]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "story.hex", b.Bytes())
}

func TestShowAround(t *testing.T) {
	var b bytes.Buffer
	checked := checkedStory(t)
	if err := Show(t.Context(), checked, &b, ShowOptions{Around: 504, Context: 2}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(b.String()) {
		ids = append(ids, strings.TrimSpace(line[:6]))
	}
	if diff := cmp.Diff([]string{"#502", "#503", "> #504", "#505", "#506"}, ids); diff != "" {
		t.Error(diff)
	}
	if err := Show(t.Context(), checked, &b, ShowOptions{Around: 9}); err == nil ||
		!strings.Contains(err.Error(), "no packet has the id 9") {
		t.Errorf("error %v", err)
	}
	b.Reset()
	if err := Show(t.Context(), checked, &b, ShowOptions{Connection: 1, Limit: 2}); err != nil ||
		strings.Count(b.String(), "\n") != 2 {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestStatsCountEachDirection(t *testing.T) {
	s, err := GatherStats(t.Context(), checkedStory(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.Packets != 12 || s.FirstID != 500 || s.LastID != 511 || s.Unknown != 1 || len(s.Notes) != 1 {
		t.Errorf("%+v", s)
	}
	want := [2]FlowStats{
		{Packets: 5, Data: 5, PayloadBytes: 3*1024 + 80, Repeats: 2, Dropped: 1, Corrupted: 1, MaxIter: 2},
		{Packets: 3, Acks: 1, Naks: 1, CNPs: 1},
	}
	if diff := cmp.Diff(want, s.Connections[1].Directions); diff != "" {
		t.Error(diff)
	}
	reads := [2]FlowStats{{Packets: 1, ReadRequests: 1}, {Packets: 2, Data: 2, PayloadBytes: 1500, CE: 2, MaxIter: 1}}
	if diff := cmp.Diff(reads, s.Connections[0].Directions); diff != "" {
		t.Error(diff)
	}
}

func TestITERFollowsFigure5_3(t *testing.T) {
	c, err := NewConnections([]Connection{{Index: 1, MTU: 1024, Requester: Side{hostA, 27, 1},
		Responder: Side{hostB, 17, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	it := NewIterTracker(c)
	psns, want := []int{1, 2, 3, 4, 2, 3, 4, 3, 4}, []int64{1, 1, 1, 1, 2, 2, 2, 3, 3}
	for i, psn := range psns {
		r := Record{Flags: Sent, PSN: packet.PSN(psn), Opcode: packet.WriteMiddle}
		ack := Record{Flags: Sent, Flow: 1, PSN: 1, Opcode: packet.Acknowledge}
		if got, rel := it.Observe(&r); got != want[i] || rel != int64(psn) {
			t.Errorf("packet %d: iter %d psn %d, want %d, %d", i, got, rel, want[i], psn)
		}
		if got, _ := it.Observe(&ack); got != 0 {
			t.Errorf("an ACK has iter %d", got)
		}
	}
}

func TestSlice(t *testing.T) {
	file, c := story(t)
	src := memorySource("story.pcap", file)
	for _, tc := range []struct {
		name string
		o    SliceOptions
		want []uint64
		fail string
	}{
		{"by id", SliceOptions{FirstID: 503, LastID: 505}, []uint64{503, 504, 505}, ""},
		{"by time", SliceOptions{FromNS: 1234, ToNS: 2468}, []uint64{501, 502}, ""},
		{"by connection", SliceOptions{Connections: c, Connection: 1}, []uint64{502, 505, 506}, ""},
		{"renumbered", SliceOptions{Connections: c, Connection: 1, Renumber: true}, []uint64{1, 2, 3}, ""},
		{"nothing left", SliceOptions{FirstID: 9}, nil, "no packet matches the selection"},
		{"unknown connection", SliceOptions{Connections: c, Connection: 3}, nil, "connection 3 is out of range (1 to 2)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			n, err := Slice(t.Context(), src, &b, "slice.pcap", tc.o)
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("error %v, want %q", err, tc.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var ids []uint64
			err = memorySource("slice.pcap", b.Bytes()).ForEachFrame(t.Context(), func(f *Frame) error {
				m, err := DecodeMirror(f.Data)
				ids = append(ids, m.Seq)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, ids); diff != "" || n != int64(len(ids)) {
				t.Errorf("%d frames; %s", n, diff)
			}
		})
	}
}

func TestMirrorTraceBecomesAPairThatShowsTheSameEvents(t *testing.T) {
	file, c := story(t)
	src := memorySource("story.pcap", file)
	var before, after bytes.Buffer
	if n, err := ToPlain(t.Context(), src, FormatMirror, ViewBefore, &before, "before.pcap"); err != nil || n != 12 {
		t.Fatalf("%d packets, %v", n, err)
	}
	if n, err := ToPlain(t.Context(), src, FormatMirror, ViewAfter, &after, "after.pcap"); err != nil || n != 11 {
		t.Fatalf("%d packets, %v", n, err)
	}
	first, second := memorySource("before.pcap", before.Bytes()), memorySource("after.pcap", after.Bytes())
	if d, err := Detect(t.Context(), first); err != nil || d.Format != FormatPlain {
		t.Errorf("detected %+v, %v", d, err)
	}
	_, report, err := CheckPair(t.Context(), first, second, Options{Connections: c})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]PairEvent{{2, "drop"}, {7, "ecn"}, {8, "corrupt"}}, report.Events); diff != "" {
		t.Error(diff)
	}
	var mirror bytes.Buffer
	if n, err := ToMirror(t.Context(), first, &mirror, "mirror.pcap"); err != nil || n != 12 {
		t.Fatalf("%d packets, %v", n, err)
	}
	checked, _, err := Check(t.Context(), memorySource("mirror.pcap", mirror.Bytes()), Options{Connections: c})
	if err != nil {
		t.Fatal(err)
	}
	if m := checked.Meta(); m.Kind != KindMirror || m.Packets != 12 || m.StartNS != 0 {
		t.Errorf("%+v", m)
	}
	err = checked.ForEach(t.Context(), func(r *Record) error {
		if r.ICRC != packet.ICRCValid {
			t.Errorf("record %d: iCRC %v", r.ID, r.ICRC)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	trim := mirrorFile(t, []copyOf{{seq: 1, event: EventTrim}})
	if _, err := ToPlain(t.Context(), memorySource("x", trim), FormatMirror, ViewAfter, &after, "x"); err == nil ||
		!strings.Contains(err.Error(), "event trim can't be redone") {
		t.Errorf("error %v", err)
	}
}
