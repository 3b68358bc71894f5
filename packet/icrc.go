package packet

import "hash/crc32"

// ICRCStatus is the outcome of an iCRC check.
type ICRCStatus uint8

// Outcomes of an iCRC check. A truncated or non-RoCE packet is not checkable.
const (
	ICRCNotCheckable ICRCStatus = iota
	ICRCValid
	ICRCInvalid
)

// String returns the status in words.
func (s ICRCStatus) String() string {
	switch s {
	case ICRCValid:
		return "valid"
	case ICRCInvalid:
		return "invalid"
	case ICRCNotCheckable:
	}
	return "not checkable"
}

// ComputeICRC returns the invariant CRC of an IPv4 or IPv6 packet that l3 holds from the first byte of its IP header up
// to and without the iCRC, as the four wire bytes read little-endian (IBTA annex A17.3.3): CRC-32 over eight bytes of
// ones and the packet with every field that may change on the way set to ones. l3 must hold the headers up to and with
// the BTH; it is not changed.
func ComputeICRC(l3 []byte) uint32 {
	const ones = 0xff
	var scratch [60 + UDPLen + BTHLen]byte
	ipLen := IPv6Len
	if l3[0]>>4 == 4 {
		ipLen = int(l3[0]&0xf) * 4
	}
	head := scratch[:ipLen+UDPLen+BTHLen]
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
	return CRC(head, l3[n:])
}

// CRC returns the CRC-32 over eight bytes of ones, head and rest: the invariant CRC of a packet whose masked headers
// are head.
func CRC(head, rest []byte) uint32 {
	return crc32.Update(updateCRC(crcOfOnes, head), crc32.IEEETable, rest)
}

// crcOfOnes is the CRC-32 of eight bytes of ones, in place of InfiniBand's local route header.
var crcOfOnes = crc32.ChecksumIEEE([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})

// crcTables hold in row k the CRC contribution of a byte that k more bytes follow (slicing by eight).
var crcTables = func() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for i := range 256 {
		for k := 1; k < len(t); k++ {
			t[k][i] = t[k-1][i]>>8 ^ t[0][t[k-1][i]&0xff]
		}
	}
	return t
}()

// updateCRC is crc32.Update for the few bytes of masked headers. The standard library calls processor-specific code
// through a variable, which would move the caller's scratch space to the heap: an allocation per packet.
func updateCRC(crc uint32, b []byte) uint32 {
	t := &crcTables
	crc = ^crc
	for ; len(b) >= 8; b = b[8:] {
		crc ^= le32(b)
		crc = t[0][b[7]] ^ t[1][b[6]] ^ t[2][b[5]] ^ t[3][b[4]] ^
			t[4][crc>>24] ^ t[5][crc>>16&0xff] ^ t[6][crc>>8&0xff] ^ t[7][crc&0xff]
	}
	for _, v := range b {
		crc = t[0][byte(crc)^v] ^ crc>>8
	}
	return ^crc
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

// CheckICRC compares the iCRC with the packet. A derived packet is right by definition. For an explicit one it
// serialises the packet, which allocates; if you have the frame use [CheckICRC].
func (p *Packet) CheckICRC() ICRCStatus {
	if p.Derived && p.IsRoCE() && !p.Truncated() {
		return ICRCValid
	}
	return CheckICRC(p.AppendTo(make([]byte, 0, p.Len())), p)
}
