package trace_test

import (
	"net"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/trace"
)

// ndpFrame returns a frame whose IP header covers all of the given payload.
func ndpFrame(t testing.TB, six bool, h ndp.Header, payload int) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6),
		EthernetType: layers.EthernetTypeIPv4}
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	} = &layers.IPv4{Version: 4, IHL: 5, TTL: 64, TOS: 26<<2 | 2, Protocol: layers.IPProtocolUDP,
		SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
	if six {
		eth.EthernetType = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: 64, TrafficClass: 26<<2 | 2, NextHeader: layers.IPProtocolUDP,
			SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::2")}
	}
	udp := &layers.UDP{SrcPort: 50000, DstPort: ndp.Port}
	if h.Flags&ndp.FlagReturned != 0 {
		udp.SrcPort, udp.DstPort = udp.DstPort, udp.SrcPort
	}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	body := append(h.AppendTo(nil), make([]byte, payload)...)
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, eth, ip,
		udp, gopacket.Payload(body)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTapsReadCapturedNDPPackets(t *testing.T) {
	tests := []struct {
		name     string
		six      bool
		header   ndp.Header
		payload  int
		snap     int
		size     int32
		trimmed  bool
		returned bool
	}{
		{name: "whole", header: ndp.Header{Kind: ndp.Data, Seq: 4, Length: 1436}, payload: 1436, size: 1500},
		{name: "whole, captured in part", header: ndp.Header{Kind: ndp.Data, Seq: 4, Length: 1436}, payload: 1436, snap: 64,
			size: 1500},
		{name: "trimmed", six: true, header: ndp.Header{Kind: ndp.Data, Flags: ndp.FlagTrimmed, Length: 1436}, size: 84,
			trimmed: true},
		{name: "returned", header: ndp.Header{Kind: ndp.Data, Flags: ndp.FlagTrimmed | ndp.FlagReturned, Length: 1436},
			size: 64, trimmed: true, returned: true},
		{name: "an ACK", six: true, header: ndp.Header{Kind: ndp.Ack, Seq: 4, Counter: 5}, size: 84},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data := ndpFrame(t, test.six, test.header, test.payload)
			if test.snap > 0 {
				data = data[:test.snap]
			}
			var d trace.TapDecoder
			var got trace.Tap
			if !d.Decode(&trace.Frame{Data: data, TimeNS: 1_000_005}, trace.TapAfter, 1_000_000, &got) {
				t.Fatal("it is not taken for NDP")
			}
			want := trace.Tap{Time: clock.Time(5 * clock.Nanosecond), Number: 1, Point: trace.TapAfter, IPv6: test.six, DSCP: 26,
				ECN: 2,
				Dst: 1, Size: test.size, Payload: int32(test.payload), NDP: test.header}
			if got != want {
				t.Errorf("\n got %+v\nwant %+v", got, want)
			}
			if got.Trimmed() != test.trimmed || got.Returned() != test.returned || d.Hosts() != 2 {
				t.Errorf("trimmed %v, returned %v, %d hosts", got.Trimmed(), got.Returned(), d.Hosts())
			}
		})
	}
}

func FuzzTapDecoder(f *testing.F) {
	f.Add(ndpFrame(f, false, ndp.Header{Kind: ndp.Data, Length: 10}, 10))
	f.Add(ndpFrame(f, true, ndp.Header{Kind: ndp.Pull}, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d trace.TapDecoder
		var got trace.Tap
		if d.Decode(&trace.Frame{Data: b}, trace.TapBefore, 0, &got) && (got.Payload < 0 || got.Size < 0) {
			t.Fatalf("%+v", got)
		}
	})
}
