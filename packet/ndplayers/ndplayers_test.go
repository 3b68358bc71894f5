package ndplayers_test

import (
	"bytes"
	"net"
	"os"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/packet/ndplayers"
	"candela.dev/candela/runtimetest"
)

func TestMain(m *testing.M) {
	ndplayers.Register()
	ndplayers.Register() // harmless
	os.Exit(m.Run())
}

func frame(t testing.TB, h ndp.Header, payload []byte, fromPort bool) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1},
		DstIP: net.IP{10, 0, 0, 2}}
	udp := &layers.UDP{SrcPort: 50000, DstPort: ndp.Port}
	if fromPort {
		udp.SrcPort, udp.DstPort = udp.DstPort, udp.SrcPort
	}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, opts, eth, ip, udp, &ndplayers.NDP{Header: h},
		gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPacketsThatWereWrittenAreRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := ndp.Header{
			Kind: ndp.Kind(rapid.IntRange(1, 4).Draw(rt, "kind")), Flags: ndp.Flags(rapid.IntRange(0, 15).Draw(rt, "flags")),
			Connection: rapid.Uint32().Draw(rt, "connection"), Seq: rapid.Uint32().Draw(rt, "seq"),
			Counter: rapid.Uint32().Draw(rt, "counter"),
			Path:    rapid.Uint16().Draw(rt, "path"),
		}
		var payload []byte
		if want.Kind == ndp.Data {
			want.Length = 1000
			payload = make([]byte, 1000)
			if want.Flags&ndp.FlagTrimmed != 0 {
				payload = payload[:rapid.IntRange(0, 999).Draw(rt, "left")]
			}
		}
		p := gopacket.NewPacket(frame(t, want, payload, rapid.Bool().Draw(rt, "from port")), layers.LayerTypeEthernet,
			gopacket.Default)
		if p.ErrorLayer() != nil {
			rt.Fatal(p.ErrorLayer().Error())
		}
		got, ok := p.Layer(ndplayers.LayerTypeNDP).(*ndplayers.NDP)
		if !ok || got.Header != want || !bytes.Equal(got.Payload, payload) {
			rt.Fatalf("got %+v, want %+v", got, want)
		}
		if trimmed := want.Kind == ndp.Data && want.Flags&ndp.FlagTrimmed != 0; got.Trimmed() != trimmed {
			rt.Fatalf("trimmed: %v", got.Trimmed())
		}
	})
}

func TestForeignPayloadIsAnErrorLayer(t *testing.T) {
	b := frame(t, ndp.Header{Kind: ndp.Ack}, nil, false)
	b[len(b)-1] ^= 1
	p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
	if p.ErrorLayer() == nil || p.Layer(ndplayers.LayerTypeNDP) != nil {
		t.Error("a wrong header checksum passes")
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	b := frame(t, ndp.Header{Kind: ndp.Data}, make([]byte, 100), false)
	var eth layers.Ethernet
	var ip layers.IPv4
	var udp layers.UDP
	var l ndplayers.NDP
	var rest gopacket.Payload
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip, &udp, &l, &rest)
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
	f.Add((&ndp.Header{Kind: ndp.Data, Length: 4}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l ndplayers.NDP
		if err := l.DecodeFromBytes(b, gopacket.NilDecodeFeedback); err == nil && len(l.Contents)+len(l.Payload) > len(b) {
			t.Fatal("layers reach beyond the data")
		}
	})
}
