// Package raw declares the transport without a protocol: plain UDP in an open loop.
package raw

import (
	"encoding/binary"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/trace"
)

// Transport declares the transport.
func Transport() wire.Transport {
	return wire.Transport{
		Model: parameter.Model{
			Name:       "raw",
			Doc:        "Plain UDP that nothing slows down: an open loop at line rate or rate-gbps. Nothing is retransmitted.",
			Parameters: parameter.Table{wire.PacketSize(), wire.ECN()},
		},
		Protocol: trace.ProtocolRaw, ToItself: true, OpenLoop: true, Unanswered: true, Ranks: true, Codec: Codec(),
	}
}

// TagLen is the length of the payload's prefix on real links: flow and number, which no header has.
const TagLen = 8

// Codec returns the codec: a datagram to the discard port.
func Codec() *wire.Codec {
	return wire.UDP{
		Port: wire.DiscardPort,
		Tag: func(h *wire.Header) []byte {
			return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, h.Flow), h.Number)
		},
		Parse: func(body []byte, h *wire.Header) bool {
			if len(body) < TagLen {
				return false
			}
			h.Flow, h.Number = binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
			h.ParseRank(body[TagLen:])
			return true
		},
	}.Codec()
}
