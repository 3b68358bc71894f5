package live

import (
	"net/netip"
	"testing"

	"candela.dev/candela/packet"
)

func neighbour() *Neighbour {
	return &Neighbour{MAC: packet.MAC{2, 0, 0, 0, 0, 1},
		IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}
}

// solicit returns a valid solicitation for a target.
func solicit(src, target netip.Addr) []byte {
	group := netip.MustParseAddr("ff02::1:ff00:1").As16()
	s, g := src.As16(), target.As16()
	b := append([]byte{0x33, 0x33, 0xff, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 58, 255}, s[:]...)
	b = append(b, group[:]...)
	icmp := append([]byte{solicitation, 0, 0, 0, 0, 0, 0, 0}, g[:]...)
	sum := icmpChecksum(b[22:54], icmp)
	icmp[2], icmp[3] = byte(sum>>8), byte(sum)
	return append(b, icmp...)
}

func TestASolicitationForOurAddressIsAdvertised(t *testing.T) {
	n := neighbour()
	asker := netip.MustParseAddr("fd00::9")
	got := n.Answer(nil, solicit(asker, n.IPs[1]))
	if len(got) != 14+40+32 {
		t.Fatalf("%d bytes: % x", len(got), got)
	}
	icmp := got[54:]
	if icmp[0] != advertisement || icmp[4] != 0x60 || netip.AddrFrom16([16]byte(icmp[8:24])) != n.IPs[1] ||
		packet.MAC(icmp[26:32]) != n.MAC || netip.AddrFrom16([16]byte(got[38:54])) != asker {
		t.Errorf("advertisement % x", got)
	}
	if icmpChecksum(got[22:54], icmp) != 0 {
		t.Error("the checksum is wrong")
	}
}

func TestWhatIsNotForUsStaysUnanswered(t *testing.T) {
	n := neighbour()
	other := solicit(netip.MustParseAddr("fd00::9"), netip.MustParseAddr("fd00::2"))
	routed := solicit(netip.MustParseAddr("fd00::9"), n.IPs[1])
	routed[21] = 64
	damaged := solicit(netip.MustParseAddr("fd00::9"), n.IPs[1])
	damaged[57] ^= 1
	for name, frame := range map[string][]byte{"another target": other, "over a router": routed,
		"a wrong checksum": damaged,
		"nothing":          nil, "half a header": other[:30]} {
		if got := n.Answer(nil, frame); got != nil {
			t.Errorf("%s: % x", name, got)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	n := neighbour()
	f.Add(solicit(netip.MustParseAddr("fd00::9"), n.IPs[1]))
	f.Add(append(make([]byte, 12), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 1, 2, 3, 4, 5, 6, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0,
		1))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if got := n.Answer(nil, frame); got != nil && (len(got) < packet.EthernetLen || packet.MAC(got[6:12]) != n.MAC) {
			t.Errorf("answer % x", got)
		}
	})
}
