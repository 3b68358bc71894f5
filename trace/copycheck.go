package trace

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"candela.dev/candela/packet"
)

// copyCheck looks for mirror copies that were damaged on their way to the dumper: their headers contradict each other,
// or flipping one bit makes the iCRC right. The wrong iCRC of a faulty device looks like that once in half a million
// packets.
type copyCheck struct {
	vouched   bool // the copies are known to be what the devices sent
	injected  bool // copies show packets before the injector's damage
	wrong     int64
	wrongList []string

	flipped     int64 // they count if iCRCs can be relied on at all
	flippedList []string
	events      [MaxEventType + 1]int64
}

func (c *copyCheck) add(r *Record, frame []byte, number uint64) {
	if r.Event <= MaxEventType {
		c.events[r.Event]++
	}
	l3, l4, err := LocateUDP(frame)
	if err != nil {
		return // the decoder has found its way, by other rules
	}
	announced := ipLen(frame[l3:])
	if why := c.contradiction(frame, l3, l4); why != "" {
		c.wrong++
		c.wrongList = appendBounded(c.wrongList, fmt.Sprintf("frame %d, mirror #%d: %s", number, r.ID, why))
		return
	}
	cut := int(be16(frame[l4+4:])) > announced-(l4-l3) // or its UDP length is damaged
	if r.ICRC != packet.ICRCInvalid && !cut || c.vouched || r.Event == EventCorrupt && !c.injected ||
		l3+announced > len(frame) {
		return
	}
	if at, ok := flippedBit(frame[l3 : l3+announced]); ok {
		c.flipped++
		c.flippedList = appendBounded(c.flippedList,
			fmt.Sprintf("frame %d, mirror #%d: bit %d of byte %d is flipped", number, r.ID, at%8, l3+at/8))
	}
}

// templated does the same as add for a frame of template t, or returns false and does nothing if the frame needs add.
func (c *copyCheck) templated(r *Record, t *template, frame []byte) bool {
	if !t.agrees || r.ICRC == packet.ICRCInvalid || t.span.l3 != packet.EthernetLen ||
		!checksumHolds(frame[packet.EthernetLen:]) {
		return false
	}
	c.events[r.Event]++
	return true
}

// checksumHolds reports whether the checksum of an IPv4 header without options is right and not 0xffff, or the header
// is of IPv6.
func checksumHolds(ip []byte) bool {
	h := ip[:packet.IPv4Len:packet.IPv4Len]
	if h[0] != 0x45 {
		return h[0]>>4 == 6
	}
	// The sum of all words, checksum included, is 0xffff; byte order does not matter.
	sum, carry := bits.Add64(binary.LittleEndian.Uint64(h), binary.LittleEndian.Uint64(h[8:]), 0)
	sum, carry = bits.Add64(sum, uint64(le32(h[16:])), carry)
	sum = sum>>32 + sum&0xffff_ffff + carry
	sum = sum>>32 + sum&0xffff_ffff
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	return sum == 0xffff && be16(h[10:]) != 0xffff
}

// ipLen returns the length that an IP header announces, itself included.
func ipLen(ip []byte) int {
	if ip[0]>>4 == 4 {
		return int(be16(ip[2:]))
	}
	return packet.IPv6Len + int(be16(ip[4:]))
}

// contradiction returns the contradiction in a copy's headers: the switch computes the IPv4 header checksum, and IP and
// UDP announce the same length unless another switch has trimmed the packet.
func (c *copyCheck) contradiction(frame []byte, l3, l4 int) string {
	ip, udp := frame[l3:], int(be16(frame[l4+4:]))
	if ip[0]>>4 == 4 {
		if want, got := packet.HeaderChecksum(ip[:l4-l3]), be16(ip[10:]); want != got {
			return fmt.Sprintf("the IPv4 header checksum is %#04x, the header has %#04x", got, want)
		}
	}
	if n := ipLen(ip) - (l4 - l3); n > udp || n < udp && c.injected {
		return fmt.Sprintf("IP announces %d bytes for UDP, UDP %d", n, udp)
	}
	return ""
}

// flippedBit finds the bit of an IP packet that makes its iCRC right when flipped, counted from the start of the
// header.
func flippedBit(l3 []byte) (at int, ok bool) {
	end := len(l3) - packet.ICRCLen
	if end < packet.IPv4Len+packet.UDPLen+packet.BTHLen || l3[0]>>4 == 6 &&
		end < packet.IPv6Len+packet.UDPLen+packet.BTHLen {
		return 0, false
	}
	syndrome := packet.ComputeICRC(l3[:end]) ^ le32(l3[end:])
	if bits.OnesCount32(syndrome) == 1 {
		return 8*end + bits.TrailingZeros32(syndrome), true
	}
	// What a flipped bit of the last byte changes, and of each byte before.
	var change [8]uint32
	for bit := range change {
		change[bit] = crc32.IEEETable[1<<bit]
	}
	for i := end - 1; i >= 0; i-- {
		for bit := range change {
			if change[bit] == syndrome {
				return 8*i + bit, true
			}
			change[bit] = crc32.IEEETable[change[bit]&0xff] ^ change[bit]>>8
		}
	}
	return 0, false
}

// condition is violated by any damaged copy: a device would be blamed for a packet that it did not send.
func (c *copyCheck) condition(icrcs bool) Condition {
	cond := Condition{Name: ConditionCopies, Status: StatusOK,
		Message: "no mirror copy is damaged, as far as headers and iCRCs show"}
	n, list := c.wrong, c.wrongList
	if icrcs {
		n += c.flipped
		for _, s := range c.flippedList {
			list = appendBounded(list, s)
		}
	}
	if n == 0 {
		return cond
	}
	cond.Status, cond.Damaged, cond.DamagedCount = StatusViolated, list, n
	cond.Message = fmt.Sprintf(
		"%d mirror copies are damaged, first %s: by the cable to the dumper, a port, or before the switch", n, list[0])
	return cond
}
