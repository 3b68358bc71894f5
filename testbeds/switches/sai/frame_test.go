package sai_test

import (
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet"
	"candela.dev/candela/sai"
	model "candela.dev/candela/testbeds/switches/sai"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// fromFrame reads an observation from a captured frame.
func fromFrame(t *testing.T, frame []byte) (o sai.Observation) {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	o.Length = len(frame)
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		o.DSCP, o.ECN, o.TTL, o.IPLength = ip.TOS>>2, ip.TOS&3, ip.TTL, int(ip.Length)
		header := append([]byte(nil), ip.LayerContents()...)
		header[10], header[11] = 0, 0
		o.ChecksumWrong = packet.HeaderChecksum(header) != ip.Checksum
	case *layers.IPv6:
		o.DSCP, o.ECN, o.TTL, o.IPLength = ip.TrafficClass>>2, ip.TrafficClass&3, ip.HopLimit, int(ip.Length)+40
	default:
		t.Fatalf("no IP header: %v", p)
	}
	return o
}

func TestObservationsAreWhatFramesSay(t *testing.T) {
	for _, bug := range []string{"", "checksum-stale", "length-stale"} {
		s := scenario{hosts: 4, set: trimming(), flows: v6(incast(3, 60, 1500))}
		if bug != "" {
			s.bugs = []string{bug}
		}
		v := model.Model().Parameters.Defaults()
		s.set(v)
		net, _ := build(t, s, v, mustSpec(t, v))
		var last sai.Observation
		copies, wrong := 0, 0
		net.SetTap(observe(net, func(o *sai.Observation) { last = *o }))
		net.SetTap(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
			if at.Host || at.Stage == fabric.Dropped {
				return
			}
			frame := fromFrame(t, new(wire.Codecs).Append(nil, &p.Header, nil))
			seen := sai.Observation{
				DSCP: last.DSCP, ECN: last.ECN, TTL: last.TTL, IPLength: last.IPLength, Length: last.Length,
				ChecksumWrong: last.ChecksumWrong,
			}
			if frame != seen {
				t.Fatalf("%q: the frame says %+v, the observation %+v", bug, frame, seen)
			}
			if p.Size < p.Original {
				copies++
			}
			if frame.ChecksumWrong || frame.IPLength != frame.Length-sai.EthernetHeader {
				wrong++
			}
		})
		if err := net.Run(clock.Time(clock.Second)); err != nil {
			t.Fatal(err)
		}
		if copies == 0 || (wrong > 0) != (bug != "") {
			t.Errorf("%q: %d copies, %d frames with a wrong length or checksum", bug, copies, wrong)
		}
	}
}

func mustSpec(t *testing.T, v parameter.Values) fabric.SwitchSpec {
	t.Helper()
	spec, err := model.SwitchSpec(v)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}
