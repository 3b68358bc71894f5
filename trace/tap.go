package trace

import (
	"encoding/binary"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
)

// TapPoint is where a packet was seen: before or after the switch under test (or, between watched hosts, leaving and
// reaching them).
type TapPoint uint8

// Tap points.
const (
	TapBefore TapPoint = 1 + iota
	TapAfter
)

// String returns the point in lower case.
func (p TapPoint) String() string { return [...]string{"unset", "before", "after"}[p%3] }

// Tap is one NDP packet seen at one point, on the clock that all points share. A simulator fills it in directly,
// TapDecoder from captured frames.
type Tap struct {
	Time   clock.Time
	Number uint64 // names the packet in findings: its ID, or of captures its place among the observations; 0: none
	Point  TapPoint
	IPv6   bool
	DSCP   uint8
	ECN    uint8
	Src    uint32 // hosts, numbered as the observer likes
	Dst    uint32
	At     uint32 // the host whose NIC this is, plus 1; 0: a switch, or not known
	Size   int32  // bytes of the frame without FCS, by its IP header
	// Payload is how many bytes of NDP payload are there.
	Payload int32
	NDP     ndp.Header
}

// Trimmed reports whether the packet is a data packet that has lost payload.
func (t *Tap) Trimmed() bool { return t.NDP.Trimmed(ndp.Size + int(t.Payload)) }

// Returned reports whether the packet is on its way back to its sender.
func (t *Tap) Returned() bool { return t.NDP.Flags&ndp.FlagReturned != 0 }

// TapDecoder turns captured frames into observations. It numbers hosts by their IP addresses, in the order of their
// first packets.
type TapDecoder struct {
	hosts  map[[16]byte]uint32
	number uint64
}

// Hosts returns how many addresses were seen.
func (d *TapDecoder) Hosts() int { return len(d.hosts) }

// Know gives an address its number before frames are decoded. Other addresses get the numbers after those.
func (d *TapDecoder) Know(address netip.Addr, host uint32) {
	if d.hosts == nil {
		d.hosts = make(map[[16]byte]uint32)
	}
	d.hosts[address.As16()] = host
}

const (
	typeIPv4, typeIPv6, typeVLAN = 0x0800, 0x86dd, 0x8100
	protocolUDP                  = 17
	ethernetLen, udpLen          = 14, 8
)

// Decode fills t from a frame, its time counted from originNS, and reports whether it is an NDP packet.
func (d *TapDecoder) Decode(f *Frame, point TapPoint, originNS int64, t *Tap) bool {
	b := f.Data
	if len(b) < ethernetLen {
		return false
	}
	etherType, b := binary.BigEndian.Uint16(b[12:]), b[ethernetLen:]
	if etherType == typeVLAN && len(b) >= 4 {
		etherType, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	next := Tap{Point: point, Time: clock.Time(clock.Duration(f.TimeNS-originNS) * clock.Nanosecond)}
	udp, src, dst, ok := next.parseIP(etherType, b)
	if !ok || len(udp) < udpLen {
		return false
	}
	from, to := binary.BigEndian.Uint16(udp), binary.BigEndian.Uint16(udp[2:])
	if from != ndp.Port && to != ndp.Port || next.NDP.Parse(udp[udpLen:]) != nil {
		return false
	}
	next.Payload = max(0, next.Payload-udpLen-ndp.Size)
	next.Src, next.Dst = d.host(src), d.host(dst)
	d.number++
	next.Number = d.number
	*t = next
	return true
}

// parseIP removes the IP header from b; t.Payload becomes the length of its contents, captured or not.
func (t *Tap) parseIP(etherType uint16, b []byte) (udp []byte, src, dst [16]byte, ok bool) {
	switch {
	case etherType == typeIPv4 && len(b) >= 20 && b[0]>>4 == 4:
		header, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
		fragment := binary.BigEndian.Uint16(b[6:]) & 0x3fff
		if header < 20 || len(b) < header || total < header || b[9] != protocolUDP || fragment != 0 {
			return nil, src, dst, false
		}
		src[10], src[11], dst[10], dst[11] = 0xff, 0xff, 0xff, 0xff
		copy(src[12:], b[12:16])
		copy(dst[12:], b[16:20])
		t.DSCP, t.ECN = b[1]>>2, b[1]&3
		t.Size, t.Payload = int32(ethernetLen+total), int32(total-header)
		return b[header:], src, dst, true
	case etherType == typeIPv6 && len(b) >= 40 && b[0]>>4 == 6:
		length := int(binary.BigEndian.Uint16(b[4:]))
		if b[6] != protocolUDP {
			return nil, src, dst, false
		}
		copy(src[:], b[8:24])
		copy(dst[:], b[24:40])
		class := b[0]<<4 | b[1]>>4
		t.IPv6, t.DSCP, t.ECN = true, class>>2, class&3
		t.Size, t.Payload = int32(ethernetLen+40+length), int32(length)
		return b[40:], src, dst, true
	}
	return nil, src, dst, false
}

func (d *TapDecoder) host(address [16]byte) uint32 {
	if n, ok := d.hosts[address]; ok {
		return n
	}
	if d.hosts == nil {
		d.hosts = make(map[[16]byte]uint32)
	}
	n := uint32(len(d.hosts))
	d.hosts[address] = n
	return n
}
