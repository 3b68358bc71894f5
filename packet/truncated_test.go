package packet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"candela.dev/candela/packet"
)

// headersLen returns the length of everything before the payload of a sample.
func headersLen(p *packet.Packet) int {
	n := len(p.AppendTo(nil)) - packet.ICRCLen - int(p.BTH.PadCount) - len(p.Payload)
	return n - len(p.Trailer)
}

func TestFramesCutAtAnyLength(t *testing.T) {
	for _, s := range samples() {
		frame := s.p.AppendTo(nil)
		headers := headersLen(s.p)
		for n := range len(frame) {
			var got packet.Packet
			err := got.Parse(frame[:n:n])
			switch {
			case n < headers:
				if err == nil || !errors.Is(err, packet.ErrMalformed) {
					t.Fatalf("%s cut to %d bytes: error %v", s.name, n, err)
				}
				continue
			case err != nil:
				t.Fatalf("%s cut to %d bytes: %v", s.name, n, err)
			}
			if !got.Truncated() || got.PayloadLen() != len(s.p.Payload) {
				t.Fatalf("%s cut to %d bytes: truncated %v, payload length %d, want %d", s.name, n, got.Truncated(),
					got.PayloadLen(), len(s.p.Payload))
			}
			if got.BTH != s.p.BTH {
				t.Fatalf("%s cut to %d bytes: BTH %+v", s.name, n, got.BTH)
			}
			if status := packet.CheckICRC(frame[:n:n], &got); status != packet.ICRCNotCheckable {
				t.Fatalf("%s cut to %d bytes: iCRC %v", s.name, n, status)
			}
			if encoded := got.AppendTo(nil); !bytes.Equal(encoded, frame[:n]) || len(encoded) != got.Len() {
				t.Fatalf("%s cut to %d bytes came out as\n%x, want\n%x", s.name, n, encoded, frame[:n])
			}
		}
	}
}

// otherTraffic is a frame that is not RoCE: UDP to another port.
func otherTraffic(payload int) []byte {
	p := &packet.Packet{Derived: true, HasUDP: true, UDP: packet.UDP{SrcPort: 1000, DstPort: 53},
		Payload: make([]byte, payload)}
	overIPv4(p)
	return p.AppendTo(nil)
}

func TestTruncatedFramesOfOtherProtocolsHaveNoPadOrICRC(t *testing.T) {
	frame := otherTraffic(100)
	var p packet.Packet
	if err := p.Parse(frame[:80]); err != nil {
		t.Fatal(err)
	}
	if p.IsRoCE() || !p.Truncated() || p.PayloadLen() != 100 {
		t.Errorf("RoCE %v, truncated %v, payload length %d; want a truncated payload of 100", p.IsRoCE(), p.Truncated(),
			p.PayloadLen())
	}
}

func TestLengthFieldsThatDisagree(t *testing.T) {
	const (
		ipLength  = packet.EthernetLen + 2
		udpLength = packet.EthernetLen + packet.IPv4Len + 4
		payload   = 40
		rocePart  = packet.BTHLen + payload + packet.ICRCLen
	)
	tests := []struct {
		name            string
		ip, udp         int // added to the right values
		cut             int // bytes missing at the end of the frame
		wantErr         bool
		wantTruncated   bool
		wantPayload     int
		wantTrailerSize int
	}{
		{name: "both right", wantPayload: payload},
		{name: "trimmed, IP length updated, UDP length not", ip: -20, cut: 20, wantTruncated: true, wantPayload: payload},
		{name: "trimmed, both updated", ip: -20, udp: -20, cut: 20, wantPayload: payload - 20},
		{name: "trimmed, UDP length updated, IP length not", udp: -20, cut: 20, wantPayload: payload - 20},
		{name: "UDP ends before IP: the rest is not part of the packet", udp: -20, wantPayload: payload - 20,
			wantTrailerSize: 20},
		{name: "UDP reaches past IP", udp: 8, wantTruncated: true, wantPayload: payload + 8},
		{name: "UDP length below its own header", udp: -(rocePart + 1), wantErr: true},
		{name: "UDP length ends inside the BTH", udp: -(rocePart - 4), wantErr: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := sample(packet.WriteMiddle, payload)
			overIPv4(p)
			frame := p.AppendTo(nil)
			for at, change := range map[int]int{ipLength: test.ip, udpLength: test.udp} {
				binary.BigEndian.PutUint16(frame[at:], uint16(int(binary.BigEndian.Uint16(frame[at:]))+change))
			}
			frame = frame[:len(frame)-test.cut]
			var got packet.Packet
			err := got.Parse(frame)
			if test.wantErr {
				if !errors.Is(err, packet.ErrMalformed) {
					t.Fatalf("error %v, want a malformed packet", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Truncated() != test.wantTruncated || got.PayloadLen() != test.wantPayload ||
				len(got.Trailer) != test.wantTrailerSize {
				t.Errorf("truncated %v, payload %d, trailer %d; want %v, %d, %d", got.Truncated(), got.PayloadLen(),
					len(got.Trailer),
					test.wantTruncated, test.wantPayload, test.wantTrailerSize)
			}
			if encoded := got.AppendTo(nil); !bytes.Equal(encoded, frame) {
				t.Errorf("came out as\n%x, want\n%x", encoded, frame)
			}
		})
	}
}

func TestEthernetPaddingIsNoPartOfThePacket(t *testing.T) {
	p := sample(packet.Acknowledge, 0)
	overIPv4(p)
	frame := append(p.AppendTo(nil), 1, 2, 3, 4, 5)
	var got packet.Packet
	if err := got.Parse(frame); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Trailer, []byte{1, 2, 3, 4, 5}) || got.PayloadLen() != 0 {
		t.Errorf("trailer %x, payload of %d bytes", got.Trailer, got.PayloadLen())
	}
	if status := packet.CheckICRC(frame, &got); status != packet.ICRCValid {
		t.Errorf("iCRC is %v", status)
	}
}

func TestFramesThatAreNotRoCEParseAsFarAsTheyGo(t *testing.T) {
	fragment := sample(packet.WriteMiddle, 64)
	overIPv4(fragment)
	fragment.IP.FlagsFragment = 0x2000
	icmp := &packet.Packet{Derived: true, Payload: make([]byte, 32)}
	overIPv4(icmp)
	icmp.IP.Protocol = 1
	tests := []struct {
		name    string
		frame   []byte
		version uint8
		udp     bool
		payload int
	}{
		{"ARP", append(append(make([]byte, 12), 8, 6), make([]byte, 46)...), 0, false, 46},
		{"LLDP after a VLAN tag", append(append(make([]byte, 12), 0x81, 0, 0, 5, 0x88, 0xcc), make([]byte, 42)...), 0, false,
			42},
		{"stacked VLAN tags", append(append(make([]byte, 12), 0x81, 0, 0, 5, 0x81, 0, 0, 6, 8, 0), make([]byte, 38)...), 0,
			false, 42},
		{"DNS", otherTraffic(12), 4, true, 12},
		{"ICMP", icmp.AppendTo(nil), 4, false, 32},
		{"a fragment of a RoCE packet", fragment.AppendTo(nil), 4, false, 8 + 12 + 64 + 4},
	}
	for _, test := range tests {
		var p packet.Packet
		if err := p.Parse(test.frame); err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if p.IsRoCE() || p.IP.Version != test.version || p.HasUDP != test.udp || p.PayloadLen() != test.payload {
			t.Errorf("%s: RoCE %v, IP version %d, UDP %v, payload %d", test.name, p.IsRoCE(), p.IP.Version, p.HasUDP,
				p.PayloadLen())
		}
		if encoded := p.AppendTo(nil); !bytes.Equal(encoded, test.frame) {
			t.Errorf("%s came out as\n%x, want\n%x", test.name, encoded, test.frame)
		}
		if status := p.CheckICRC(); status != packet.ICRCNotCheckable {
			t.Errorf("%s: iCRC %v", test.name, status)
		}
	}
}

func TestParseErrorsNameLayerOffsetAndProblem(t *testing.T) {
	good := func() []byte {
		p := sample(packet.WriteFirst, 4)
		overIPv4(p)
		return p.AppendTo(nil)
	}
	tests := []struct {
		want  string
		frame []byte
	}{
		{"Ethernet at byte 0: needs 14 bytes, the frame has 13 left", good()[:13]},
		{"802.1Q at byte 14: needs 4 bytes, the frame has 2 left", append(append(make([]byte, 12), 0x81, 0), 0, 5)},
		{"IPv4 at byte 14: needs 20 bytes, the frame has 19 left", good()[:33]},
		{"IPv4 at byte 14: version field is 5", patched(good(), 14, 0x55)},
		{"IPv4 at byte 14: header length field says 16 bytes, below 20", patched(good(), 14, 0x44)},
		{"IPv4 at byte 14: total length 8 is below the header's 20 bytes", patched(good(), 16, 0, 8)},
		{"UDP at byte 34: needs 8 bytes, the frame has 7 left", good()[:41]},
		{"UDP at byte 34: length field says 7 bytes, below 8", patched(good(), 38, 0, 7)},
		{"BTH at byte 42: needs 12 bytes, the frame has 11 left", good()[:53]},
		{"WRITE_FIRST extended headers at byte 54: needs 16 bytes, the frame has 15 left", good()[:69]},
		{"pad and iCRC at byte 70: needs 7 bytes, the frame has 4 left", patched(patched(good(), 38, 0, 40), 43, 0x30)},
	}
	for _, test := range tests {
		var p packet.Packet
		err := p.Parse(test.frame)
		if err == nil || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
		if layer, _, _ := strings.Cut(test.want, " "); p.IsRoCE() || layer == "IPv4" && p.IP.Version != 0 {
			t.Errorf("%s: counts as RoCE %v, IP version %d", test.want, p.IsRoCE(), p.IP.Version)
		}
	}
}

func patched(frame []byte, at int, with ...byte) []byte {
	copy(frame[at:], with)
	return frame
}
