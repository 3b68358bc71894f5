package live

import (
	"encoding/binary"

	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Numbers of protocols and ports, as fabric.Packet.AppendFrame writes them.
const (
	protocolTCP = 6
	discardPort = 9
	dynamicPort = 0xc000
	portMask    = 0x3fff
	// MaxFlow is how many flows of TCP the ports of frames tell apart.
	MaxFlow = portMask
)

// TagLen is what the payload of a raw packet begins with: flow and number, which no header has.
const TagLen = 8

func tag(p *fabric.Packet) []byte {
	if p.Protocol != fabric.Raw {
		return nil
	}
	b := binary.BigEndian.AppendUint32(nil, p.Flow)
	return binary.BigEndian.AppendUint32(b, p.Number)
}

// parser turns frames into packets.
type parser struct {
	hosts   int
	kernels int    // connections
	first   uint32 // sequence number of our TCP
	serial  uint32 // of packets that are told apart by their order alone
}

// parse fills h from a frame and reports whether it is of the test. damaged: the transport checksum tells that the
// frame was cut, where a receiver looks at it.
func (x *parser) parse(frame []byte, h *fabric.Header) (damaged, ok bool) {
	if len(frame) < packet.EthernetLen {
		return false, false
	}
	*h = fabric.Header{}
	b := frame[packet.EthernetLen:]
	var next byte
	var addresses []byte
	switch binary.BigEndian.Uint16(frame[12:]) {
	case packet.EtherTypeIPv4:
		total := 0
		if len(b) >= packet.IPv4Len {
			total = int(binary.BigEndian.Uint16(b[2:]))
		}
		if total < packet.IPv4Len || total > len(b) || b[0] != 0x45 {
			return false, false
		}
		h.DSCP, h.ECN, h.TTL, next, addresses = b[1]>>2, packet.ECN(b[1]&3), b[8], b[9], b[12:20]
		h.Src, h.Dst = hostOf4(b[12:16]), hostOf4(b[16:20])
		b = b[packet.IPv4Len:total]
	case packet.EtherTypeIPv6:
		if len(b) < packet.IPv6Len || int(binary.BigEndian.Uint16(b[4:])) > len(b)-packet.IPv6Len {
			return false, false
		}
		class := uint8(binary.BigEndian.Uint16(b) >> 4)
		h.IPv6, h.DSCP, h.ECN, h.TTL, next, addresses = true, class>>2, packet.ECN(class&3), b[7], b[6], b[8:40]
		h.Src, h.Dst = hostOf6(b[8:24]), hostOf6(b[24:40])
		b = b[packet.IPv6Len : packet.IPv6Len+int(binary.BigEndian.Uint16(b[4:]))]
	default:
		return false, false
	}
	if int(h.Src) >= x.hosts || int(h.Dst) >= x.hosts {
		return false, false
	}
	h.Size = int32(len(frame))
	h.Original = h.Size
	switch next {
	case packet.ProtocolUDP:
		return false, parseUDP(b, h)
	case protocolTCP:
		return x.parseTCP(b, addresses, h)
	}
	return false, false
}

// hostOf4 returns the host that has an IPv4 address; MaxUint16, which no network has, if none.
func hostOf4(b []byte) fabric.HostID {
	n := binary.BigEndian.Uint32(b) - 1
	if n>>24 != 10 || n&0xffffff >= nobody {
		return nobody
	}
	return fabric.HostID(n)
}

func hostOf6(b []byte) fabric.HostID {
	n := binary.BigEndian.Uint64(b[8:]) - 1
	if binary.BigEndian.Uint64(b) != 0xfd00_00ca_00de_0000 || n >= nobody {
		return nobody
	}
	return fabric.HostID(n)
}

const nobody = 0xffff

func parseUDP(b []byte, h *fabric.Header) bool {
	if len(b) < packet.UDPLen {
		return false
	}
	near, far, body := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), b[packet.UDPLen:]
	if near == discardPort || near == ndp.Port {
		near, far, h.Flags = far, near, fabric.Returned
	}
	h.Entropy = near & portMask
	switch {
	case near < dynamicPort:
		return false
	case far == ndp.Port:
		if h.NDP.Parse(body) != nil {
			return false
		}
		h.Protocol = fabric.NDP
		h.Flow = fabric.FlowOfNDP(h.Src, h.Dst, &h.NDP)
		return true
	case far == discardPort && len(body) >= TagLen:
		h.Protocol, h.Flow, h.Number = fabric.Raw, binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
		return true
	}
	return false
}

// parseTCP reads a segment: ours, or the kernel's if a port names a connection.
func (x *parser) parseTCP(b, addresses []byte, h *fabric.Header) (damaged, ok bool) {
	const least = 20
	if len(b) < least {
		return false, false
	}
	from, to := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	h.Protocol = fabric.TCP
	for _, port := range []uint16{from, to} {
		if n := int(port) - FirstPort; n >= 1 && n <= x.kernels {
			h.Flow = uint32(n)
			h.TCP.Seq, h.TCP.Ack = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
			x.serial++
			if h.Number = x.serial; len(b) <= int(b[12]>>4)*4 {
				h.Flags |= fabric.Notification
			}
			return false, true
		}
	}
	if from != to || from < dynamicPort || h.TCP.Parse(b) != nil {
		return false, false
	}
	h.Entropy = from & portMask
	h.Flow = uint32(h.Entropy)
	if h.Number = (h.TCP.Seq - x.first) &^ (1 << 31); len(b) == tcp.HeaderLen {
		x.serial++
		h.Number = 1<<31 | x.serial
	}
	return sum(addresses, b) != 0xffff, true
}

// sum adds up a TCP segment and its pseudo header (RFC 9293, 3.1): all ones if the checksum in it is right.
func sum(addresses, segment []byte) uint64 {
	total := uint64(protocolTCP) + uint64(len(segment))
	for _, b := range [][]byte{addresses, segment} {
		for ; len(b) >= 2; b = b[2:] {
			total += uint64(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			total += uint64(b[0]) << 8
		}
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return total
}
