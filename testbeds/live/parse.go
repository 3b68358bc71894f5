package live

import (
	"encoding/binary"

	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// MaxFlow is the number of TCP flows that ports of frames can distinguish.
const MaxFlow = wire.PortMask

type parser struct {
	codecs *wire.Codecs
	hosts  int
	ranks  []wire.Ranking // of the kernels' connections, by number, which is at least 1
	first  uint32         // sequence number of our TCP
	serial uint32         // of packets without a number, which are distinguished by order
}

// rankTable returns the ranks of connections by number: kernels do not write them into packets, so the switch gives
// them by flow, as the table of (source address, port) of AIFO's testbed does.
func rankTable(list []Connection) []wire.Ranking {
	table := make([]wire.Ranking, len(list)+1)
	for i := range list {
		table[list[i].Number] = list[i].Rank
	}
	return table
}

// parse fills h from a frame and reports whether it belongs to the test. damaged: the transport checksum shows that the
// frame was trimmed.
func (x *parser) parse(frame []byte, h *fabric.Header) (damaged, ok bool) {
	var d wire.Datagram
	if !d.Parse(frame) {
		return false, false
	}
	size := int32(len(frame))
	*h = fabric.Header{Src: wire.HostOf(d.Src()), Dst: wire.HostOf(d.Dst()), Size: size, Original: size,
		IPv6: d.IPv6, DSCP: d.DSCP, ECN: d.ECN, TTL: d.TTL}
	switch {
	case int(h.Src) >= x.hosts || int(h.Dst) >= x.hosts:
		return false, false
	case d.Next == packet.ProtocolUDP:
		return false, x.codecs.ParseUDP(d.Body, h)
	case d.Next == wire.ProtocolTCP:
		return x.parseTCP(&d, h)
	}
	return false, false
}

// parseTCP parses a segment: ours, or the kernel's if a port names a connection.
func (x *parser) parseTCP(d *wire.Datagram, h *fabric.Header) (damaged, ok bool) {
	const least = 20
	b := d.Body
	if len(b) < least {
		return false, false
	}
	from, to := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	h.Protocol = fabric.TCP
	for i, port := range []uint16{from, to} {
		if n := int(port) - FirstPort; n >= 1 && n < len(x.ranks) {
			h.Flow = uint32(n)
			h.TCP.Seq, h.TCP.Ack = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
			x.serial++
			if h.Number = x.serial; len(b) <= int(b[12]>>4)*4 {
				h.Flags |= fabric.Notification
			}
			switch r := x.ranks[n]; {
			case r.Kind == wire.Unranked:
			case i == 0: // from the server
				h.SetRank(0)
			default:
				h.SetRank(r.Value)
			}
			return false, true
		}
	}
	if from != to || from < wire.DynamicPort || h.TCP.Parse(b) != nil {
		return false, false
	}
	h.Entropy = from & wire.PortMask
	h.Flow = uint32(h.Entropy)
	if h.Number = (h.TCP.Seq - x.first) &^ (1 << 31); len(b) == tcp.HeaderLen {
		x.serial++
		h.Number = 1<<31 | x.serial
	}
	return !d.Intact(), true
}
