// Package echo declares the transport of pings: ICMP echo requests and answers.
package echo

import (
	"encoding/binary"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/trace"
)

// Transport declares the transport.
func Transport() wire.Transport {
	return wire.Transport{
		Model: parameter.Model{Name: "echo"}, Protocol: trace.ProtocolEcho, Ranks: true, Internal: true, Codec: Codec(),
		Data: func(*wire.Header) bool { return false },
	}
}

// Types of echo requests. Answers have the same type here, because only hosts distinguish them.
const (
	request   = 8
	requestV6 = 128
)

// Codec returns the codec: ICMP's header (RFC 792, RFC 4443), which switches do not change.
func Codec() *wire.Codec {
	c := &wire.Codec{IPv4: wire.ProtocolICMP, IPv6: wire.ProtocolICMPv6, Len: 8}
	c.Append = func(b []byte, h *wire.Header, payload []byte, _, whole int) []byte {
		at, kind, next := len(b), byte(request), c.IPv4
		if h.IPv6 {
			kind, next = requestV6, c.IPv6
		}
		b = append(b, kind, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(h.Flow))
		b = append(binary.BigEndian.AppendUint16(b, h.Entropy), payload...)
		h.Checksum(b[at:], next, 2, whole)
		return b
	}
	return c
}
