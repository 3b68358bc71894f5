// Package wire has the packets of hosts in switch tests: the fields of a packet, the addresses of hosts, and the codecs
// that encode packets as frames and decode them. Switches, taps and captures of all testbeds access transports only
// through this package.
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

// Nobody is an invalid host; networks are smaller.
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

// HostOf returns the host with an address of 4 or 16 bytes, or Nobody.
func HostOf(address []byte) HostID {
	n := uint64(binary.BigEndian.Uint32(address)) - 1
	if len(address) == 4 {
		n ^= 10 << 24
	} else if n = binary.BigEndian.Uint64(address[8:]) - 1; binary.BigEndian.Uint64(address) != 0xfd00_00ca_00de_0000 {
		return Nobody
	}
	return HostID(min(n, uint64(Nobody)))
}

// Header has the fields of a packet that hosts and switches read and set, and that a copy copies. Fields are in order
// of use: together with the links of fabric.Packet before it, the fields that every hop uses, including NDP's kind and
// flags, fill one cache line of 64 bytes.
type Header struct {
	Arrived clock.Time // at the switch that has it now, through a front port
	// Size is the current length in bytes of the frame without FCS; a link adds its framing bytes.
	Size int32
	// Meta belongs to the mechanism of the current switch; cleared on arrival through a front port.
	Meta     uint32
	Dst      HostID
	Entropy  uint16 // source port or path tag, for the ECMP hash
	Flags    trace.PacketFlags
	Ingress  uint16 // front port by which it entered the current switch
	Egress   uint16 // port chosen by routing there, then the port where it is queued
	Protocol trace.Protocol
	Class    uint8 // traffic class: queue of the egress port and PFC priority; set by the host or by the switch's DSCP map
	DSCP     uint8
	ECN      packet.ECN
	TTL      uint8
	IPv6     bool
	Hops     uint8 // links traversed
	Deflects uint8 // times it was deflected
	Src      HostID
	// NDP starts in the first cache line, because switches read its kind and flags.
	NDP ndp.Header

	// Original is the length before trimming; equal to Size if not trimmed.
	Original int32
	// Number identifies a packet within its flow; a retransmission has the number of its original. The transport sets it;
	// NDP's is in NDP.
	Number uint32
	ID     uint64 // unique per simulated packet (a copy gets its own), for taps and conservation checks
	// Rank is the key of schedulers and admission by rank, lowest first. SetRank sets it; it is valid only with the flag
	// Ranked.
	Rank uint64
	Flow uint32 // connection, for the ECMP hash and reports
	TCP  tcp.Header
}

// HeaderLen returns the length of the Ethernet and IP headers.
func HeaderLen(v6 bool) int {
	if v6 {
		return packet.EthernetLen + packet.IPv6Len
	}
	return packet.EthernetLen + packet.IPv4Len
}
