package trace

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

func TestThePayloadHashOfAWholePayloadIsThatOfEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "payload")
		h := hashPayload(payload, true)
		if h != hashPayload(bytes.Clone(payload), true) || h.Differs(h) || !h.Whole() {
			t.Fatalf("%v is not the hash of a copy, or not that of a whole payload", h)
		}
		at := rapid.IntRange(0, len(payload)-1).Draw(t, "at")
		payload[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if !hashPayload(payload, true).Differs(h) {
			t.Fatalf("byte %d of %d changed, the hash did not", at, len(payload))
		}
	})
}

func TestPayloadsAreComparedAsFarAsBothAreCaptured(t *testing.T) {
	frame := testPacket(packet.WriteMiddle, 17, 1000, 1024).AppendTo(nil)
	head := len(frame) - 1024 - packet.ICRCLen
	decoded := func(change, snap int) PayloadHash {
		f := bytes.Clone(frame)
		if change >= 0 {
			f[head+change]++
		}
		d := NewDecoder(FormatPlain, nil, false)
		d.payloads = true
		var list [2]Record
		for i := range list { // the second one is decoded by a template
			if err := d.Decode(&Frame{Number: uint64(i + 1), Data: f[:min(snap, len(f))]}, &list[i]); err != nil {
				t.Fatal(err)
			}
		}
		if list[0].Payload != list[1].Payload {
			t.Fatalf("%v, by the template %v", list[0].Payload, list[1].Payload)
		}
		return list[0].Payload
	}
	const all, none = 9000, -1
	for _, tc := range []struct {
		name            string
		change, a, b    int
		differ, unknown bool
	}{
		{"the same whole payload", none, all, all, false, false},
		{"the last byte of a whole payload", 1023, all, all, true, false},
		{"the same start", none, head + 74, head + 74, false, false},
		{"a byte of the start", 71, head + 74, head + 74, true, false},
		{"a byte beyond the last full word of the start", 72, head + 74, head + 74, false, false},
		{"a byte that is not captured", 100, head + 74, head + 74, false, false},
		{"starts of other lengths", 0, head + 74, head + 64, false, false},
		{"a start and a whole payload", 0, head + 74, all, false, false},
		{"the payload is whole without its iCRC", 1023, head + 1024, all, true, false},
		{"a start below a word", 0, head + 7, head + 7, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := decoded(none, tc.a), decoded(tc.change, tc.b)
			if a.Differs(b) != tc.differ || b.Differs(a) != tc.differ {
				t.Errorf("%v and %v differ: %v, want %v", a, b, a.Differs(b), tc.differ)
			}
			if (a == 0) != tc.unknown {
				t.Errorf("%v", a)
			}
		})
	}
}

func TestPadBytesAreNoPayload(t *testing.T) {
	p := testPacket(packet.WriteOnly, 17, 1000, 5)
	p.BTH.PadCount = 3
	frame := p.AppendTo(nil)
	decode := func(f []byte) (r Record) {
		d := NewDecoder(FormatPlain, nil, false)
		d.payloads = true
		if err := d.Decode(&Frame{Number: 1, Data: f}, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := decode(frame)
	frame[len(frame)-packet.ICRCLen-1]++ // the last of three bytes of padding
	if after := decode(frame); before.PayloadLen != 5 || after.Payload != before.Payload {
		t.Errorf("%d bytes, %v and %v", before.PayloadLen, before.Payload, after.Payload)
	}
}

// Payloads finds packets by what an earlier pass showed, in mirror traces, captures and pairs of captures.
func TestPayloadsOfPacketsThatAPassHasShown(t *testing.T) {
	frameOf := func(psn packet.PSN, value byte, damaged bool) []byte {
		p := testPacket(packet.WriteMiddle, 200, psn, 64)
		p.Payload = bytes.Repeat([]byte{value}, 64)
		f := p.AppendTo(nil)
		if damaged {
			f[len(f)-1] ^= 1
		}
		return f
	}
	frames := [][]byte{frameOf(1000, 1, false), frameOf(1001, 2, false), frameOf(1000, 1, false), frameOf(1001, 3, false),
		frameOf(1001, 2, true)}
	_, connections := benchTrace(t, 1)
	source := func(mirror bool) Source {
		var out bytes.Buffer
		w := NewPcapWriter(&out, "x.pcap", 0)
		for i, f := range frames {
			f, at := bytes.Clone(f), int64(i+1)*1000
			if mirror {
				if err := EncodeMirror(f, MirrorMeta{Seq: uint64(i + 1), TimeNS: at, UDPDstPort: packet.Port}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Write(1_700_000_000e9+at, f, len(f)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return memorySource("x.pcap", out.Bytes())
	}
	check := func(t *testing.T, checked *Checked) {
		var list []Sighting
		err := checked.ForEach(t.Context(), func(r *Record) error {
			if r.Has(Sent) {
				list = append(list, Sighting{r.Flow, r.PSN, r.TimeNS})
			}
			return nil
		})
		if err != nil || len(list) != len(frames) {
			t.Fatalf("%d packets, %v", len(list), err)
		}
		list = append(list, Sighting{list[0].Flow, 1234, list[0].TimeNS})
		got, err := checked.Payloads(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Hash != got[2].Hash || !got[0].Hash.Whole() || got[0].Len != 64 || got[0].ID == 0 ||
			got[0].ID == got[2].ID {
			t.Errorf("the retransmission is the same packet: %v and %v", got[0], got[2])
		}
		if !got[1].Hash.Differs(got[3].Hash) {
			t.Errorf("the retransmission has another payload: %v and %v", got[1], got[3])
		}
		if none := (Payload{}); got[4] != none || got[5] != none {
			t.Errorf("a damaged packet has no payload, and one that does not exist neither: %v, %v", got[4], got[5])
		}
	}
	t.Run("mirror", func(t *testing.T) {
		checked, _, err := Check(t.Context(), source(true),
			Options{Format: FormatMirror, Connections: connections, Vouched: true})
		if err != nil {
			t.Fatal(err)
		}
		check(t, checked)
		check(t, checked.WithInvalidations())
	})
	t.Run("capture", func(t *testing.T) {
		checked, _, err := Check(t.Context(), source(false), Options{Format: FormatPlain, Connections: connections})
		if err != nil {
			t.Fatal(err)
		}
		check(t, checked)
		lossy, ok := checked.WithUnseenFrames()
		if !ok {
			t.Fatal("a capture may miss frames")
		}
		check(t, lossy)
	})
	t.Run("pair", func(t *testing.T) {
		checked, _, err := CheckPair(t.Context(), source(false), source(false),
			Options{Connections: connections, SameClock: true})
		if err != nil {
			t.Fatal(err)
		}
		check(t, checked)
	})
}
