package packet

import (
	"encoding/binary"
	"hash/crc32"
)

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// sum adds b, as big-endian 16-bit words padded with a zero byte, to the one's complement sum acc (RFC 1071).
func sum(acc uint64, b []byte) uint64 {
	for ; len(b) >= 4; b = b[4:] {
		acc += uint64(be32(b))
	}
	if len(b) >= 2 {
		acc += uint64(be16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		acc += uint64(b[0]) << 8
	}
	return acc
}

// fold reduces a one's complement sum to the 16-bit checksum field value.
func fold(acc uint64) uint16 {
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	return ^uint16(acc)
}

// updateChecksum returns the checksum that results from check when one 16-bit word changes from old to new (RFC 1624, eqn. 3).
func updateChecksum(check, old, new uint16) uint16 {
	return fold(uint64(^check) + uint64(^old) + uint64(new))
}

// HeaderChecksum computes the IPv4 header checksum of header, whose checksum field is read as zero.
func HeaderChecksum(header []byte) uint16 {
	return fold(sum(sum(0, header[:10]), header[12:]))
}

// ComputeICRC returns the invariant CRC of an IPv4 or IPv6 packet that l3 holds from the first byte of its IP header up to
// and without the iCRC, as the four wire bytes read little-endian (IBTA annex A17.3.3): CRC-32 over eight bytes of ones and the packet with every
// field that may change on the way set to ones. l3 must hold the headers up to and with the BTH; it is not changed.
func ComputeICRC(l3 []byte) uint32 {
	const ones = 0xff
	var scratch [8 + 60 + UDPLen + BTHLen]byte
	for i := range 8 {
		scratch[i] = ones
	}
	ipLen := IPv6Len
	if l3[0]>>4 == 4 {
		ipLen = int(l3[0]&0xf) * 4
	}
	head := scratch[8 : 8+ipLen+UDPLen+BTHLen]
	n := copy(head, l3)
	if l3[0]>>4 == 4 {
		head[1] = ones                  // ToS
		head[8] = ones                  // TTL
		head[10], head[11] = ones, ones // header checksum
	} else {
		head[0] |= 0x0f // traffic class, flow label
		head[1], head[2], head[3] = ones, ones, ones
		head[7] = ones // hop limit
	}
	udp := head[ipLen:]
	udp[6], udp[7] = ones, ones // checksum
	udp[UDPLen+4] = ones        // FECN, BECN, reserved
	crc := crc32.Update(0, crc32.IEEETable, scratch[:8+len(head)])
	return crc32.Update(crc, crc32.IEEETable, l3[n:])
}

// CheckICRC checks the iCRC of a frame that p was parsed from, without allocating. frame is the whole frame.
func CheckICRC(frame []byte, p *Packet) ICRCStatus {
	if !p.IsRoCE() || p.Truncated() {
		return ICRCNotCheckable
	}
	end := len(frame) - len(p.Trailer)
	if ComputeICRC(frame[p.l2Len():end-ICRCLen]) == le32(frame[end-ICRCLen:end]) {
		return ICRCValid
	}
	return ICRCInvalid
}

// rnrTimer10us is the RNR NAK timer by code, in units of 10 µs (IBTA volume 1, table 45).
var rnrTimer10us = [32]int64{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

// RNRTimer returns the minimum RNR delay that a five-bit timer code stands for, in nanoseconds.
func RNRTimer(code uint8) int64 { return rnrTimer10us[code&0x1f] * 10_000 }
