package live

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

const ethernetLen = 14

// Judges see packets at the taps of the network, devices see bytes. This file compares the two: if they differ, a run
// is no evidence about the switch.

// tagLen is the length of flow and number, which begin the payload of a raw packet.
const tagLen = 8

const maxMismatches = 5

// mismatches are frames whose bytes differ from the taps.
type mismatches struct {
	list  []string
	total int
}

func (m *mismatches) add(format string, args ...any) {
	if m.total++; len(m.list) < maxMismatches {
		m.list = append(m.list, fmt.Sprintf(format, args...))
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(frame []byte) uint32 { return crc32.Checksum(frame, castagnoli) }

type sums struct{ list []uint32 }

func (s *sums) push(sum uint32) { s.list = append(s.list, sum) }

func (s *sums) pop() (sum uint32, ok bool) {
	if len(s.list) == 0 {
		return 0, false
	}
	sum = s.list[0]
	s.list = append(s.list[:0], s.list[1:]...)
	return sum, true
}

// unpadded returns a frame without Ethernet padding.
func unpadded(frame []byte) []byte {
	if len(frame) >= ethernetLen+packet.IPv4Len && binary.BigEndian.Uint16(frame[12:]) == packet.EtherTypeIPv4 {
		if end := ethernetLen + int(binary.BigEndian.Uint16(frame[ethernetLen+2:])); end < len(frame) &&
			end >= ethernetLen+packet.IPv4Len {
			return frame[:end]
		}
	}
	return frame
}

// difference describes how a frame differs from the packet at a tap; empty: it does not. It reads bytes at the offsets
// of the standards, not by the code that writes frames.
func difference(codecs *wire.Codecs, frame []byte, h *fabric.Header) string {
	switch {
	case len(frame) != int(h.Size):
		return fmt.Sprintf("%d bytes, the tap shows %d", len(frame), h.Size)
	case len(frame) < codecs.MinFrame(h):
		return "" // trimmed within its headers: not specified further
	}
	network, transport := frame[ethernetLen:], frame[ethernetLen+packet.IPv4Len:]
	length := int(h.Size) - ethernetLen
	if h.Flags&fabric.LengthStale != 0 {
		length = int(h.Original) - ethernetLen
	}
	class := h.DSCP<<2 | uint8(h.ECN)
	var wrong string
	if h.IPv6 {
		transport = frame[ethernetLen+packet.IPv6Len:]
		wrong = differenceOfIPv6(network, h, class, length)
	} else {
		wrong = differenceOfIPv4(network, h, class, length)
	}
	if wrong != "" {
		return wrong
	}
	return differenceOfTransport(transport, h)
}

func differenceOfIPv4(b []byte, h *fabric.Header, class uint8, length int) string {
	src, dst := h.Src.IPv4().As4(), h.Dst.IPv4().As4()
	switch got := int(binary.BigEndian.Uint16(b[2:])); {
	case b[0] != 0x45 || [4]byte(b[12:16]) != src || [4]byte(b[16:20]) != dst:
		return fmt.Sprintf("IPv4 from %v to %v, the tap shows %v to %v", b[12:16], b[16:20], src, dst)
	case b[1] != class || b[8] != h.TTL:
		return fmt.Sprintf("DSCP and ECN %#02x, TTL %d, the tap shows %#02x, %d", b[1], b[8], class, h.TTL)
	case got != length:
		return fmt.Sprintf("an IPv4 length of %d, the tap shows %d", got, length)
	case h.Flags&fabric.HeaderSumStale == 0 && headerSum(b) != 0xffff:
		return "a wrong IPv4 header checksum"
	}
	return ""
}

// headerSum adds up an IPv4 header: all ones if its checksum is correct (RFC 791).
func headerSum(b []byte) (sum uint32) {
	for i := 0; i < packet.IPv4Len; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return sum
}

func differenceOfIPv6(b []byte, h *fabric.Header, class uint8, length int) string {
	src, dst := h.Src.IPv6().As16(), h.Dst.IPv6().As16()
	switch got := uint8(binary.BigEndian.Uint16(b) >> 4); {
	case b[0]>>4 != 6 || [16]byte(b[8:24]) != src || [16]byte(b[24:40]) != dst:
		return fmt.Sprintf("IPv6 from %x to %x, the tap shows %x to %x", b[8:24], b[24:40], src, dst)
	case got != class || b[7] != h.TTL:
		return fmt.Sprintf("DSCP and ECN %#02x, TTL %d, the tap shows %#02x, %d", got, b[7], class, h.TTL)
	case int(binary.BigEndian.Uint16(b[4:])) != length-packet.IPv6Len:
		return fmt.Sprintf("an IPv6 length of %d, the tap shows %d", binary.BigEndian.Uint16(b[4:]), length-packet.IPv6Len)
	}
	return ""
}

// differenceOfTransport compares the fields that distinguish packets of a flow.
func differenceOfTransport(b []byte, h *fabric.Header) string {
	switch h.Protocol {
	case fabric.TCP:
		seq, ack := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
		if seq != h.TCP.Seq || ack != h.TCP.Ack {
			return fmt.Sprintf("TCP sequence number %d, acknowledgement %d, the tap shows %d, %d", seq, ack, h.TCP.Seq,
				h.TCP.Ack)
		}
	case fabric.NDP:
		var got ndp.Header
		if err := got.Parse(b[packet.UDPLen:]); err != nil || got != h.NDP {
			return fmt.Sprintf("NDP %+v (%v), the tap shows %+v", got, err, h.NDP)
		}
	case fabric.Raw:
		if len(b) < packet.UDPLen+tagLen {
			return ""
		}
		tag := b[packet.UDPLen:]
		if flow, n := binary.BigEndian.Uint32(tag), binary.BigEndian.Uint32(tag[4:]); flow != h.Flow || n != h.Number {
			return fmt.Sprintf("packet %d of flow %d, the tap shows %d of %d", n, flow, h.Number, h.Flow)
		}
	default: // no numbers of its own
	}
	return ""
}
