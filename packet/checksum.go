package packet

import "encoding/binary"

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

// updateChecksum returns the checksum that results from check when one 16-bit word changes from old to new (RFC 1624,
// eqn. 3).
func updateChecksum(check, old, new uint16) uint16 {
	return fold(uint64(^check) + uint64(^old) + uint64(new))
}

// HeaderChecksum computes the IPv4 header checksum of header, whose checksum field is read as zero.
func HeaderChecksum(header []byte) uint16 {
	return fold(sum(sum(0, header[:10]), header[12:]))
}

// rnrTimer10us is the RNR NAK timer by code, in units of 10 us (IBTA volume 1, 9.7.5.2.8).
var rnrTimer10us = [32]int64{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536,
	2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

// RNRTimer returns the minimum RNR delay that a five-bit timer code stands for, in nanoseconds.
func RNRTimer(code uint8) int64 { return rnrTimer10us[code&0x1f] * 10_000 }
