package tcp

import (
	"encoding/binary"
	"net/netip"

	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
)

// tcpFrame is a decoded frame of a TCP host.
type tcpFrame struct {
	wire.Datagram
	src, dst netip.Addr
	port     uint16 // of both ends
	header   tcp.Header
	payload  int // bytes
}

// parse decodes a frame and reports whether it is an undamaged TCP packet. A trimmed packet has a wrong checksum.
func (t *tcpFrame) parse(frame []byte) bool {
	if !t.Parse(frame) || t.Next != wire.ProtocolTCP || t.header.Parse(t.Body) != nil || !t.Intact() {
		return false
	}
	t.src, _ = netip.AddrFromSlice(t.Src())
	t.dst, _ = netip.AddrFromSlice(t.Dst())
	t.port, t.payload = binary.BigEndian.Uint16(t.Body), len(t.Body)-tcp.HeaderLen
	return t.port == binary.BigEndian.Uint16(t.Body[2:])
}
