package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/packet"
)

// luminaFile writes copies as the prototype's switch and dumper do: destination port 9741, a random source port with
// the original one in the UDP checksum field, 128 bytes kept, the original length from the IP header.
func luminaFile(tb testing.TB, copies []copyOf) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewPcapWriter(&b, "lumina.pcap", 128)
	for i, c := range copies {
		frame := c.p.AppendTo(nil)
		if err := EncodeMirror(frame, MirrorMeta{Event: c.event, Seq: c.seq, TimeNS: c.ns,
			UDPDstPort: LuminaPort}); err != nil {
			tb.Fatal(err)
		}
		_, l4, err := LocateUDP(frame)
		if err != nil {
			tb.Fatal(err)
		}
		copy(frame[l4+6:], frame[l4:l4+2])
		binary.BigEndian.PutUint16(frame[l4:], uint16(i*7919))
		if err := w.Write(1e18, frame, len(frame)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// exchange returns a request and its ACK for each of n messages.
func exchange(n int, seq func(i int) uint64) []copyOf {
	var out []copyOf
	for i := range n {
		ack := testPacket(packet.Acknowledge, 18, packet.PSN(1000+i), 0)
		ack.IP.Src, ack.IP.Dst = ack.IP.Dst, ack.IP.Src
		write := testPacket(packet.WriteOnly, 17, packet.PSN(1000+i), 1024)
		write.RETH.Length = 1024
		at := int64(i) * 2000
		out = append(out, copyOf{seq: seq(2 * i), ns: at, p: write}, copyOf{seq: seq(2*i + 1), ns: at + 900, p: ack})
	}
	return out
}

func TestLuminaTracesBecomeTheSameRecords(t *testing.T) {
	ctx := context.Background()
	copies := exchange(50, func(i int) uint64 { return uint64(i + 1) })
	copies[10].event = EventDrop
	records := func(file []byte) []Record {
		checked, report, err := Check(ctx, memorySource("x", file), Options{})
		if err != nil {
			t.Fatalf("%v", err)
		}
		if notes := checked.Meta().Notes; len(notes) != 1 ||
			!strings.Contains(notes[0], "no FIRST or MIDDLE packet shows the MTU") {
			t.Errorf("%s: notes %q", report.Format, notes)
		}
		var out []Record
		err = checked.ForEach(ctx, func(r *Record) error {
			if r.Flags&Truncated != 0 || report.Format == "mirror" && r.PayloadLen > 0 {
				r.ICRC, r.Flags = packet.ICRCNotCheckable, r.Flags|Truncated
			}
			out = append(out, *r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if diff := cmp.Diff(records(mirrorFile(t, copies)), records(luminaFile(t, copies))); diff != "" {
		t.Error(diff)
	}
}

func TestLuminaSequenceNumbersWrapFrom2To31Minus1To1(t *testing.T) {
	copies := exchange(50, func(i int) uint64 { return (luminaMaxSeq-30+uint64(i)-1)%luminaMaxSeq + 1 })
	_, report, err := Check(context.Background(), memorySource("x", luminaFile(t, copies)), Options{})
	if err != nil || report.FirstSeq != luminaMaxSeq-30 || report.LastSeq != 69 {
		t.Errorf("%v; from %d to %d", err, report.FirstSeq, report.LastSeq)
	}
	missing := append(append([]copyOf{}, copies[:30]...), copies[33:]...)
	_, report, err = Check(context.Background(), memorySource("x", luminaFile(t, missing)), Options{})
	var ie *IntegrityError
	if !errors.As(err, &ie) || report.Condition(ConditionSequence).MissingCount != 3 {
		t.Errorf("three copies around the wrap are missing: %v", err)
	}
}

func TestLuminaDirectionsMayBe50NanosecondsOutOfOrder(t *testing.T) {
	for _, tc := range []struct {
		name string
		back int64 // how far the ACK's stamp lies before its request's
		same bool  // both packets of one direction
		ok   bool
	}{
		{"50 ns between directions", 50, false, true},
		{"51 ns between directions", 51, false, false},
		{"1 ns within a direction", 1, true, false},
	} {
		copies := exchange(10, func(i int) uint64 { return uint64(i + 1) })
		copies[9].ns = copies[8].ns - tc.back
		if tc.same {
			copies[9].p = testPacket(packet.WriteOnly, 17, 1004, 1024)
		}
		_, report, err := Check(context.Background(), memorySource("x", luminaFile(t, copies)), Options{})
		if got := err == nil; got != tc.ok {
			t.Errorf("%s: %v, %+v", tc.name, err, report.Condition(ConditionTime))
		}
	}
}

func TestLuminaFormatCanBeForced(t *testing.T) {
	for _, name := range []string{"auto", "mirror", "plain", "lumina"} {
		f, err := ParseFormat(name)
		if err != nil || fmt.Sprint(f) != name {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	if _, err := ParseFormat("pcap"); err == nil {
		t.Error("an unknown format was accepted")
	}
	// Without the override nothing in the file is to RoCE's port.
	copies := exchange(5, func(i int) uint64 { return uint64(i + 1) })
	_, report, err := Check(context.Background(), memorySource("x", luminaFile(t, copies)), Options{Format: FormatMirror})
	if err == nil || report.Packets != 0 || report.OtherFrames != 10 {
		t.Errorf("%v, %+v", err, report)
	}
}
