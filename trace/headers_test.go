package trace

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet"
)

// over6 moves a packet to IPv6.
func over6(p *packet.Packet) *packet.Packet {
	p.Eth.Type, p.IP.Version, p.IP.Src, p.IP.Dst = packet.EtherTypeIPv6, 6, address6(1), address6(2)
	return p
}

// TestTheQuickChecksumOfAHeaderAgreesWithTheChecksum includes the headers whose other words sum to 0xffff: their
// checksum is 0, not 0xffff.
func TestTheQuickChecksumOfAHeaderAgreesWithTheChecksum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	h := make([]byte, packet.IPv4Len)
	for i := range 20_000 {
		for j := range h {
			h[j] = byte(rng.Uint32())
			if i%3 == 0 {
				h[j] |= 0xf0 // many carries
			}
		}
		h[0], h[10], h[11] = 0x45, 0, 0
		if i%2 == 0 { // the other words sum to 0xffff
			h[18], h[19] = 0, 0
			binary.BigEndian.PutUint16(h[18:], packet.HeaderChecksum(h))
		}
		right := packet.HeaderChecksum(h)
		for _, sum := range []uint16{right, right ^ 1<<(i%16), right + 1, ^right, 0, 0xffff} {
			binary.BigEndian.PutUint16(h[10:], sum)
			if got, want := checksumHolds(h), packet.HeaderChecksum(h) == sum; got != want {
				t.Fatalf("% x: %t, want %t", h, got, want)
			}
		}
	}
}

// TestAnyFlippedBitOfACopyIsFound flips each bit that the iCRC covers.
func TestAnyFlippedBitOfACopyIsFound(t *testing.T) {
	four, six := testPacket(packet.WriteMiddle, 17, 5, 24), over6(testPacket(packet.WriteMiddle, 17, 5, 24))
	for _, p := range []*packet.Packet{four, six} {
		ip := p.AppendTo(nil)[packet.EthernetLen:]
		if at, ok := flippedBit(ip); ok {
			t.Errorf("IPv%d: bit %d of a whole packet is flipped", p.IP.Version, at)
		}
		right := packet.ComputeICRC(ip[:len(ip)-packet.ICRCLen])
		covered := 0
		for bit := range 8 * len(ip) {
			ip[bit/8] ^= 1 << (bit % 8)
			end := len(ip) - packet.ICRCLen
			other := ip[0]>>4 == 4 && ip[0] != 0x45 || p.IP.Version == 4 && bit < 8 // another layout, which shows by itself
			if !other && (bit/8 >= end || packet.ComputeICRC(ip[:end]) != right) {
				covered++
				if at, ok := flippedBit(ip); !ok || at != bit {
					t.Errorf("IPv%d: bit %d is flipped, found %d, %t", p.IP.Version, bit, at, ok)
				}
			}
			ip[bit/8] ^= 1 << (bit % 8)
		}
		if covered < 8*(packet.BTHLen+24) {
			t.Errorf("IPv%d: %d bits are covered", p.IP.Version, covered)
		}
	}
}

func TestADamagedCopyIsNamedByFrameAndBit(t *testing.T) {
	const at = packet.EthernetLen + packet.IPv4Len + packet.UDPLen + 11
	_, report, err := Check(t.Context(), damagedFile(t, func(f []byte) { f[at] ^= 1 << 6 }), Options{Format: FormatMirror})
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{"frame 6, mirror #6: bit 6 of byte 53 is flipped"}
	if c := report.Condition(ConditionCopies); !slices.Equal(c.Damaged, want) {
		t.Errorf("%q, want %q", c.Damaged, want)
	}
}

// TestTheShorterLengthEndsAPacket has a UDP length below that of the IP header, as of a NIC that pads.
func TestTheShorterLengthEndsAPacket(t *testing.T) {
	for _, less := range []int{4, 20} {
		frame := testPacket(packet.WriteMiddle, 17, 5, 64).AppendTo(nil)
		const udp = packet.EthernetLen + packet.IPv4Len
		binary.BigEndian.PutUint16(frame[udp+4:], be16(frame[udp+4:])-uint16(less))
		var r Record
		err := NewDecoder(FormatPlain, nil, false).Decode(&Frame{Number: 1, Data: frame}, &r)
		if err != nil || int(r.PayloadLen) != 64-less {
			t.Errorf("%d bytes less: payload of %d bytes, %v", less, r.PayloadLen, err)
		}
	}
}

// TestWhatTwoTapsCompareBesideRecords looks at identification, TTL, port and length of either IP version.
func TestWhatTwoTapsCompareBesideRecords(t *testing.T) {
	four := testPacket(packet.WriteMiddle, 17, 5, 64)
	four.IP.ID, four.IP.TTL = 0x1234, 61
	six := over6(testPacket(packet.WriteMiddle, 17, 5, 64))
	six.IP.TTL = 59
	for _, tc := range []struct {
		p    *packet.Packet
		want observation
	}{
		{four, observation{port: 49152, ipID: 0x1234, ttl: 61}}, {six, observation{port: 49152, ttl: 59}},
	} {
		data := tc.p.AppendTo(nil)
		for _, cut := range []int{0, 1} {
			var got observation
			got.look(&Frame{Data: data, OrigLen: len(data) - cut})
			want := tc.want
			if want.short = cut > 0; got != want {
				t.Errorf("IPv%d, %d bytes short on the wire: %+v, want %+v", tc.p.IP.Version, cut, got, want)
			}
		}
	}
}

// TestSecondSightingsBehindARouterAreKnownByTheirTTL repeats a frame with a TTL that is lower by one.
func TestSecondSightingsBehindARouterAreKnownByTheirTTL(t *testing.T) {
	four, six := testPacket(packet.WriteMiddle, 17, 5, 64), over6(testPacket(packet.WriteMiddle, 17, 5, 64))
	for _, p := range []*packet.Packet{four, six} {
		first := p.AppendTo(nil)
		p.IP.TTL--
		second := p.AppendTo(nil)
		tw := newTwins(twinWindowNS, -1)
		if _, _, twin, roce := tw.twin(&Frame{Data: first, TimeNS: 1000}); twin || !roce {
			t.Errorf("IPv%d: the first frame: twin %t, RoCE %t", p.IP.Version, twin, roce)
		}
		if gap, hops, twin, _ := tw.twin(&Frame{Data: second, TimeNS: 1900}); !twin || gap != 900 || hops != 1 {
			t.Errorf("IPv%d: twin %t after %d ns, TTL %d lower", p.IP.Version, twin, gap, hops)
		}
		if _, _, twin, _ := tw.twin(&Frame{Data: second, TimeNS: 2000}); twin {
			t.Errorf("IPv%d: a third frame is a second copy, too", p.IP.Version)
		}
	}
}

// TestRequestsOfOneDirectionAreSecondSightingsIfIdentificationsShowRetransmissions has a capture of requests alone,
// each twice.
func TestRequestsOfOneDirectionAreSecondSightingsIfIdentificationsShowRetransmissions(t *testing.T) {
	for name, tc := range map[string]struct {
		six, identified, twice bool
	}{
		"each frame has an identification of its own": {identified: true, twice: true},
		"all have the same":                           {},
		"IPv6 has none":                               {six: true},
	} {
		var list []written
		for i := range 30 {
			p := testPacket(packet.WriteMiddle, 17, packet.PSN(i), 64+4*i) // lengths are where IPv4 has the identification
			if p.IP.ID = 7; tc.identified {
				p.IP.ID = uint16(i)
			}
			if tc.six {
				over6(p)
			}
			at, f := int64(i+1)*2000, p.AppendTo(nil)
			list = append(list, written{at, f, len(f)}, written{at + 300, f, len(f)})
		}
		list = append(list, written{90_000, testPacket(packet.WriteMiddle, 17, 31, 64).AppendTo(nil), 100})
		_, note, err := memorySource("tap.pcap", pcapOf(t, list)).withoutTwins(t.Context())
		if err != nil || (note != "") != tc.twice {
			t.Errorf("%s: note %q, %v", name, note, err)
		}
	}
}

// TestTheLengthOfATunnelledPacketIsThatWithoutTheTunnel captures the start of packets in VXLAN.
func TestTheLengthOfATunnelledPacketIsThatWithoutTheTunnel(t *testing.T) {
	inner := testPacket(packet.WriteMiddle, 17, 5, 1024).AppendTo(nil)
	eth := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP}
	ip.SrcIP, ip.DstIP = []byte{192, 0, 2, 1}, []byte{192, 0, 2, 2}
	udp := &layers.UDP{SrcPort: 50000, DstPort: 4789}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true}, eth, ip, udp,
		&layers.VXLAN{ValidIDFlag: true, VNI: 5}, gopacket.Payload(inner))
	if err != nil {
		t.Fatal(err)
	}
	const snap = 200
	src := memorySource("tunnel.pcap", pcapOf(t, []written{{1000, b.Bytes()[:snap], len(b.Bytes())}}))
	frames := 0
	err = src.ForEachFrame(t.Context(), func(f *Frame) error {
		frames++
		outer := len(b.Bytes()) - len(inner)
		if f.OrigLen != len(inner) || !bytes.Equal(f.Data, inner[:snap-outer]) {
			t.Errorf("%d of %d bytes, want %d of %d", len(f.Data), f.OrigLen, snap-outer, len(inner))
		}
		return nil
	})
	if err != nil || frames != 1 {
		t.Errorf("%d frames, %v", frames, err)
	}
}

// TestTapsKnowAHostByItsAddressInEitherDirection has a conversation, and what is no UDP.
func TestTapsKnowAHostByItsAddressInEitherDirection(t *testing.T) {
	for _, six := range []bool{false, true} {
		var d TapDecoder
		there, back := testPacket(packet.WriteMiddle, 17, 5, 64), testPacket(packet.WriteMiddle, 17, 5, 64)
		if six {
			over6(there)
			over6(back)
		}
		back.IP.Src, back.IP.Dst = back.IP.Dst, back.IP.Src
		var numbers []uint32
		for _, p := range []*packet.Packet{there, back} {
			frame := p.AppendTo(nil)
			var tap Tap
			_, src, dst, ok := tap.parseIP(uint16(p.Eth.Type), frame[packet.EthernetLen:])
			if !ok || tap.IPv6 != six {
				t.Fatalf("IPv6 %t: parsed %t as %t", six, ok, tap.IPv6)
			}
			numbers = append(numbers, d.host(src), d.host(dst))
			next := packet.EthernetLen + 9
			if six {
				next = packet.EthernetLen + 6
			}
			frame[next] = 6 // TCP
			if _, _, _, ok := tap.parseIP(uint16(p.Eth.Type), frame[packet.EthernetLen:]); ok {
				t.Errorf("IPv6 %t: TCP is taken for UDP", six)
			}
		}
		if want := []uint32{0, 1, 1, 0}; !slices.Equal(numbers, want) {
			t.Errorf("IPv6 %t: hosts %v, want %v", six, numbers, want)
		}
	}
}

// TestPacketsOfTwoLimitedMembersAreOfAnotherPartition: neither accepts what the other sends (IBTA volume 1, 10.9.3).
func TestPacketsOfTwoLimitedMembersAreOfAnotherPartition(t *testing.T) {
	const limited = 0x1234
	for _, full := range []bool{false, true} {
		var p Partitions
		key := uint16(limited)
		if full {
			key |= fullMember
		}
		for range 2 {
			for _, flow := range []FlowID{0, 1} {
				r := Record{Flow: flow, PKey: key, Flags: Sent | Passed, Opcode: packet.WriteMiddle}
				p.Mark(&r)
				if other, known := p.Key(flow.Peer()); known && r.Has(ForeignPKey) == full {
					t.Errorf("full member %t, flow %d: the receiver's key is %#x, marked: %t", full, flow, other, r.Has(ForeignPKey))
				}
			}
		}
	}
	var alone Partitions // of the second connection nothing came back yet
	r := Record{Flow: 2, PKey: DefaultPKey, Flags: Sent | Passed, Opcode: packet.WriteMiddle}
	if alone.Learn(&r); alone.Usual(&r) {
		t.Error("the key of a receiver that has sent nothing is not known")
	}
}

// TestSequenceNumbersOfThePrototypeThatComeLateAreOutOfOrder wraps from 2^31-1 to 1 near the number that is late.
func TestSequenceNumbersOfThePrototypeThatComeLateAreOutOfOrder(t *testing.T) {
	for _, at := range []uint64{1, 2, 3, 100} {
		c := sequenceCheck{modulus: FormatLumina}
		seq := func(i int) uint64 { return (luminaMaxSeq-at+uint64(i)-1)%luminaMaxSeq + 1 }
		for frame, i := range []int{1, 2, 5, 6, 3, 4, 7} {
			c.add(seq(i), uint64(frame+1))
		}
		if c.missing != 0 || c.disorder != 2 || c.dups != 0 || len(c.holes) != 0 {
			t.Errorf("from %d: %d missing, %d out of order, %d repeated", seq(1), c.missing, c.disorder, c.dups)
		}
		if c.add(seq(3), 8); c.dups != 1 {
			t.Errorf("from %d: a repeated number is not noticed", seq(1))
		}
	}
}

// TestFormatsAreFoundByCounting has the source addresses of mirror copies and of hosts, at each bound.
func TestFormatsAreFoundByCounting(t *testing.T) {
	count := func(from, step uint64, n int) (list []uint64) {
		for i := range uint64(n) {
			list = append(list, (from+i*step)&stampMask)
		}
		return list
	}
	for name, tc := range map[string]struct {
		src, dst []uint64
		want     bool
	}{
		"consecutive":                     {count(5, 1, 20), nil, true},
		"around the circle":               {count(stampMask-3, 1, 20), nil, true},
		"of one of many cores":            {count(5, nearConsecutive, 20), nil, true},
		"far apart":                       {count(5, nearConsecutive+1, 20), nil, false},
		"a quarter is repeated":           {append(count(5, 1, 15), count(5, 1, 5)...), nil, false},
		"a quarter of all is repeated":    {append(count(5, 1, 16), count(5, 1, 4)...), nil, true},
		"two of seven are repeated":       {append(count(5, 1, 5), count(5, 1, 2)...), make([]uint64, 7), false},
		"half of the senders are sent to": {count(1, 1, 4), []uint64{2, 3, 90, 91}, true},
		"most senders are sent to":        {count(1, 1, 4), []uint64{2, 3, 4, 91}, false},
		"a sender is sent to by itself":   {count(1, 1, 4), []uint64{1, 3, 4, 2}, true},
	} {
		if tc.dst == nil {
			tc.dst = make([]uint64, len(tc.src))
		}
		e := evidence{src: tc.src, dst: tc.dst}
		if got := e.counting(); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestOneWrongConnectionIsAnError has nothing else that is wrong.
func TestOneWrongConnectionIsAnError(t *testing.T) {
	a, b := Side{netip.MustParseAddr("10.0.0.1"), 17, 1}, Side{netip.MustParseAddr("10.0.0.2"), 18, 1}
	good := Connection{Index: 1, MTU: 1024, Requester: a, Responder: b}
	if _, err := NewConnections([]Connection{good}); err != nil {
		t.Fatal(err)
	}
	bad := good
	bad.MTU = 1500
	if _, err := NewConnections([]Connection{bad}); err == nil || !strings.Contains(err.Error(), "connections[0].mtu") {
		t.Errorf("%v", err)
	}
}
