package ndp_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/packet/ndp"
)

func header() *rapid.Generator[ndp.Header] {
	return rapid.Custom(func(t *rapid.T) ndp.Header {
		return ndp.Header{
			Kind:       ndp.Kind(rapid.IntRange(1, 4).Draw(t, "kind")),
			Flags:      ndp.Flags(rapid.IntRange(0, 15).Draw(t, "flags")),
			Connection: rapid.Uint32().Draw(t, "connection"),
			Seq:        rapid.Uint32().Draw(t, "seq"),
			Counter:    rapid.Uint32().Draw(t, "counter"),
			Path:       rapid.Uint16().Draw(t, "path"),
			Length:     rapid.Uint16().Draw(t, "length"),
		}
	})
}

func TestTheLayoutIsTheDocumentedOne(t *testing.T) {
	h := ndp.Header{Kind: ndp.Data, Flags: ndp.FlagSYN | ndp.FlagLast, Connection: 0x01020304, Seq: 0x05060708,
		Counter: 0x090a0b0c, Path: 0x0d0e, Length: 0x05ba}
	const want = "d05e11030102030405060708090a0b0c0d0e05bae7ab" // checksum added up by hand
	got := hex.EncodeToString(h.AppendTo(nil))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s := h.String(); s != "data connection 16909060 seq 84281096 counter 151653132 path 3342 length 1466 syn|last" {
		t.Errorf("it prints as %q", s)
	}
}

func TestEveryHeaderComesBackFromItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := header().Draw(t, "header")
		b := want.AppendTo([]byte("before"))
		if len(b) != len("before")+ndp.Size {
			t.Fatalf("%d bytes were appended", len(b)-len("before"))
		}
		var got ndp.Header
		if err := got.Parse(append(b[len("before"):], "payload"...)); err != nil || got != want {
			t.Fatalf("got %+v, %v", got, err)
		}
	})
}

func TestMarksDoNotTouchTheChecksumAndEveryOtherBitDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := header().Draw(t, "header")
		b := sent.AppendTo(nil)
		bit := rapid.IntRange(0, 8*ndp.Size-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		var got ndp.Header
		err := got.Parse(b)
		isMark := bit/8 == 3 && ndp.Flags(1<<(bit%8))&(ndp.FlagTrimmed|ndp.FlagReturned) != 0
		switch {
		case isMark && (err != nil || !got.SameAs(&sent)):
			t.Fatalf("a switch's mark is refused: %v", err)
		case !isMark && !errors.Is(err, ndp.ErrForeign) && !errors.Is(err, ndp.ErrChecksum):
			t.Fatalf("bit %d was flipped, Parse returned %v", bit, err)
		}
	})
}

func TestForeignBytesAreRefused(t *testing.T) {
	good := (&ndp.Header{Kind: ndp.Pull, Counter: 7}).AppendTo(nil)
	tests := map[string]func(b []byte) []byte{
		"one byte short":  func(b []byte) []byte { return b[:ndp.Size-1] },
		"nothing":         func([]byte) []byte { return nil },
		"another magic":   func(b []byte) []byte { b[0] = 0; return b },
		"another version": func(b []byte) []byte { b[2] = 0x24; return b },
		"kind 0":          func(b []byte) []byte { b[2] = 0x10; return b },
		"kind 5":          func(b []byte) []byte { b[2] = 0x15; return b },
		"a reserved flag": func(b []byte) []byte { b[3] = 0x10; return b },
		"all zero":        func([]byte) []byte { return make([]byte, ndp.Size) },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			h := ndp.Header{Seq: 99}
			if err := h.Parse(damage(append([]byte(nil), good...))); !errors.Is(err, ndp.ErrForeign) {
				t.Errorf("got %v", err)
			}
			if (h != ndp.Header{Seq: 99}) {
				t.Error("the header changed")
			}
		})
	}
}

func TestTrimmingShowsInTheMarkOrInTheLength(t *testing.T) {
	tests := []struct {
		name    string
		header  ndp.Header
		arrived int
		want    bool
	}{
		{"whole", ndp.Header{Kind: ndp.Data, Length: 1000}, ndp.Size + 1000, false},
		{"whole with Ethernet padding counted in", ndp.Header{Kind: ndp.Data, Length: 1}, ndp.Size + 10, false},
		{"cut by a switch that marks nothing", ndp.Header{Kind: ndp.Data, Length: 1000}, ndp.Size + 999, true},
		{"marked, but nothing to cut", ndp.Header{Kind: ndp.Data, Flags: ndp.FlagTrimmed}, ndp.Size, true},
		{"control packets have no payload", ndp.Header{Kind: ndp.Ack}, ndp.Size, false},
	}
	for _, test := range tests {
		if got := test.header.Trimmed(test.arrived); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, h := range []ndp.Header{{Kind: ndp.Data, Flags: 15, Length: 1458}, {Kind: ndp.Ack, Seq: 1},
		{Kind: ndp.Pull, Counter: 1 << 31}} {
		f.Add(h.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, parsed ndp.Header
		if err := h.Parse(b); err != nil {
			return
		}
		out := h.AppendTo(nil)
		if err := parsed.Parse(out); err != nil || parsed != h {
			t.Fatalf("%+v became %+v, %v", h, parsed, err)
		}
		// ^0 and 0 are the same one's complement sum; everything else must be unchanged.
		if string(out[:20]) != string(b[:20]) {
			t.Fatalf("%x became %x", b[:ndp.Size], out)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	in := (&ndp.Header{Kind: ndp.Data, Connection: 5, Seq: 77, Length: 1458}).AppendTo(nil)
	var h ndp.Header
	for b.Loop() {
		if err := h.Parse(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendTo(b *testing.B) {
	h := ndp.Header{Kind: ndp.Data, Connection: 5, Seq: 77, Length: 1458}
	buf := make([]byte, 0, ndp.Size)
	for b.Loop() {
		buf = h.AppendTo(buf[:0])
	}
}
