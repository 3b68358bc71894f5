package lock

import (
	"encoding/binary"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// Decoder turns captured frames into packets and numbers them. The zero value is ready.
type Decoder struct{ number uint64 }

const (
	typeIPv4, typeIPv6, typeVLAN = 0x0800, 0x86dd, 0x8100
	protocolUDP                  = 17
	ethernetLen, vlanLen, udpLen = 14, 4, 8
	ipv4Len, ipv6Len, portsLen   = 20, 40, 4
)

// Decode fills p from a frame, its time counted from originNS. Where the frame was seen is for the caller to fill in:
// Switch, Port and Stage. What is not of the lock manager gets a flow and a digest, by which it is found again: all but
// MAC addresses, VLAN tag, TTL and header checksum, which a router may change.
func (d *Decoder) Decode(f *trace.Frame, originNS int64, p *Packet) {
	d.number++
	*p = Packet{Time: clock.Time(clock.Duration(f.TimeNS-originNS) * clock.Nanosecond), ID: d.number,
		Size: int32(max(f.OrigLen, len(f.Data)))}
	b := f.Data
	if len(b) < ethernetLen {
		p.Flow, p.Digest = 1, digest(seed, b)|1
		return
	}
	kind := binary.BigEndian.Uint16(b[12:])
	b = b[ethernetLen:]
	if kind == typeVLAN && len(b) >= vlanLen {
		kind, b = binary.BigEndian.Uint16(b[2:]), b[vlanLen:]
	}
	switch {
	case kind == typeIPv4 && len(b) >= ipv4Len && b[0]>>4 == 4 && int(b[0]&0xf)*4 >= ipv4Len && len(b) >= int(b[0]&0xf)*4:
		p.ipv4(b)
	case kind == typeIPv6 && len(b) >= ipv6Len && b[0]>>4 == 6:
		p.ipv6(b)
	default:
		p.Flow, p.Digest = digest(seed, f.Data[:12])|1, digest(seed, b)|1
	}
}

func (p *Packet) ipv4(b []byte) {
	header, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if total >= header && total < len(b) {
		b = b[:total] // without padding
	}
	p.Src, p.Dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	fragment := binary.BigEndian.Uint16(b[6:])&0x3fff != 0
	if b[9] == protocolUDP && !fragment && p.udp(b[header:]) {
		return
	}
	sum := digest(digest(digest(seed, b[:8]), b[9:10]), b[12:])
	p.foreign(b[9], b[12:20], b[header:], fragment, sum)
}

func (p *Packet) ipv6(b []byte) {
	if total := ipv6Len + int(binary.BigEndian.Uint16(b[4:])); total < len(b) {
		b = b[:total]
	}
	p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	if b[6] == protocolUDP && p.udp(b[ipv6Len:]) {
		return
	}
	p.foreign(b[6], b[8:40], b[ipv6Len:], false, digest(digest(seed, b[:7]), b[8:]))
}

// udp decodes a packet of the lock manager.
func (p *Packet) udp(b []byte) bool {
	if len(b) < udpLen {
		return false
	}
	if p.DstPort = binary.BigEndian.Uint16(b[2:]); p.DstPort != netlock.Port && p.DstPort != netlock.ReplyPort {
		return false
	}
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length < udpLen || length > len(b) || p.Header.Parse(b[udpLen:length]) != nil {
		return false
	}
	p.Lock = true
	return true
}

// foreign names the flow of a packet of others: a fragment has no ports.
func (p *Packet) foreign(protocol byte, addresses, rest []byte, fragment bool, sum uint64) {
	flow := digest(digest(seed, []byte{protocol}), addresses)
	if !fragment && len(rest) >= portsLen {
		flow = digest(flow, rest[:portsLen])
	}
	p.Flow, p.Digest = flow|1, sum|1
}

// FNV-1a.
const seed, prime = 14695981039346656037, 1099511628211

func digest(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * prime
	}
	return h
}
