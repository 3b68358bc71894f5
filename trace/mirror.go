package trace

import (
	"encoding/binary"
	"errors"
	"fmt"

	"candela.dev/candela/packet"
)

// stampBits is the width of the mirror encoding's sequence numbers and timestamps, which live in MAC address fields.
const (
	stampBits = 48
	stampMask = 1<<stampBits - 1
)

// MirrorMeta is what the injector writes over a mirror copy (spec §4): nothing grows, fields that the trace does not
// need are overwritten.
type MirrorMeta struct {
	Event      EventType // in the TTL or hop limit
	Seq        uint64    // in the source MAC, modulo 2⁴⁸
	TimeNS     int64     // in the destination MAC, modulo 2⁴⁸
	UDPDstPort uint16    // 4791 in a trace; random on the way to a dumper, so that RSS spreads the load
}

// ErrNotMirror is what errors about frames that can't carry the mirror encoding answer to.
var ErrNotMirror = errors.New("not a UDP frame")

// EncodeMirror writes m over a serialised frame in place. The IPv4 checksum is updated for the new TTL; the UDP
// checksum stays the original's, although the port changes (design, "Trace"). It fails on frames that are not UDP over
// IPv4 or IPv6, without changing them.
func EncodeMirror(frame []byte, m MirrorMeta) error {
	l3, l4, err := LocateUDP(frame)
	if err != nil {
		return err
	}
	putUint48(frame[0:6], uint64(m.TimeNS))
	putUint48(frame[6:12], m.Seq)
	if frame[l3]>>4 == 4 {
		setTTL(frame[l3:], uint8(m.Event))
	} else {
		frame[l3+7] = uint8(m.Event)
	}
	binary.BigEndian.PutUint16(frame[l4+2:], m.UDPDstPort)
	return nil
}

// DecodeMirror reads what EncodeMirror wrote. TimeNS is the stamp in the frame, in 0…2⁴⁸−1: see [TimeUnwrapper]. An
// event type beyond MaxEventType is an error that names it.
func DecodeMirror(frame []byte) (MirrorMeta, error) {
	l3, l4, err := LocateUDP(frame)
	if err != nil {
		return MirrorMeta{}, err
	}
	m := MirrorMeta{
		Seq:        uint48(frame[6:12]),
		TimeNS:     int64(uint48(frame[0:6])),
		UDPDstPort: be16(frame[l4+2:]),
		Event:      EventType(frame[l3+7]),
	}
	if frame[l3]>>4 == 4 {
		m.Event = EventType(frame[l3+8])
	}
	if m.Event > MaxEventType {
		return m, fmt.Errorf("TTL %d is not an event type (0 to %d)", uint8(m.Event), MaxEventType)
	}
	return m, nil
}

// RestorePort sets the UDP destination port of a mirror copy back to 4791, after which its iCRC can be checked. It does
// not change frames that are not UDP.
func RestorePort(frame []byte) {
	if _, l4, err := LocateUDP(frame); err == nil {
		binary.BigEndian.PutUint16(frame[l4+2:], packet.Port)
	}
}

// setTTL changes the TTL of an IPv4 header and recomputes the whole checksum: an update would keep an error that
// arrived with the packet, and the copy would look damaged by the switch.
func setTTL(ip []byte, ttl uint8) {
	ip[8] = ttl
	binary.BigEndian.PutUint16(ip[10:], packet.HeaderChecksum(ip[:int(ip[0]&0xf)*4]))
}

// LocateUDP returns the offsets of the IP and UDP headers of frame, if it has both whole.
func LocateUDP(frame []byte) (l3, l4 int, err error) {
	if len(frame) < packet.EthernetLen {
		return 0, 0, fmt.Errorf("%w: %d bytes", ErrNotMirror, len(frame))
	}
	l3 = packet.EthernetLen
	etherType := be16(frame[12:])
	if etherType == packet.EtherTypeVLAN && len(frame) >= l3+packet.VLANLen {
		etherType = be16(frame[16:])
		l3 += packet.VLANLen
	}
	proto := uint8(0)
	switch {
	case etherType == packet.EtherTypeIPv4 && len(frame) >= l3+packet.IPv4Len && frame[l3]>>4 == 4:
		const moreFragmentsOrOffset = 0x3fff
		if be16(frame[l3+6:])&moreFragmentsOrOffset != 0 {
			return 0, 0, fmt.Errorf("%w: an IP fragment", ErrNotMirror)
		}
		ihl := int(frame[l3]&0xf) * 4
		if ihl < packet.IPv4Len {
			return 0, 0, fmt.Errorf("%w: IPv4 header length %d", ErrNotMirror, ihl)
		}
		proto, l4 = frame[l3+9], l3+ihl
	case etherType == packet.EtherTypeIPv6 && len(frame) >= l3+packet.IPv6Len && frame[l3]>>4 == 6:
		proto, l4 = frame[l3+6], l3+packet.IPv6Len
	default:
		return 0, 0, fmt.Errorf("%w: EtherType 0x%04x, %d bytes", ErrNotMirror, etherType, len(frame))
	}
	if proto != packet.ProtocolUDP {
		return 0, 0, fmt.Errorf("%w: IP protocol %d", ErrNotMirror, proto)
	}
	if len(frame) < l4+packet.UDPLen {
		return 0, 0, fmt.Errorf("%w: cut inside the UDP header", ErrNotMirror)
	}
	return l3, l4, nil
}

func putUint48(b []byte, v uint64) {
	_ = b[5]
	b[0], b[1], b[2], b[3], b[4], b[5] = byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
}

func uint48(b []byte) uint64 { return uint64(be16(b))<<32 | uint64(be32(b[2:])) }

// distance48 returns the signed distance from a to b modulo 2⁴⁸, in −2⁴⁷ … 2⁴⁷−1.
func distance48(a, b uint64) int64 { return int64((b-a)<<(64-stampBits)) >> (64 - stampBits) }

// TimeUnwrapper follows a mirror stamp of 48 bits across its wraps (every 78.2 hours). The zero value is ready for use.
type TimeUnwrapper struct {
	last    int64
	started bool
}

// Unwrap returns the time of stamp, in ns; the first is the stamp itself. A stamp smaller than its predecessor is a
// wrap if the distance forward is below 2⁴⁷; otherwise time, and the result, went back.
func (u *TimeUnwrapper) Unwrap(stamp uint64) int64 {
	if !u.started {
		u.started, u.last = true, int64(stamp&stampMask)
		return u.last
	}
	u.last += distance48(uint64(u.last)&stampMask, stamp&stampMask)
	return u.last
}

// NormaliseLumina turns a mirror copy of Lumina's prototype into ours, in place: sequence number seq, RoCE's
// destination port, the original source port, no UDP checksum. It fails on frames that are not UDP.
func NormaliseLumina(frame []byte, seq uint64) error {
	_, l4, err := LocateUDP(frame)
	if err != nil {
		return err
	}
	putUint48(frame[6:12], seq)
	restoreLuminaPorts(frame, l4)
	return nil
}

// WireLen returns the length of a frame on the wire by its IP header, which is more than len(frame) if the frame was
// cut. For frames without IP it is len(frame).
func WireLen(frame []byte) int {
	l3, _, err := LocateUDP(frame)
	if err != nil {
		return len(frame)
	}
	n := l3 + int(be16(frame[l3+2:]))
	if frame[l3]>>4 == 6 {
		n = l3 + packet.IPv6Len + int(be16(frame[l3+4:]))
	}
	return max(n, len(frame))
}
