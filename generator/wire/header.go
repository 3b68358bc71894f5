// Package wire is what hosts of switch tests put on the wire, and what a transport declares about it: the fields of a
// packet, the addresses of hosts, and the codec that makes frames of packets and packets of frames. Switches, taps and
// captures of all testbeds know transports by these values alone.
package wire

import (
	"encoding/binary"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/packet/tcp"
	"candela.dev/candela/trace"
)

// HostID numbers hosts from 0. The address plan: host h has the locally administered MAC 02:ca:de:xx:xx:xx,
// 10.0.0.0/8 + h+1 and fd00:ca:de::/64 + h+1.
type HostID uint16

// Nobody is no host: networks have fewer.
const Nobody HostID = 0xffff

// MAC returns the host's Ethernet address.
func (h HostID) MAC() packet.MAC { return packet.MACFromUint48(0x02ca_de00_0000 | uint64(h)) }

// IPv4 returns the host's IPv4 address.
func (h HostID) IPv4() netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|uint32(h)+1)
	return netip.AddrFrom4(b)
}

// IPv6 returns the host's IPv6 address.
func (h HostID) IPv6() netip.Addr {
	b := [16]byte{0xfd, 0, 0, 0xca, 0, 0xde}
	binary.BigEndian.PutUint64(b[8:], uint64(h)+1)
	return netip.AddrFrom16(b)
}

// HostOf returns the host that has an address of 4 or 16 bytes, or Nobody.
func HostOf(address []byte) HostID {
	n := uint64(binary.BigEndian.Uint32(address)) - 1
	if len(address) == 4 {
		n ^= 10 << 24
	} else if n = binary.BigEndian.Uint64(address[8:]) - 1; binary.BigEndian.Uint64(address) != 0xfd00_00ca_00de_0000 {
		return Nobody
	}
	return HostID(min(n, uint64(Nobody)))
}

// Header is what of a packet may be read and set, and what a copy copies. The order of fields is that of use: with the
// links of fabric.Packet before it, what every hop touches, NDP's kind and flags included, fills one cache line of 64
// bytes, the rest another.
type Header struct {
	Arrived clock.Time // at the switch that has it now, through a front port
	// Size is the current length in bytes of the frame without FCS; a link adds its framing bytes.
	Size int32
	// Meta is for the mechanism of the switch that has the packet now; cleared when it arrives through a front port.
	Meta     uint32
	Dst      HostID
	Entropy  uint16 // source port or path tag, for the ECMP hash
	Flags    trace.PacketFlags
	Ingress  uint16 // front port by which it entered the switch that has it now
	Egress   uint16 // port that routing chose there, then the one that it was queued at
	Protocol trace.Protocol
	Class    uint8 // traffic class: queue of the egress port and PFC priority; set by the host or by the switch's DSCP map
	DSCP     uint8
	ECN      packet.ECN
	TTL      uint8
	IPv6     bool
	Hops     uint8 // links traversed
	Deflects uint8 // times that it was deflected
	Src      HostID
	// NDP begins in the first line, because switches read its kind and flags.
	NDP ndp.Header

	// Original is the length before trimming; equal to Size if whole.
	Original int32
	// Number tells the packets of a flow apart, and equals that of the packet which a retransmission repeats: what
	// observers identify a packet by. Its transport sets it; that of NDP is in its own header.
	Number uint32
	ID     uint64 // unique per simulated packet (a copy gets its own), for taps and conservation checks
	// Rank is what schedulers and admission by rank go by, lowest first: set by fabric.Packet.SetRank, and meaningless
	// without the flag Ranked.
	Rank uint64
	Flow uint32 // connection, for the ECMP hash and reports
	TCP  tcp.Header
}

// HeaderLen returns the bytes of Ethernet and IP.
func HeaderLen(v6 bool) int {
	if v6 {
		return packet.EthernetLen + packet.IPv6Len
	}
	return packet.EthernetLen + packet.IPv4Len
}
