// Package encapsulation finds the RoCE packet in a captured frame of any supported link type, below VLAN tags and
// tunnel headers, and returns it as a plain Ethernet frame. It allocates nothing per frame and never fails on bad
// input: a frame without a RoCE packet is returned unchanged.
package encapsulation

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// Layers is a set of headers that were removed.
type Layers uint16

// Headers that are removed.
const (
	Cooked     Layers = 1 << iota // Linux cooked capture, version 1 or 2
	Raw                           // a capture without link layer
	VLAN                          // 802.1Q or 802.1ad tags beyond a single 802.1Q tag
	MPLS                          // label stack
	IPinIP                        // IPv4 or IPv6 in IPv4 or IPv6
	VXLAN                         // RFC 7348
	GENEVE                        // RFC 8926
	GRE                           // RFC 2784, 2890
	ERSPAN                        // mirror copies, type I or II
	ERSPAN3                       // mirror copies, type III
	RoCEv1                        // global route header instead of IP and UDP
	ERF                           // Endace extensible record format
	layerCount = iota
)

var layerNames = [layerCount]string{"Linux cooked", "raw IP", "VLAN tags", "MPLS", "IP in IP", "VXLAN", "GENEVE", "GRE",
	"ERSPAN", "ERSPAN III", "RoCEv1", "ERF"}

// String lists the headers from the outermost to the innermost of the usual order.
func (l Layers) String() string {
	var names []string
	for i, n := range layerNames {
		if l&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// Count returns the number of headers in the set.
func (l Layers) Count() int { return bits.OnesCount16(uint16(l)) }

// EtherTypes, IP protocols and UDP ports that lead to a RoCE packet.
const (
	typeIPv4, typeIPv6    = 0x0800, 0x86dd
	typeVLAN, typeQinQ    = 0x8100, 0x88a8
	typeOldQinQ           = 0x9100
	typeMPLS, typeMPLSUp  = 0x8847, 0x8848
	typeRoCEv1            = 0x8915
	typeBridged           = 0x6558 // transparent Ethernet bridging
	typeERSPAN            = 0x88be // type I and II
	typeERSPAN3           = 0x22eb
	protocolIPv4          = 4
	protocolUDP           = 17
	protocolIPv6          = 41
	protocolGRE           = 47
	portRoCE              = 4791
	portVXLAN, portVXLAN2 = 4789, 8472 // assigned, and the default of Linux
	portGENEVE            = 6081
	ethernetLen, udpLen   = 14, 8
	tagLen                = 4
	ipv4Len, ipv6Len      = 20, 40
	bthLen, icrcLen       = 12, 4
	maxDepth              = 12 // headers below one another
)

// A Frame is a RoCE packet as a plain Ethernet frame.
type Frame struct {
	Data []byte // valid until the next call; in the input, or in a buffer of the Unwrapper
	// Cut is how many bytes were removed from the front of the input, Added how many replaced them.
	Cut, Added int
	Layers     Layers
	Stamp      Stamp // of an ERSPAN III header
}

// A Stamp is the time in an ERSPAN type III header: 32 bits of the mirroring switch's clock.
type Stamp struct {
	Valid  bool
	Ticks  uint32
	UnitNS int64  // 100,000 or 100; 1 for IEEE 1588 time, whose seconds are not in the header
	Source uint64 // who stamped: the address and hardware of the switch
}

// An Unwrapper holds a buffer for frames that are not contiguous. The zero Unwrapper is ready. It is not safe for
// concurrent use.
type Unwrapper struct{ buf []byte }

// Plain reports whether frame, which starts with an Ethernet header, is a RoCEv2 packet without tag, option or tunnel,
// as nearly all frames of a capture are. Unwrap does not change it.
func Plain(frame []byte) bool {
	const v4, v6 = ethernetLen + ipv4Len, ethernetLen + ipv6Len
	if len(frame) < v4+udpLen {
		return false
	}
	switch be16(frame[12:]) {
	case typeIPv4:
		return frame[14] == 0x45 && frame[23] == protocolUDP && be16(frame[v4+2:]) == portRoCE
	case typeIPv6:
		return frame[20] == protocolUDP && len(frame) >= v6+udpLen && be16(frame[v6+2:]) == portRoCE
	}
	return false
}

// Unwrap finds the RoCE packet in a frame. If there is none, ok is false and out has the frame with an Ethernet header
// in place of another link layer.
func (u *Unwrapper) Unwrap(link Link, frame []byte) (out Frame, ok bool) {
	w := walk{b: frame, ethernet: -1}
	at, etherType := 0, uint16(typeBridged)
	if link != LinkEthernet {
		var known bool
		if at, etherType, w.layers, known = link.network(frame); !known {
			return Frame{Cut: len(frame), Layers: w.layers}, false
		}
	}
	outer := w.layers
	ok = w.payload(etherType, at)
	switch {
	case ok && w.kind == typeRoCEv1:
		return u.fromV1(&w), true
	case ok && w.ethernet >= 0 && (w.packet == w.ethernet+ethernetLen || w.tags == 1 &&
		w.packet == w.ethernet+ethernetLen+tagLen):
		return Frame{Data: frame[w.ethernet:], Cut: w.ethernet, Layers: w.layers, Stamp: w.stamp}, true
	case ok:
		return u.assemble(&w, w.packet, w.kind), true
	case etherType == typeBridged:
		return Frame{Data: frame[at:], Cut: at, Layers: outer}, false
	}
	w = walk{b: frame, ethernet: -1, layers: outer}
	return u.assemble(&w, at, etherType), false
}

// assemble puts an Ethernet header before the packet at offset at.
func (u *Unwrapper) assemble(w *walk, at int, etherType uint16) Frame {
	u.buf = append(w.appendEthernet(u.buf[:0], etherType), w.b[at:]...)
	return Frame{Data: u.buf, Cut: at, Added: ethernetLen, Layers: w.layers, Stamp: w.stamp}
}

// appendEthernet appends an Ethernet header with the addresses of the innermost one. Without any, the addresses are
// local ones that cannot be a sequence number or time of a mirror copy.
func (w *walk) appendEthernet(b []byte, etherType uint16) []byte {
	if w.ethernet >= 0 {
		b = append(b, w.b[w.ethernet:w.ethernet+12]...)
	} else {
		b = append(b, 2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0)
	}
	return binary.BigEndian.AppendUint16(b, etherType)
}

// walk is one way down the headers of a frame.
type walk struct {
	b        []byte
	depth    int
	ethernet int    // offset of the innermost Ethernet header, -1: none
	tags     int    // after it: 1 for a single 802.1Q tag, 2 for any others
	packet   int    // offset of the IP or global route header of the RoCE packet
	kind     uint16 // its EtherType
	source   uint64 // address of the outer IP packet's sender, folded
	layers   Layers
	stamp    Stamp
}

// has reports whether n bytes are captured at offset at.
func (w *walk) has(at, n int) bool { return at >= 0 && len(w.b)-at >= n }

// frame continues at an Ethernet header.
func (w *walk) frame(at int) bool {
	if !w.has(at, ethernetLen) {
		return false
	}
	w.ethernet, w.tags = at, 0
	return w.network(be16(w.b[at+12:]), at+ethernetLen)
}

// network continues after an EtherType.
func (w *walk) network(etherType uint16, at int) bool {
	if w.depth++; w.depth > maxDepth {
		return false
	}
	switch etherType {
	case typeVLAN, typeQinQ, typeOldQinQ:
		return w.vlan(etherType, at)
	case typeMPLS, typeMPLSUp:
		return w.mpls(at)
	case typeIPv4:
		return w.ipv4(at)
	case typeIPv6:
		return w.ipv6(at)
	case typeRoCEv1:
		if w.has(at, ipv6Len+bthLen) && w.b[at]>>4 == 6 && w.b[at+6] == nextHeaderBTH {
			w.packet, w.kind, w.layers = at, typeRoCEv1, w.layers|RoCEv1
			return true
		}
	}
	return false
}

func (w *walk) vlan(etherType uint16, at int) bool {
	if !w.has(at, tagLen) {
		return false
	}
	if w.tags++; etherType != typeVLAN || w.tags > 1 || w.ethernet < 0 {
		w.tags, w.layers = 2, w.layers|VLAN // a single 802.1Q tag stays
	}
	return w.network(be16(w.b[at+2:]), at+tagLen)
}

func (w *walk) mpls(at int) bool {
	w.layers |= MPLS
	for ; w.has(at, 5); at += 4 {
		const bottom = 1
		if w.b[at+2]&bottom == 0 {
			continue
		}
		switch w.b[at+4] >> 4 {
		case 4:
			return w.network(typeIPv4, at+4)
		case 6:
			return w.network(typeIPv6, at+4)
		}
		return false
	}
	return false
}

func (w *walk) ipv4(at int) bool {
	const moreFragmentsOrOffset = 0x3fff
	if !w.has(at, ipv4Len) {
		return false
	}
	ip := w.b[at : at+ipv4Len]
	header := int(ip[0]&0xf) * 4
	if ip[0]>>4 != 4 || header < ipv4Len || be16(ip[6:])&moreFragmentsOrOffset != 0 {
		return false
	}
	if w.depth == 1 || w.source == 0 {
		w.source = uint64(binary.BigEndian.Uint32(ip[12:]))
	}
	return w.transport(ip[9], typeIPv4, at, at+header)
}

func (w *walk) ipv6(at int) bool {
	if !w.has(at, ipv6Len) || w.b[at]>>4 != 6 {
		return false
	}
	if w.depth == 1 || w.source == 0 {
		w.source = binary.BigEndian.Uint64(w.b[at+8:])*31 + binary.BigEndian.Uint64(w.b[at+16:])
	}
	return w.transport(w.b[at+6], typeIPv6, at, at+ipv6Len)
}

// transport continues after the IP header at ip.
func (w *walk) transport(protocol byte, etherType uint16, ip, at int) bool {
	switch protocol {
	case protocolUDP:
		return w.udp(etherType, ip, at)
	case protocolIPv4:
		w.layers |= IPinIP
		w.ethernet = -1
		return w.network(typeIPv4, at)
	case protocolIPv6:
		w.layers |= IPinIP
		w.ethernet = -1
		return w.network(typeIPv6, at)
	case protocolGRE:
		return w.gre(at)
	}
	return false
}

func (w *walk) udp(etherType uint16, ip, at int) bool {
	if !w.has(at, udpLen) {
		return false
	}
	const headerLen = 8 // of VXLAN, and of GENEVE without options
	switch be16(w.b[at+2:]) {
	case portRoCE:
		w.packet, w.kind = ip, etherType
		return true
	case portVXLAN, portVXLAN2:
		const validVNI = 0x08
		if w.has(at, udpLen+headerLen) && w.b[at+udpLen]&validVNI != 0 {
			w.layers |= VXLAN
			return w.frame(at + udpLen + headerLen)
		}
	case portGENEVE:
		if !w.has(at, udpLen+headerLen) || w.b[at+udpLen]>>6 != 0 {
			return false
		}
		w.layers |= GENEVE
		return w.payload(be16(w.b[at+udpLen+2:]), at+udpLen+headerLen+int(w.b[at+udpLen]&0x3f)*4)
	}
	return false
}

// payload continues at what a tunnel carries.
func (w *walk) payload(etherType uint16, at int) bool {
	if etherType == typeBridged {
		return w.frame(at)
	}
	w.ethernet = -1
	return w.network(etherType, at)
}

// gre continues after the GRE header at offset at (RFC 2784, with key and sequence number of RFC 2890).
func (w *walk) gre(at int) bool {
	const checksum, routing, key, sequence, version = 0x80, 0x40, 0x20, 0x10, 0x07
	if !w.has(at, 4) || w.b[at]&routing != 0 || w.b[at+1]&version != 0 {
		return false
	}
	flags, protocol := w.b[at], be16(w.b[at+2:])
	at += 4
	for _, option := range []byte{checksum, key, sequence} {
		if flags&option != 0 {
			at += 4
		}
	}
	switch protocol {
	case typeERSPAN:
		w.layers |= ERSPAN
		if flags&sequence == 0 {
			return w.frame(at) // type I has neither sequence number nor header
		}
		const headerLen, version2 = 8, 1
		return w.has(at, headerLen) && w.b[at]>>4 == version2 && w.frame(at+headerLen)
	case typeERSPAN3:
		return w.erspan3(at)
	}
	w.layers |= GRE
	return w.payload(protocol, at)
}

// erspan3 continues after an ERSPAN type III header (draft-foschiano-erspan): version and VLAN, session, timestamp,
// then SGT, P, FT, HwID, D, Gra and O in the last 32 bits. O announces eight more bytes.
func (w *walk) erspan3(at int) bool {
	const headerLen, subheaderLen = 12, 8
	if !w.has(at, headerLen) || w.b[at]>>4 != 2 {
		return false
	}
	last := be16(w.b[at+10:])
	w.layers |= ERSPAN3
	units := [4]int64{100_000, 100, 1, 0}
	if unit := units[last>>1&3]; unit != 0 {
		w.stamp = Stamp{
			Valid: true, Ticks: binary.BigEndian.Uint32(w.b[at+4:]), UnitNS: unit, Source: w.source<<6 ^ uint64(last>>4&0x3f),
		}
	}
	at += headerLen
	if last&1 != 0 {
		at += subheaderLen
	}
	const frameType = 0x1f
	if last>>10&frameType == 2 { // an IP packet without Ethernet header
		if !w.has(at, 1) {
			return false
		}
		w.ethernet = -1
		if w.b[at]>>4 == 6 {
			return w.network(typeIPv6, at)
		}
		return w.network(typeIPv4, at)
	}
	return w.frame(at)
}

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
