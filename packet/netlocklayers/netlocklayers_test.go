package netlocklayers_test

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/packet/netlocklayers"
	"candela.dev/candela/runtimetest"
)

func TestMain(m *testing.M) {
	netlocklayers.Register()
	netlocklayers.Register() // harmless
	os.Exit(m.Run())
}

func request() netlock.Header {
	return netlock.Header{Op: netlock.PushBack, Mode: netlock.Exclusive, Client: 3, Transaction: 9, Lock: 55_000,
		Last: true, Mark: netlock.Owned, Received: 7, Address: netip.MustParseAddr("10.0.0.7")}
}

func frame(t testing.TB, h netlock.Header, port layers.UDPPort) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1},
		DstIP: net.IP{10, 0, 0, 2}}
	udp := &layers.UDP{SrcPort: 50000, DstPort: port}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, opts, eth, ip, udp, &netlocklayers.NetLock{Header: h}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPacketsThatWereWrittenAreRead(t *testing.T) {
	for _, port := range []layers.UDPPort{netlock.Port, netlock.ReplyPort} {
		p := gopacket.NewPacket(frame(t, request(), port), layers.LayerTypeEthernet, gopacket.Default)
		if p.ErrorLayer() != nil {
			t.Fatal(p.ErrorLayer().Error())
		}
		got, ok := p.Layer(netlocklayers.LayerTypeNetLock).(*netlocklayers.NetLock)
		if !ok || got.Header != request() {
			t.Errorf("port %d: got %v", port, got)
		}
	}
}

func TestForeignPacketsAreAnErrorLayer(t *testing.T) {
	b := frame(t, request(), netlock.Port)
	b[43] = 9 // operation
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	if p.ErrorLayer() == nil || p.Layer(netlocklayers.LayerTypeNetLock) != nil {
		t.Error("an unknown operation passes")
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	b := frame(t, request(), netlock.Port)
	var eth layers.Ethernet
	var ip layers.IPv4
	var udp layers.UDP
	var l netlocklayers.NetLock
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip, &udp, &l)
	var seen []gopacket.LayerType
	if n := runtimetest.FewestAllocs(0, func() {
		if err := parser.DecodeLayers(b, &seen); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if l.Header != request() {
		t.Errorf("got %v", &l.Header)
	}
}
