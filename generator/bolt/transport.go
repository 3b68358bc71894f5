package bolt

import (
	"encoding/binary"
	"strings"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/tcp"
	"candela.dev/candela/trace"
)

// Transport declares Bolt as a transport of switch tests.
func Transport() wire.Transport {
	var bugs []parameter.Bug
	for _, b := range Catalogue() {
		bugs = append(bugs, parameter.Bug{Name: b.Name, Doc: strings.ToUpper(b.What[:1]) + b.What[1:] + ".", Rule: b.Rule})
	}
	return wire.Transport{
		Model: parameter.Model{
			Name: "bolt",
			Doc: "Bolt's hosts (Arslan et al., NSDI 2023): windows follow SRC packets and the tokens of switches " +
				"(`bolt-src`, `bolt-pru`, `bolt-sm` of every switch model).",
			Parameters: parameter.Table{
				wire.PacketSize(),
				{Name: "initial-window", Kind: parameter.Integer, Unit: "packets", Default: "32", Min: 1, Max: 1 << 20,
					Doc: "Window that a flow starts with: a bandwidth-delay product."},
				{Name: "max-window", Kind: parameter.Integer, Unit: "packets", Default: "256", Min: 1, Max: 1 << 20,
					Doc: "Greatest window, as in the authors' simulator."},
				{Name: "min-window", Kind: parameter.Number, Unit: "packets", Default: "0.01", Max: 1,
					Doc: "Least window: below one packet they are paced."},
				{Name: "increase", Kind: parameter.Number, Unit: "packets", Default: "1", Max: 1024,
					Doc: "What a round trip adds to the window."},
				{Name: "rto-us", Kind: parameter.Duration, Unit: "us", Default: "1000", Min: 1, Max: 10_000_000,
					Doc: "Timeout, which is never backed off."},
				{Name: "reorder", Kind: parameter.Integer, Unit: "packets", Default: "3", Max: 1 << 20,
					Doc: "A packet is lost if one is acknowledged that was sent so many packets later; 0: only the timer " +
						"detects losses."},
			},
			Bugs: bugs,
		},
		Protocol: trace.ProtocolBolt, Reliable: true, OnePacketSize: true, Ranks: true, Simulated: true, Codec: Codec(),
		Data:       func(h *wire.Header) bool { return KindOf(h) == Data },
		Connection: func(h *wire.Header) uint32 { return h.TCP.SACK.Start },
	}
}

// The header's fields are in the packet where TCP has its own: a packet carries one of both.
//
//	TCP.Flags            kind in the upper half, flags in the lower
//	TCP.SACK             connection, time of sending
//	TCP.Seq              number
//	TCP.Ack              total; of SRC: bytes in the queue
//	TCP.Window, Options  of SRC: rate of the link, lower 16 bits and upper 8

const flagBits = 4

// KindOf returns what a packet is for.
func KindOf(h *wire.Header) Kind { return Kind(h.TCP.Flags >> flagBits) }

// FlagsOf returns a packet's flags.
func FlagsOf(h *wire.Header) Flags { return Flags(h.TCP.Flags & (1<<flagBits - 1)) }

// SetFlags writes a packet's flags.
func SetFlags(h *wire.Header, f Flags) {
	h.TCP.Flags = h.TCP.Flags&^(1<<flagBits-1) | tcp.Flags(f)
}

// Fill writes the header of p into that of a packet.
func (p *Packet) Fill(h *wire.Header) {
	h.TCP = tcp.Header{Flags: tcp.Flags(p.Kind)<<flagBits | tcp.Flags(p.Flags), Seq: p.Number, Ack: p.Total,
		SACK: tcp.Block{Start: p.Connection, End: p.SentNS}}
	if p.Kind == SRC {
		h.TCP.Ack, h.TCP.Window, h.TCP.Options = p.Queue, uint16(p.RateMbps), tcp.Options(p.RateMbps>>16)
	}
	h.Number = p.Number
}

// FromHeader returns the packet of a header with so many bytes of payload.
func FromHeader(h *wire.Header, payload int) Packet {
	p := Packet{From: Endpoint(h.Src), To: Endpoint(h.Dst), Kind: KindOf(h), Flags: FlagsOf(h),
		Connection: h.TCP.SACK.Start, Number: h.TCP.Seq, SentNS: h.TCP.SACK.End, Payload: payload}
	if p.Kind == SRC {
		p.Queue, p.RateMbps = h.TCP.Ack, uint32(h.TCP.Options)<<16|uint32(h.TCP.Window)
	} else {
		p.Total = h.TCP.Ack
	}
	return p
}

// Port is the UDP port of receivers, and HeaderLen the length of the header after that of UDP. There is no public wire
// format; this one is our own: kind, flags, 2 bytes of zero, connection, number, total, time of sending in ns, bytes in
// the queue, rate in Mb/s. The last two are 0 but in SRC.
const (
	Port      = 4900
	HeaderLen = 28
)

// Codec returns the codec.
func Codec() *wire.Codec {
	return wire.UDP{
		Port: Port, Len: HeaderLen,
		Append: func(b []byte, h *wire.Header) []byte {
			p := FromHeader(h, 0)
			b = append(b, byte(p.Kind), byte(p.Flags), 0, 0)
			for _, field := range []uint32{p.Connection, p.Number, p.Total, p.SentNS, p.Queue, p.RateMbps} {
				b = binary.BigEndian.AppendUint32(b, field)
			}
			return b
		},
		Parse: func(body []byte, h *wire.Header) bool {
			const flags, rates = 1 << flagBits, 1 << 24
			if len(body) < HeaderLen || body[0] < byte(Data) || body[0] > byte(SRC) || body[1] >= flags {
				return false
			}
			field := func(i int) uint32 { return binary.BigEndian.Uint32(body[4*i:]) }
			p := Packet{Kind: Kind(body[0]), Flags: Flags(body[1]), Connection: field(1), Number: field(2), Total: field(3),
				SentNS: field(4), Queue: field(5), RateMbps: field(6)}
			if p.RateMbps >= rates {
				return false
			}
			p.Fill(h)
			h.Flow = FlowOf(h.Src, h.Dst, &p)
			return true
		},
	}.Codec()
}

// FlowOf returns the flow of a packet between two hosts: the sender of data in the upper half, its number of the
// connection in the lower half.
func FlowOf(src, dst wire.HostID, p *Packet) uint32 {
	if p.Kind != Data {
		src = dst
	}
	return uint32(src)<<16 ^ p.Connection
}
