package trace

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"candela.dev/candela/packet"
	"candela.dev/candela/packet/fairshim"
	"candela.dev/candela/packet/netlock"
)

// otherFrame is a frame that is not RoCE, with ports 49152 and 9 if its protocol has any.
func otherFrame(t testing.TB, version, protocol uint8, label *fairshim.Header) []byte {
	t.Helper()
	frame := make([]byte, packet.EthernetLen, 200)
	const payload = 40
	switch version {
	case 4:
		binary.BigEndian.PutUint16(frame[12:], packet.EtherTypeIPv4)
		ip := make([]byte, packet.IPv4Len)
		ip[0], ip[8], ip[9] = 0x45, 64, protocol
		binary.BigEndian.PutUint16(ip[2:], packet.IPv4Len+payload)
		copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
		binary.BigEndian.PutUint16(ip[10:], packet.HeaderChecksum(ip))
		frame = append(frame, ip...)
	case 6:
		binary.BigEndian.PutUint16(frame[12:], packet.EtherTypeIPv6)
		ip := make([]byte, packet.IPv6Len)
		ip[0], ip[6], ip[7], ip[23], ip[39] = 0x60, protocol, 64, 1, 2
		ip[4], ip[5] = 0, payload
		ip[8], ip[24] = 0xfd, 0xfd
		frame = append(frame, ip...)
	}
	frame = append(frame, 0xc0, 0, 0, 9)
	frame = append(frame, make([]byte, payload-4)...)
	if label != nil {
		var err error
		if frame, err = label.Insert(frame, 0); err != nil {
			t.Fatal(err)
		}
	}
	return frame
}

func TestFramesWithoutRoCEAreShownWithTheirLabels(t *testing.T) {
	labelled := func(version, protocol uint8, ids ...uint16) []byte {
		h := &fairshim.Header{Kbps: 2_463_000}
		h.SetNodes(ids...)
		return otherFrame(t, version, protocol, h)
	}
	foreign := labelled(4, packet.ProtocolUDP)
	foreign[packet.EthernetLen+packet.IPv4Len] = 0x71
	fragment := otherFrame(t, 4, 6, nil)
	fragment[packet.EthernetLen+7] = 1
	locked := otherFrame(t, 4, packet.ProtocolUDP, nil)
	const udp = packet.EthernetLen + packet.IPv4Len
	copy(locked[udp+2:], []byte{0x22, 0xb8, 0, 40})
	request := (&netlock.Header{Op: netlock.Release, Mode: netlock.Exclusive, Transaction: 7, Lock: 55_000}).AppendTo(nil)
	copy(locked[udp+packet.UDPLen:], request)
	arp := append(bytes.Repeat([]byte{2}, 12), 8, 6, 0, 1)
	for _, c := range []struct {
		frame []byte
		want  string
	}{
		{otherFrame(t, 4, packet.ProtocolUDP, nil), "10.0.0.1:49152 -> 10.0.0.2:9  UDP 74 B"},
		{otherFrame(t, 6, 6, nil), "[fd00::1]:49152 -> [fd00::2]:9  TCP 94 B"},
		{otherFrame(t, 4, 89, nil), "10.0.0.1 -> 10.0.0.2  protocol 89 74 B"},
		{labelled(4, packet.ProtocolUDP, 1, 5), "10.0.0.1:49152 -> 10.0.0.2:9  UDP 84 B  label 2.463 Gb/s [0 1 5]"},
		{labelled(6, 6), "[fd00::1]:49152 -> [fd00::2]:9  TCP 100 B  label 2.463 Gb/s [0]"},
		{foreign, "10.0.0.1 -> 10.0.0.2  protocol 253 80 B  not a label of this version: byte 0: version 7, want 1"},
		{fragment, "10.0.0.1 -> 10.0.0.2  TCP 74 B"},
		{locked, "10.0.0.1:49152 -> 10.0.0.2:8888  UDP 74 B  RELEASE X lock 55000 transaction 7 client 0"},
		{arp, "02:02:02:02:02:02 -> 02:02:02:02:02:02  EtherType 0x0806 16 B"},
		{arp[:8], "8 B, Ethernet at byte 0: needs 14 bytes, the frame has 8 left"},
	} {
		if got := frameText(&Frame{Data: c.frame, OrigLen: len(c.frame)}); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestShownFramesAreThoseThatWereAskedFor(t *testing.T) {
	var file bytes.Buffer
	w := NewPcapWriter(&file, "frames", 0)
	frame := otherFrame(t, 4, packet.ProtocolUDP, nil)
	for i := range 9 {
		if err := w.Write(int64(7_000_000+1500*i), frame, len(frame)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	src := memorySource("frames", file.Bytes())
	for _, c := range []struct {
		o    ShowOptions
		want string // numbers of frames
		err  string
	}{
		{ShowOptions{}, "1 2 3 4 5 6 7 8 9", ""}, {ShowOptions{Limit: 2}, "1 2", ""},
		{ShowOptions{Around: 4, Context: 1}, "3 4 5", ""}, {ShowOptions{Around: 9, Context: 2}, "7 8 9", ""},
		{ShowOptions{Around: 10}, "", "no packet has the id 10"},
	} {
		var out strings.Builder
		err := ShowFrames(t.Context(), src, &out, c.o)
		var numbers []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "#")
			number, _, _ := strings.Cut(rest, " ")
			numbers = append(numbers, number)
		}
		if got := strings.Join(numbers, " "); got != c.want || (err != nil) != (c.err != "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %q, %v", c.o, got, err)
		}
	}
	var out strings.Builder
	if err := ShowFrames(t.Context(), src, &out, ShowOptions{Limit: 2}); err != nil {
		t.Fatal(err)
	}
	const want = "#1  t=0 ns               10.0.0.1:49152 -> 10.0.0.2:9  UDP 74 B\n" +
		"#2  t=1.5 us   +1.5 us   10.0.0.1:49152 -> 10.0.0.2:9  UDP 74 B\n"
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
	cut := memorySource("frames", file.Bytes()[:file.Len()-3])
	if err := ShowFrames(t.Context(), cut, &out, ShowOptions{}); err == nil || !strings.Contains(err.Error(), "packet 9") {
		t.Errorf("a file that is cut off: %v", err)
	}
}

func FuzzFrameText(f *testing.F) {
	f.Add(otherFrame(f, 4, packet.ProtocolUDP, &fairshim.Header{Depth: 1, Kbps: 7}))
	f.Add(otherFrame(f, 6, 6, nil))
	f.Add([]byte{1, 2})
	f.Fuzz(func(t *testing.T, frame []byte) {
		if text := frameText(&Frame{Data: frame, OrigLen: len(frame)}); text == "" || strings.Contains(text, "\n") {
			t.Errorf("%q", text)
		}
	})
}
