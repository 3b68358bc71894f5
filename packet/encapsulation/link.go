package encapsulation

import "fmt"

// Link is a link type of capture files (LINKTYPE_ values of pcap and pcapng).
type Link uint16

// Link types that are read.
const (
	LinkNull     Link = 0 // BSD loopback: address family in the byte order of the host
	LinkEthernet Link = 1
	linkRawBSD   Link = 12 // raw IP of some systems
	linkRawOpen  Link = 14
	LinkRaw      Link = 101
	LinkLoop     Link = 108 // OpenBSD loopback: address family in network order
	LinkCooked   Link = 113
	LinkERF      Link = 197
	LinkIPv4     Link = 228
	LinkIPv6     Link = 229
	LinkCooked2  Link = 276
)

// linkNames names link types, the most frequent of those that are not read included.
var linkNames = map[Link]string{
	LinkNull: "BSD loopback", LinkEthernet: "Ethernet", 6: "Token Ring", 9: "PPP", linkRawBSD: "raw IP",
	linkRawOpen: "raw IP", 50: "PPP over serial",
	51: "PPPoE", LinkRaw: "raw IP", 105: "IEEE 802.11", LinkLoop: "OpenBSD loopback", LinkCooked: "Linux cooked v1",
	117: "OpenBSD pflog",
	119: "IEEE 802.11 with Prism header", 127: "IEEE 802.11 with radiotap header", 192: "PPI", LinkERF: "ERF",
	LinkIPv4: "IPv4", LinkIPv6: "IPv6",
	239: "netfilter log", 247: "InfiniBand", 249: "USB", 253: "netlink", LinkCooked2: "Linux cooked v2", 280: "vsock",
}

// String returns the name and the number.
func (l Link) String() string {
	if n, ok := linkNames[l]; ok {
		return fmt.Sprintf("%s (%d)", n, uint16(l))
	}
	return fmt.Sprintf("%d", uint16(l))
}

// Check returns an error for an unsupported link type, with what helps.
func (l Link) Check() error {
	switch l {
	case LinkNull, LinkEthernet, linkRawBSD, linkRawOpen, LinkRaw, LinkLoop, LinkCooked, LinkERF, LinkIPv4, LinkIPv6,
		LinkCooked2:
		return nil
	}
	advice := "capture on the Ethernet interface, or export Ethernet or IP frames: tshark -r IN -F pcap -U PDU-NAME, or " +
		"editcap -C to cut the headers before IP off and -T rawip"
	const infiniband = 247
	if l == infiniband {
		advice = "native InfiniBand has no RoCE packets; Candela judges RoCE"
	}
	return fmt.Errorf(
		"link type %v is not read (read are Ethernet, Linux cooked v1 and v2, raw IP, BSD loopback and ERF); %s", l, advice)
}

// network returns the offset of frame's network layer and its EtherType; an ERF record with an Ethernet frame has the
// EtherType of bridged frames.
func (l Link) network(frame []byte) (at int, etherType uint16, layers Layers, ok bool) {
	switch l {
	case LinkCooked:
		const headerLen, protocol = 16, 14
		if len(frame) < headerLen {
			return 0, 0, Cooked, false
		}
		return headerLen, be16(frame[protocol:]), Cooked, true
	case LinkCooked2:
		const headerLen = 20
		if len(frame) < headerLen {
			return 0, 0, Cooked, false
		}
		return headerLen, be16(frame), Cooked, true
	case LinkERF:
		at = ethernetOfERF(frame)
		return at, typeBridged, ERF, at > 0
	case LinkNull, LinkLoop:
		const headerLen = 4
		at = headerLen
	default: // the IP header comes first
	}
	if len(frame) <= at {
		return 0, 0, Raw, false
	}
	switch frame[at] >> 4 {
	case 4:
		return at, typeIPv4, Raw, true
	case 6:
		return at, typeIPv6, Raw, true
	}
	return 0, 0, Raw, false
}

// ethernetOfERF returns the offset of the Ethernet frame in an ERF record, or 0 if it has another type. The record
// starts with 16 bytes (time, type, flags, lengths), then extension headers of eight bytes, each announced by the top
// bit before, then two bytes of padding.
func ethernetOfERF(record []byte) int {
	const headerLen, extensionLen, padding, more, typeAt = 16, 8, 2, 0x80, 8
	if len(record) < headerLen {
		return 0
	}
	switch record[typeAt] &^ more {
	case 2, 11, 16, 20: // ETH, COLOR_ETH, DSM_COLOR_ETH, COLOR_HASH_ETH
	default:
		return 0
	}
	at, another := headerLen, record[typeAt]&more != 0
	for another {
		if len(record) < at+extensionLen {
			return 0
		}
		another = record[at]&more != 0
		at += extensionLen
	}
	if at += padding; at > len(record) {
		return 0
	}
	return at
}
