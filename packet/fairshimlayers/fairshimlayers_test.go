package fairshimlayers_test

import (
	"net"
	"os"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/packet/fairshim"
	"candela.dev/candela/packet/fairshimlayers"
	"candela.dev/candela/runtimetest"
)

func TestMain(m *testing.M) {
	fairshimlayers.Register()
	fairshimlayers.Register() // harmless
	os.Exit(m.Run())
}

func frame(t testing.TB, h fairshim.Header) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: fairshim.Protocol, SrcIP: net.IP{10, 0, 0, 1},
		DstIP: net.IP{10, 0, 0, 2}}
	udp := &layers.UDP{SrcPort: 50000, DstPort: 9}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, opts, eth, ip, &fairshimlayers.Label{Header: h}, udp,
		gopacket.Payload("payload")); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func label() (h fairshim.Header) {
	h.Next, h.Kbps = 17, 5_797_000
	h.SetNodes(1, 7)
	return h
}

func TestLabelsThatWereWrittenAreRead(t *testing.T) {
	p := gopacket.NewPacket(frame(t, label()), layers.LayerTypeEthernet, gopacket.Default)
	if p.ErrorLayer() != nil {
		t.Fatal(p.ErrorLayer().Error())
	}
	got, ok := p.Layer(fairshimlayers.LayerTypeLabel).(*fairshimlayers.Label)
	if !ok || got.Header != label() {
		t.Fatalf("got %v", got)
	}
	if udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); !ok || udp.DstPort != 9 || string(udp.Payload) != "payload" {
		t.Errorf("after it: %v", p)
	}
}

func TestAForeignShimIsAnErrorLayer(t *testing.T) {
	b := frame(t, label())
	b[34] = 0x21
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	if p.ErrorLayer() == nil || p.Layer(fairshimlayers.LayerTypeLabel) != nil {
		t.Error("another version passes")
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	b := frame(t, label())
	var eth layers.Ethernet
	var ip layers.IPv4
	var l fairshimlayers.Label
	var udp layers.UDP
	var rest gopacket.Payload
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip, &l, &udp, &rest)
	var seen []gopacket.LayerType
	if n := runtimetest.FewestAllocs(0, func() {
		if err := parser.DecodeLayers(b, &seen); err != nil {
			t.Fatal(err)
		}
	}); n > 0 || len(seen) != 5 {
		t.Errorf("%v allocations, layers %v", n, seen)
	}
}

func FuzzDecode(f *testing.F) {
	h := label()
	f.Add(h.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l fairshimlayers.Label
		if err := l.DecodeFromBytes(b, gopacket.NilDecodeFeedback); err == nil && len(l.Contents)+len(l.Payload) != len(b) {
			t.Fatal("layers are not the data")
		}
	})
}
