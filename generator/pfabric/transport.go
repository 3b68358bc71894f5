package pfabric

import (
	"encoding/binary"
	"strings"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/tcp"
	"candela.dev/candela/trace"
)

// Transport declares pFabric as a transport of switch tests.
func Transport() wire.Transport {
	var bugs []parameter.Bug
	for _, b := range Catalogue() {
		bugs = append(bugs, parameter.Bug{Name: b.Name, Doc: strings.ToUpper(b.What[:1]) + b.What[1:] + ".", Rule: b.Rule})
	}
	return wire.Transport{
		Model: parameter.Model{
			Name: "pfabric",
			Doc: "pFabric's hosts (Alizadeh et al., SIGCOMM 2013): a first window at line rate, an ACK for each packet, a " +
				"fixed timeout, probes after several in a row. Ranks are `remaining` unless the workload says otherwise.",
			Parameters: parameter.Table{
				wire.PacketSize(),
				{Name: "initial-window", Kind: parameter.Integer, Unit: "packets", Default: "12", Min: 1, Max: 1 << 20,
					Doc: "Window that a flow starts with, and its first threshold: a bandwidth-delay product."},
				{Name: "rto-us", Kind: parameter.Duration, Unit: "us", Default: "45", Min: 1, Max: 10_000_000,
					Doc: "Timeout, which is never backed off: three round trips of the empty network."},
				{Name: "probe-after", Kind: parameter.Integer, Default: "5", Max: 1 << 20,
					Doc: "Timeouts in a row after which a flow sends probes instead of data; 0: never."},
			},
			Bugs: bugs,
		},
		Protocol: trace.ProtocolPFabric, Reliable: true, OnePacketSize: true, Ranks: true, Simulated: true,
		Ranking: wire.Ranking{Kind: wire.RankByBytes}, Codec: Codec(),
		Data:       func(h *wire.Header) bool { return KindOf(h) == Data },
		Connection: func(h *wire.Header) uint32 { return h.TCP.SACK.Start },
	}
}

// The header's fields are in the packet where TCP has its own: a packet carries one of both.
//
//	TCP.Flags       kind
//	TCP.SACK.Start  connection
//	TCP.Seq         number
//	TCP.Ack         total

// KindOf returns what a packet is for.
func KindOf(h *wire.Header) Kind { return Kind(h.TCP.Flags) }

// Fill writes the header of p into that of a packet.
func (p *Packet) Fill(h *wire.Header) {
	h.TCP = tcp.Header{Flags: tcp.Flags(p.Kind), Seq: p.Number, Ack: p.Total, SACK: tcp.Block{Start: p.Connection}}
	h.Number = p.Number
}

// FromHeader returns the packet of a header with so many bytes of payload.
func FromHeader(h *wire.Header, payload int) Packet {
	return Packet{From: Endpoint(h.Src), To: Endpoint(h.Dst), Kind: KindOf(h), Connection: h.TCP.SACK.Start,
		Number: h.TCP.Seq, Total: h.TCP.Ack, Payload: payload, Rank: h.Rank}
}

// Port is the UDP port of receivers, and HeaderLen the length of the header after that of UDP: kind, 3 bytes of zero,
// connection, number, total, rank.
const (
	Port      = 4899
	HeaderLen = 24
)

// Codec returns the codec.
func Codec() *wire.Codec {
	return wire.UDP{
		Port: Port, Len: HeaderLen,
		Append: func(b []byte, h *wire.Header) []byte {
			b = append(b, byte(h.TCP.Flags), 0, 0, 0)
			b = binary.BigEndian.AppendUint32(b, h.TCP.SACK.Start)
			b = binary.BigEndian.AppendUint32(b, h.TCP.Seq)
			b = binary.BigEndian.AppendUint32(b, h.TCP.Ack)
			return binary.BigEndian.AppendUint64(b, h.Rank)
		},
		Parse: func(body []byte, h *wire.Header) bool {
			if len(body) < HeaderLen || body[0] < byte(Data) || body[0] > byte(Probe) {
				return false
			}
			p := Packet{Kind: Kind(body[0]), Connection: binary.BigEndian.Uint32(body[4:]),
				Number: binary.BigEndian.Uint32(body[8:]), Total: binary.BigEndian.Uint32(body[12:])}
			p.Fill(h)
			h.SetRank(binary.BigEndian.Uint64(body[16:]))
			h.Flow = FlowOf(h.Src, h.Dst, &p)
			return true
		},
	}.Codec()
}

// FlowOf returns the flow of a packet between two hosts: the sender of data in the upper half, its number of the
// connection in the lower half.
func FlowOf(src, dst wire.HostID, p *Packet) uint32 {
	if p.Kind == Ack {
		src = dst
	}
	return uint32(src)<<16 ^ p.Connection
}
