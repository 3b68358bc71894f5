package fairshim_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/packet/fairshim"
	"candela.dev/candela/runtimetest"
)

func shim(next byte, kbps uint32, nodes ...uint16) (h fairshim.Header) {
	h.Next, h.Kbps = next, kbps
	h.SetNodes(nodes...)
	return h
}

func drawn() *rapid.Generator[fairshim.Header] {
	return rapid.Custom(func(t *rapid.T) fairshim.Header {
		ids := rapid.SliceOfNDistinct(rapid.Uint16Range(1, 1<<16-1), 0, fairshim.MaxDepth-1, rapid.ID).Draw(t, "nodes")
		slices.Sort(ids)
		return shim(rapid.ByteRange(0, 252).Draw(t, "next"), rapid.Uint32().Draw(t, "rate"), ids...)
	})
}

func TestTheLayoutIsTheDocumentedOne(t *testing.T) {
	for _, c := range []struct {
		h    fairshim.Header
		want string
		text string
	}{
		{shim(17, 5_797_000), "111100587488", "label 5.797 Gb/s at nodes [0] then protocol 17"},
		{shim(6, 400_000_000, 1, 0x203), "130617d7840000010203", "label 400 Gb/s at nodes [0 1 515] then protocol 6"},
	} {
		got := c.h.AppendTo(nil)
		if hex.EncodeToString(got) != c.want || len(got) != c.h.Size() || len(got) != 4+2*int(c.h.Depth) {
			t.Errorf("got %x, want %s, of %d bytes", got, c.want, c.h.Size())
		}
		if c.h.String() != c.text {
			t.Errorf("it prints as %q", c.h.String())
		}
	}
}

func TestEveryShimComesBackFromItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawn().Draw(t, "shim")
		b := want.AppendTo([]byte("before"))
		var got fairshim.Header
		if err := got.Parse(append(b[len("before"):], "payload"...)); err != nil || got != want {
			t.Fatalf("got %v, %v", &got, err)
		}
	})
}

func TestErrorsSayWhere(t *testing.T) {
	for _, c := range []struct{ bytes, want string }{
		{"", "0 bytes, want at least 6"},
		{"1111005874", "5 bytes, want at least 6"},
		{"211100587488", "byte 0: version 2, want 1"},
		{"101100587488", "byte 0: no node, want 1 to 15"},
		{"11fd00587488", "byte 1: protocol 253 announces a second label"},
		{"12110058748800", "7 bytes, want 8 with 2 nodes"},
		{"1211005874880000", "byte 6: node 0 is below node 0, want a number above it"},
		{"131100587488000a000a", "byte 8: node 10 is below node 10, want a number above it"},
	} {
		in, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		before := shim(1, 2, 3)
		h := before
		if err := h.Parse(in); !errors.Is(err, fairshim.ErrForeign) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.bytes, err, c.want)
		}
		if h != before {
			t.Errorf("%s: the shim has changed", c.bytes)
		}
	}
}

// frames are IPv4 and IPv6 frames with a UDP datagram, whose IPv4 checksum is right.
func frames() (list [][]byte) {
	for _, text := range []string{
		"02cade00000202cade0000010800" + "4500001e00014000fa11" + "6ccb" + "0a0000010a000002" + "c000000900" + "0a00001234",
		"02cade00000202cade00000186dd" + "60012345000a11fa" + "fd0000ca00de00000000000000000001" +
			"fd0000ca00de00000000000000000002" + "c0000009000a00001234",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			panic(err)
		}
		list = append(list, b)
	}
	return list
}

func sums(header []byte) (total uint32) {
	for i := 0; i < len(header); i += 2 {
		total += uint32(header[i])<<8 | uint32(header[i+1])
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return total
}

// The IP header announces the shim, its length counts it and its checksum is right; what follows is as it was.
func TestAShimIsInsertedAndRemoved(t *testing.T) {
	for i, plain := range frames() {
		end := []int{34, 54}[i]
		h := shim(0, 5_797_000, 1, 7)
		got, err := h.Insert(append([]byte("before"), plain...), len("before"))
		if err != nil || h.Next != 17 {
			t.Fatal(err, h.Next)
		}
		frame := got[len("before"):]
		if want := append(h.AppendTo(nil), plain[end:]...); !bytes.Equal(frame[end:], want) {
			t.Errorf("after the IP header %x, want %x", frame[end:], want)
		}
		if i == 0 && (frame[23] != fairshim.Protocol || frame[17] != 0x1e+10 || sums(frame[14:34]) != 0xffff) ||
			i == 1 && (frame[20] != fairshim.Protocol || frame[19] != 10+10) {
			t.Errorf("IP header %x", frame[14:end])
		}
		again := h
		if _, err := again.Insert(frame, 0); err == nil || !strings.Contains(err.Error(), "the frame has a label") {
			t.Errorf("a second shim: %v", err)
		}
		var read fairshim.Header
		back, ok, err := read.Remove(bytes.Clone(frame))
		if err != nil || !ok || read != h || !bytes.Equal(back, plain) {
			t.Errorf("%v, %v, %v:\n%x, want\n%x", &read, ok, err, back, plain)
		}
		if _, ok, err := read.Remove(bytes.Clone(plain)); ok || err != nil {
			t.Errorf("a frame without a shim: %v, %v", ok, err)
		}
		frame[end] = 0x51
		if _, _, err := read.Remove(frame); err == nil || !strings.Contains(err.Error(), "byte 0: version 5") {
			t.Errorf("a damaged shim: %v", err)
		}
	}
	h := shim(0, 1)
	for _, c := range []struct{ bytes, want string }{
		{"02cade", "frame of 3 bytes has no IP header"},
		{strings.Repeat("00", 40), "byte 12: EtherType 0x0000"},
		{"02cade00000202cade0000010800" + "4f" + strings.Repeat("00", 30), "byte 14: IP header of 60 bytes in a frame of 45"},
		{"02cade00000202cade0000010800" + "4500fffa" + strings.Repeat("00", 30), "byte 16: a length of 65536"},
	} {
		b, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := h.Insert(bytes.Clone(b), 0); err == nil || !strings.Contains(err.Error(), c.want) ||
			!bytes.Equal(out, b) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

func TestNothingIsAllocatedPerFrame(t *testing.T) {
	plain := frames()[0]
	b := make([]byte, 0, 2*len(plain)+2*fairshim.MaxSize)
	h := shim(0, 7, 1, 2)
	if n := runtimetest.FewestAllocs(0, func() {
		out, err := h.Insert(append(b, plain...), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := h.Remove(out); !ok || err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, h := range []fairshim.Header{shim(17, 1), shim(6, 1<<32-1, 1, 2, 3)} {
		f.Add(h.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h fairshim.Header
		if h.Parse(b) != nil {
			return
		}
		if out := h.AppendTo(nil); !bytes.Equal(out, b[:len(out)]) {
			t.Fatalf("%x became %x", b, out)
		}
	})
}

// A frame with a shim stays what it is if that is taken out and put back, apart from its padding and its checksum.
func FuzzRemove(f *testing.F) {
	for _, plain := range frames() {
		h := shim(0, 7, 1)
		frame, err := h.Insert(bytes.Clone(plain), 0)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plain)
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again fairshim.Header
		plain, ok, err := h.Remove(bytes.Clone(b))
		if err != nil || !ok {
			if !bytes.Equal(plain, b) {
				t.Fatal("the frame has changed")
			}
			return
		}
		again = h
		out, err := again.Insert(bytes.Clone(plain), 0)
		if err != nil || again != h || len(out) != len(b) {
			t.Fatalf("%v, %v: %x became %x", err, &again, b, out)
		}
		for i := range b {
			if sum := b[12] == 8 && i >= 24 && i < 26; !sum && out[i] != b[i] {
				t.Fatalf("byte %d: %x became %x", i, b, out)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	h := shim(17, 5_797_000, 1, 7)
	in := h.AppendTo(nil)
	for b.Loop() {
		if err := h.Parse(in); err != nil {
			b.Fatal(err)
		}
	}
}
