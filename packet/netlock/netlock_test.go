package netlock_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
)

func samples() []netlock.Header {
	return []netlock.Header{
		{Op: netlock.Acquire, Mode: netlock.Exclusive, Client: 3, Transaction: 0x01020304, Lock: 55_000, Timestamp: 7},
		{Op: netlock.Release, Client: 255, Transaction: 9, Lock: 1, Mark: netlock.BufferOnly, Priority: 2, Tenant: 515},
		{Op: netlock.PushRequest, Lock: 1, Mark: netlock.BufferOnly, Avail: 16, Sent: 1 << 40},
		{Op: netlock.PushBack, Mode: netlock.Exclusive, Transaction: 9, Lock: 1, Last: true, Received: 5, Index: 4,
			Address: netip.MustParseAddr("10.0.0.7")},
		{Op: netlock.PushEmpty, Lock: 1, Received: 5, Address: netip.MustParseAddr("fd00::7")},
	}
}

func TestTheLayoutIsTheDocumentedOne(t *testing.T) {
	for i, c := range []struct{ want, text string }{
		{"00000103" + "01020304" + "0000d6d8" + "0000000000000007",
			"ACQUIRE X lock 55000 transaction 16909060 client 3"},
		{"000100ff" + "00000009" + "00000001" + "0000000000000000" + "02" + "100102" + "11020203",
			"RELEASE S lock 1 transaction 9 client 255 BUFFER_ONLY priority 2 tenant 515"},
		{"00050000" + "00000000" + "00000001" + "0000000000000000" + "02" + "130400000010" + "14080000010000000000",
			"PUSH_REQ S lock 1 transaction 0 client 0 BUFFER_ONLY avail 16 sent 1099511627776"},
		{"00020100" + "00000009" + "00000001" + "0000000000000000" + "1200" + "15080000000000000005" +
			"16080000000000000004" + "17040a000007",
			"PUSH_BACK X lock 1 transaction 9 client 0 received 5 index 4 last of 10.0.0.7"},
		{"00060000" + "00000000" + "00000001" + "0000000000000000" + "15080000000000000005" +
			"1710fd000000000000000000000000000007", "PUSH_EMPTY S lock 1 transaction 0 client 0 received 5 of fd00::7"},
	} {
		h := samples()[i]
		if got := hex.EncodeToString(h.AppendTo(nil)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if h.String() != c.text {
			t.Errorf("it prints as %q, want %q", h.String(), c.text)
		}
	}
}

// The layout of the first 20 bytes is the artefact's; with Ethernet, IP and UDP a request has 62 bytes.
func TestARequestHasTheSizeOfTheModel(t *testing.T) {
	h := samples()[0]
	if got := len(h.AppendTo(nil)); got != netlock.Size || 14+20+8+got != 62 {
		t.Errorf("%d bytes", got)
	}
	largest := netlock.Header{Mark: netlock.Owned, Priority: 1, Tenant: 1, Last: true, Avail: 1, Sent: 1, Received: 1,
		Index: 1, Address: netip.IPv6Loopback()}
	if got := len(largest.AppendTo(nil)); got != netlock.MaxSize {
		t.Errorf("the largest has %d bytes, want %d", got, netlock.MaxSize)
	}
}

func TestEveryHeaderComesBackFromItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := netlock.Header{Passes: rapid.Uint8Range(0, 2).Draw(t, "passes"),
			Op: netlock.Op(rapid.Uint8Range(0, 6).Draw(t, "op")), Mode: netlock.Mode(rapid.Uint8Range(0, 1).Draw(t, "mode")),
			Client: rapid.Uint8().Draw(t, "client"), Transaction: rapid.Uint32().Draw(t, "transaction"),
			Lock: rapid.Uint32().Draw(t, "lock"), Timestamp: rapid.Uint64().Draw(t, "timestamp"),
			Mark:     netlock.Mark(rapid.Uint8Range(0, 3).Draw(t, "mark")),
			Priority: rapid.Uint8().Draw(t, "priority"), Tenant: rapid.Uint16().Draw(t, "tenant"),
			Last: rapid.Bool().Draw(t, "last"), Avail: rapid.Uint32().Draw(t, "avail"), Sent: rapid.Uint64().Draw(t, "sent"),
			Received: rapid.Uint64().Draw(t, "received"), Index: rapid.Uint64().Draw(t, "index")}
		if n := rapid.SampledFrom([]int{0, 4, 16}).Draw(t, "address"); n > 0 {
			want.Address, _ = netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes"))
		}
		padding := make([]byte, rapid.IntRange(0, 3).Draw(t, "padding"))
		b := append(want.AppendTo(nil), padding...)
		var got netlock.Header
		if err := got.Parse(b); err != nil || got != want {
			t.Fatalf("got %v, %v, want %v", &got, err, &want)
		}
	})
}

func TestErrorsSayWhere(t *testing.T) {
	const request = "00000103" + "01020304" + "0000d6d8" + "0000000000000007"
	for _, c := range []struct{ bytes, want string }{
		{"", "0 bytes, want at least 20"},
		{request[:38], "19 bytes, want at least 20"},
		{"03" + request[2:], "byte 0: 3 passes, want 0 to 2"},
		{"0007" + request[4:], "byte 1: operation 7, want 0 to 6"},
		{"000002" + request[6:], "byte 2: mode 2, want 0 (shared) or 1 (exclusive)"},
		{request + "04", "byte 20: option 4, want 16 to 23"},
		{request + "0203", "byte 21: option 3, want 16 to 23"},
		{request + "18", "byte 20: option 24, want 16 to 23"},
		{request + "10", "byte 20: option 16 is longer than the packet of 21 bytes"},
		{request + "13040000", "byte 20: option 19 is longer than the packet of 24 bytes"},
		{request + "100101100101", "byte 23: option 16 after option 16, want each once and in order"},
		{request + "11020001100101", "byte 24: option 16 after option 17, want each once and in order"},
		{request + "10020001", "byte 20: option 16: a value of 2 bytes, want 1"},
		{request + "100100", "byte 20: option 16: a value of 0, which is sent without the option"},
		{request + "17050102030405", "byte 20: option 23: an address of 5 bytes, want 4 or 16"},
	} {
		in, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		before := samples()[3]
		h := before
		if err := h.Parse(in); !errors.Is(err, netlock.ErrForeign) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.bytes, err, c.want)
		}
		if h != before {
			t.Errorf("%s: the header has changed", c.bytes)
		}
	}
}

func TestNothingIsAllocatedPerPacket(t *testing.T) {
	b := make([]byte, 0, netlock.MaxSize)
	var got netlock.Header
	for _, h := range samples() {
		if n := runtimetest.FewestAllocs(0, func() {
			if err := got.Parse(h.AppendTo(b)); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%v: %v allocations", &h, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, h := range samples() {
		f.Add(h.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h netlock.Header
		if err := h.Parse(b); err != nil {
			if h != (netlock.Header{}) {
				t.Fatal("an error changed the header")
			}
			return
		}
		if out := h.AppendTo(nil); len(out) > netlock.MaxSize || !bytes.Equal(out, b[:len(out)]) {
			t.Fatalf("%x became %x", b, out)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	h := samples()[3]
	in := h.AppendTo(nil)
	for b.Loop() {
		if err := h.Parse(in); err != nil {
			b.Fatal(err)
		}
	}
}
