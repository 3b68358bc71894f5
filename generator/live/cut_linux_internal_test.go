package live

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
)

// TestACutPacketReachesTheNIC: a switch that trims below the extended headers leaves a RoCE frame, which the NIC counts
// as received and as damaged. The NIC does not count other unparsable frames.
func TestACutPacketReachesTheNIC(t *testing.T) {
	own := packet.MAC{2, 0, 0, 0, 0, 1}
	ip := [2]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")}
	for _, tt := range []struct {
		size int // bytes after trimming, from the IP header on
		port uint16
		take bool
	}{{60, packet.Port, true}, {63, packet.Port, true}, {64, packet.Port, true}, {59, packet.Port, false},
		{60, 4790, false}} {
		nic, err := rdma.NewNIC(rdma.Config{Name: "n", MAC: own, IPs: ip[:1], Profile: rdma.Spec(), PortRate: clock.Gbps,
			Rand: rand.New(rand.NewPCG(1, 2))})
		if err != nil {
			t.Fatal(err)
		}
		p := &packet.Packet{
			Derived: true, HasUDP: true, Headers: packet.HasBTH | packet.HasAETH, Payload: bytes.Repeat([]byte{7}, 1024),
			Eth: packet.Ethernet{Type: packet.EtherTypeIPv6, Dst: own},
			IP:  packet.IP{Version: 6, TTL: 9, Protocol: packet.ProtocolUDP, Src: ip[1], Dst: ip[0]},
			UDP: packet.UDP{SrcPort: 5, DstPort: tt.port},
			BTH: packet.BTH{Opcode: packet.ReadResponseOnly, PSN: 3, DestQP: 4},
		}
		p.Trim(tt.size, 48, packet.TrimUpdateIPLength)
		h := &Host{nic: nic}
		took, err := (*hostCore)(h).take(0, p.AppendTo(nil))
		if err != nil || took != tt.take {
			t.Errorf("%d bytes to port %d: taken %v, %v; want %v", tt.size, tt.port, took, err, tt.take)
		}
		counted := map[string]uint64{"rx_vport_rdma_unicast_packets": 0, "rx_icrc_encapsulated": 0}
		for _, c := range nic.ListCounters() {
			if _, ok := counted[c.Name]; ok {
				counted[c.Name] = c.Value
			}
		}
		for name, n := range counted {
			if tt.take != (n == 1) {
				t.Errorf("%d bytes to port %d: %s is %d", tt.size, tt.port, name, n)
			}
		}
	}
}
