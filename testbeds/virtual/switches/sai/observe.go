package sai

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Tap returns a fabric tap that shows what enters and leaves the switch of m to observe, as taps on its links would see it. The
// queue by which a packet leaves is told too: mirrored ports of a real switch do not.
func (m *Mechanism) Tap(observe func(*sai.Observation)) fabric.Tap {
	var records uint64
	var o sai.Observation
	return func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if at.Host || at.Node != m.sw.ID() || at.Port >= m.sw.Ports() || at.Stage == fabric.Dropped {
			return
		}
		records++
		o = observation(p)
		o.ID, o.TimePS, o.Port = records, int64(now), at.Port
		o.Side, o.Queue = sai.Before, sai.UnknownQueue
		if at.Stage == fabric.Egress {
			o.Side, o.Queue = sai.After, at.Queue
		}
		observe(&o)
	}
}

// Numbers of IP protocols.
const (
	protocolUDP  = 17
	protocolTCP  = 6
	protocolICMP = 1
)

func observation(p *fabric.Packet) sai.Observation {
	o := sai.Observation{
		Signature: signature(p), Src: Address(p.Src, p.IPv6), Dst: Address(p.Dst, p.IPv6),
		SrcPort: p.Entropy, DstPort: uint16(p.Protocol), Protocol: protocolUDP,
		DSCP: p.DSCP, ECN: uint8(p.ECN), TTL: p.TTL,
		Length: int(p.Size), IPLength: int(p.Size) - sai.EthernetHeader,
	}
	switch p.Protocol {
	case fabric.TCP:
		o.Protocol = protocolTCP
	case fabric.Echo:
		o.Protocol = protocolICMP
	case fabric.Raw, fabric.NDP, fabric.RoCE, fabric.PFC:
	}
	if p.Flags&fabric.LengthStale != 0 {
		o.IPLength = int(p.Original) - sai.EthernetHeader
	}
	o.ChecksumWrong = p.Flags&fabric.HeaderSumStale != 0 && !p.IPv6
	if p.Meta&metaPortsSwapped != 0 {
		o.SrcPort, o.DstPort = o.DstPort, o.SrcPort
	}
	return o
}

// signature is what a generator stamps on a packet: its flow and its number, which but for TCP's data count retransmissions apart. Of
// TCP, either end counts for itself. Answers to NDP data that came twice have nothing else to differ by than the path tag: they may
// overtake each other on different paths.
func signature(p *fabric.Packet) uint64 {
	number := uint64(p.Number)
	switch p.Protocol {
	case fabric.TCP:
		origin := p.Src
		if p.Flags&fabric.Returned != 0 {
			origin = p.Dst
		}
		number ^= mix(uint64(origin) + 1)
	case fabric.NDP:
		number = uint64(p.NDP.Seq)<<32 | uint64(p.NDP.Counter)<<8 | uint64(p.NDP.Kind)
		if p.NDP.Kind != ndp.Data {
			number ^= 1<<63 ^ mix(uint64(p.Entropy))
		}
	case fabric.Raw, fabric.RoCE, fabric.Echo, fabric.PFC:
	}
	return mix(mix(uint64(p.Flow)<<8|uint64(p.Protocol)) ^ number)
}

// mix is the finaliser of splitmix64: a bijection that leaves no pattern.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
