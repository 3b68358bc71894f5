// Package packet has the wire formats that the injector, the endpoints under test, traces and analyzers share:
// Ethernet, 802.1Q, IPv4, IPv6, UDP and the InfiniBand transport headers of RoCEv2, including the invariant CRC.
//
// One struct, [Packet], is a frame everywhere. Live paths [Packet.Parse] bytes into it and [Packet.AppendTo] bytes out
// of it, byte-exactly. The virtual testbed passes it along unserialised: such a packet is *derived*, which means that
// its lengths, checksums and iCRC are right by definition and computed only when bytes are needed. An event that
// damages a packet first makes it explicit with [Packet.Seal], so that its iCRC becomes stale.
//
// One Packet is not safe for concurrent use.
package packet

import (
	"fmt"
	"net/netip"
)

// Port is the UDP destination port of RoCEv2 (IBTA annex A17.3).
const Port = 4791

// Sizes of headers in bytes.
const (
	EthernetLen     = 14
	VLANLen         = 4
	IPv4Len         = 20 // without options
	IPv6Len         = 40
	UDPLen          = 8
	BTHLen          = 12
	RETHLen         = 16
	AETHLen         = 4
	ImmDtLen        = 4
	IETHLen         = 4
	AtomicETHLen    = 28
	AtomicAckETHLen = 8
	ICRCLen         = 4
	CNPPayloadLen   = 16 // reserved zeros after the BTH of a CNP
)

// EtherTypes.
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeIPv6 = 0x86dd
	EtherTypeVLAN = 0x8100
)

// ProtocolUDP is UDP's number in the IPv4 protocol and IPv6 next-header fields.
const ProtocolUDP = 17

// MAC is an Ethernet address.
type MAC [6]byte

// MACFromUint48 returns the address whose six bytes are v in network order; the top 16 bits of v are ignored.
func MACFromUint48(v uint64) MAC {
	return MAC{byte(v >> 40), byte(v >> 32), byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
}

// Uint48 returns the address as a number; the mirror encoding stores numbers in MAC fields.
func (m MAC) Uint48() uint64 {
	return uint64(m[0])<<40 | uint64(m[1])<<32 | uint64(m[2])<<24 | uint64(m[3])<<16 | uint64(m[4])<<8 | uint64(m[5])
}

// IsGroup reports whether m is a broadcast or multicast address.
func (m MAC) IsGroup() bool { return m[0]&1 != 0 }

// String prints m with colons.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Ethernet is the link header with at most one 802.1Q tag.
type Ethernet struct {
	Dst, Src MAC
	Tagged   bool
	TCI      uint16 // 802.1Q tag control information, if Tagged
	Type     uint16 // of what follows the tag
}

// ECN is the congestion notification codepoint in the low two bits of the IPv4 ToS or IPv6 traffic class (RFC 3168).
type ECN uint8

// ECN codepoints.
const (
	NotECT ECN = 0
	ECT1   ECN = 1
	ECT0   ECN = 2
	CE     ECN = 3
)

// IP is an IPv4 or IPv6 header. Fields that one version lacks are zero and ignored.
type IP struct {
	Version       uint8      // 4 or 6; 0 if the frame carries no IP
	TOS           uint8      // IPv4 type of service, IPv6 traffic class: DSCP and ECN
	TTL           uint8      // IPv4 time to live, IPv6 hop limit
	Protocol      uint8      // IPv4 protocol, IPv6 next header
	Length        uint16     // IPv4 total length, IPv6 payload length
	ID            uint16     // IPv4 identification
	FlagsFragment uint16     // IPv4 flags and fragment offset
	Checksum      uint16     // IPv4 header checksum
	FlowLabel     uint32     // IPv6, 20 bits
	Src, Dst      netip.Addr // never IPv4-mapped
	Options       []byte     // IPv4 options, a multiple of four bytes
}

// ECN returns the congestion notification codepoint.
func (ip *IP) ECN() ECN { return ECN(ip.TOS & 3) }

// DSCP returns the differentiated services codepoint.
func (ip *IP) DSCP() uint8 { return ip.TOS >> 2 }

// headerLen returns the length of the IP header in bytes.
func (ip *IP) headerLen() int {
	if ip.Version == 4 {
		return IPv4Len + len(ip.Options)
	}
	return IPv6Len
}

// UDP is the UDP header.
type UDP struct {
	SrcPort, DstPort uint16
	Length           uint16
	Checksum         uint16
}

// BTH is the base transport header (IBTA volume 1, 9.2).
type BTH struct {
	Opcode    Opcode
	Solicited bool
	MigReq    bool
	PadCount  uint8 // 0 to 3 bytes after the payload
	Version   uint8 // transport header version, 4 bits
	PKey      uint16
	FECN      bool
	BECN      bool
	Resv6     uint8 // the six bits next to FECN and BECN
	DestQP    QPN
	AckReq    bool
	Resv7     uint8 // the seven bits next to AckReq
	PSN       PSN
}

// RETH is the RDMA extended transport header (IBTA volume 1, 9.3.3).
type RETH struct {
	VA     uint64
	RKey   uint32
	Length uint32 // DMA length in bytes
}

// AETH is the ACK extended transport header (IBTA volume 1, 9.3.5).
type AETH struct {
	Syndrome Syndrome
	MSN      uint32 // 24 bits
}

// AtomicETH is the atomic extended transport header (IBTA volume 1, 9.3.4).
type AtomicETH struct {
	VA            uint64
	RKey          uint32
	Swap, Compare uint64 // Swap is the addend of a FETCH_ADD
}

// Packet is a frame with its headers decoded.
//
// Payload, IP.Options and Trailer may alias the buffer that the packet was parsed from or a shared pattern buffer; copy
// them to keep a Packet longer than that buffer.
type Packet struct {
	Eth  Ethernet
	IP   IP
	UDP  UDP
	BTH  BTH
	RETH RETH
	AETH AETH

	// Headers says which transport headers are present. 0: not a RoCE packet; everything after the last decoded header is
	// Payload.
	Headers Headers
	HasUDP  bool

	// Derived packets have lengths, checksums and iCRC computed at serialisation; the fields themselves are ignored.
	Derived bool
	// SumUDP requests a UDP checksum when a Derived packet is serialised; otherwise it is zero, as RoCE NICs send it.
	SumUDP bool

	ImmDt        uint32
	IETH         uint32 // rkey to invalidate
	AtomicETH    AtomicETH
	AtomicAckETH uint64 // original remote data

	// Payload is without pad bytes, unless the packet is Truncated: then it is all that the frame has after the headers,
	// which is more than PayloadLen if the cut is in pad or iCRC.
	Payload []byte
	Pad     [3]byte
	ICRC    uint32 // as the four wire bytes read little-endian
	Trailer []byte // bytes of the frame after the packet (Ethernet padding)

	// missing counts bytes that the length fields announce but the frame does not have (cut capture, trimmed packet).
	missing int
}

// IsRoCE reports whether p is a RoCEv2 packet with a decoded BTH.
func (p *Packet) IsRoCE() bool { return p.Headers&HasBTH != 0 }

// Truncated reports whether the frame ended before the length that its IP or UDP header announces: a cut capture or a
// trimmed packet. Such a packet has no iCRC to check. A trimmed packet with both lengths updated looks whole, with a
// wrong iCRC.
func (p *Packet) Truncated() bool { return p.missing > 0 }

// PayloadLen returns the payload length in bytes, without pad, as announced by the headers; for a truncated packet it
// includes the missing bytes.
func (p *Packet) PayloadLen() int {
	n := len(p.Payload) + p.missing
	if p.missing > 0 && p.IsRoCE() {
		n -= p.BTH.padLen() + ICRCLen
	}
	return max(0, n)
}

// padLen returns the number of pad bytes; the field has two bits.
func (h *BTH) padLen() int { return int(h.PadCount & 3) }

// ExtendedLen returns the length of the extended transport headers in h, in bytes and without the BTH.
func (h Headers) ExtendedLen() int { return int(extendedLens[h&(1<<headerCount-1)]) }

// extendedLens holds ExtendedLen of every set of headers: parsing a packet asks often.
var extendedLens = func() (lens [1 << headerCount]uint8) {
	sizes := [headerCount]uint8{0, RETHLen, AtomicETHLen, AETHLen, AtomicAckETHLen, ImmDtLen, IETHLen}
	for set := range lens {
		for i, size := range sizes {
			if set>>i&1 != 0 {
				lens[set] += size
			}
		}
	}
	return lens
}()

// l2Len returns the length of the link header.
func (p *Packet) l2Len() int {
	if p.Eth.Tagged {
		return EthernetLen + VLANLen
	}
	return EthernetLen
}

// Len returns the length of the frame in bytes as AppendTo writes it, without FCS. Short frames are not padded to the
// Ethernet minimum.
func (p *Packet) Len() int {
	n := p.l2Len() + len(p.Payload) + len(p.Trailer)
	if p.IP.Version != 0 {
		n += p.IP.headerLen()
	}
	if p.HasUDP {
		n += UDPLen
	}
	if p.IsRoCE() {
		n += BTHLen + p.Headers.ExtendedLen()
		if !p.Truncated() {
			n += p.BTH.padLen() + ICRCLen
		}
	}
	return n
}

// SetECN sets the congestion notification codepoint and keeps an explicit IPv4 header checksum right. The iCRC does not
// cover it.
func (p *Packet) SetECN(e ECN) { p.setTOS(p.IP.TOS&^3 | uint8(e)) }

// SetDSCP sets the differentiated services codepoint (6 bits) and keeps an explicit IPv4 header checksum right.
func (p *Packet) SetDSCP(dscp uint8) { p.setTOS(p.IP.TOS&3 | dscp<<2) }

func (p *Packet) setTOS(tos uint8) {
	if p.IP.Version == 4 && !p.Derived {
		first := uint16(4<<4|(p.IP.headerLen()/4)) << 8
		p.IP.Checksum = updateChecksum(p.IP.Checksum, first|uint16(p.IP.TOS), first|uint16(tos))
	}
	p.IP.TOS = tos
}

// Corrupt damages p so that only its iCRC is wrong: for IPv4 it flips bit 15 of the Identification and updates the
// header checksum, for IPv6 it flips bit 0 of the UDP source port and updates a non-zero UDP checksum. The iCRC covers
// both (injector contract, action corrupt).
func (p *Packet) Corrupt() {
	p.Seal()
	switch p.IP.Version {
	case 4:
		id := p.IP.ID ^ 0x8000
		p.IP.Checksum = updateChecksum(p.IP.Checksum, p.IP.ID, id)
		p.IP.ID = id
	case 6:
		port := p.UDP.SrcPort ^ 1
		if p.UDP.Checksum != 0 {
			p.UDP.Checksum = transmitted(updateChecksum(p.UDP.Checksum, p.UDP.SrcPort, port))
		}
		p.UDP.SrcPort = port
	}
}

// Seal turns a derived packet into an explicit one with the same bytes: later changes do not update lengths, checksums
// and iCRC. It does nothing to an explicit packet. It allocates.
func (p *Packet) Seal() {
	if !p.Derived {
		return
	}
	frame := p.AppendTo(make([]byte, 0, p.Len()))
	l3 := p.l2Len()
	p.Derived = false
	switch p.IP.Version {
	case 4:
		p.IP.Length = be16(frame[l3+2:])
		p.IP.Checksum = be16(frame[l3+10:])
	case 6:
		p.IP.Length = be16(frame[l3+4:])
	}
	if p.HasUDP {
		udp := l3 + p.IP.headerLen()
		p.UDP.Length = be16(frame[udp+4:])
		p.UDP.Checksum = be16(frame[udp+6:])
	}
	if p.IsRoCE() && !p.Truncated() {
		p.ICRC = le32(frame[len(frame)-len(p.Trailer)-ICRCLen:])
	}
}
