package trace

import (
	"fmt"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
)

// Protocol is what a packet at a switch carries.
type Protocol uint8

// Protocols. PFC frames exist between neighbours only: no mechanism, host or judge sees them.
const (
	ProtocolRaw Protocol = 1 + iota // plain UDP
	ProtocolNDP
	ProtocolTCP
	ProtocolRoCE
	ProtocolEcho // ICMP echo
	ProtocolPFC
	ProtocolPFabric
	ProtocolBolt
	ProtocolNetLock
)

var protocolNames = [...]string{"unset", "raw", "ndp", "tcp", "roce", "echo", "pfc", "pfabric", "bolt", "netlock"}

// Protocols is how many numbers of protocols there are, unset included.
const Protocols = len(protocolNames)

// String returns the protocol in the words of the configuration.
func (p Protocol) String() string {
	if int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return fmt.Sprintf("protocol(%d)", uint8(p))
}

// PacketFlags say what switches did to a packet.
type PacketFlags uint16

// Flags.
const (
	Trimmed        PacketFlags = 1 << iota // payload cut
	Returned                               // addresses reversed: on its way back to its sender
	ChecksumStale                          // the transport checksum (or iCRC) is the one from before a change
	LengthStale                            // IP and UDP lengths are the ones from before trimming
	Deflected                              // sent elsewhere than its route says
	Mirrored                               // a copy that a switch made
	Notification                           // a message between the pipelines of one switch
	HeaderSumStale                         // the IPv4 header checksum is the one of the length from before trimming
	// the trimmed mark is in the packet (NDP flag or DSCP), not only known to the simulator
	TrimmedMark
	Ranked       // has a rank
	PortsSwapped // the transport ports are swapped: a fault of a switch
	Made         // by a switch
	Shimmed      // its label is a shim after the IP header (package packet/fairshim)
)

var flagNames = [...]string{"trimmed", "returned", "checksum-stale", "length-stale", "deflected", "mirrored",
	"notification",
	"header-sum-stale", "trimmed-mark", "ranked", "ports-swapped", "made", "shimmed"}

// String lists the flags, joined by "|"; none are "".
func (f PacketFlags) String() string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// SwitchStage is where in a switch a packet is seen.
type SwitchStage uint8

// Stages.
const (
	Entered SwitchStage = 1 + iota // has arrived, nothing done to it yet
	Left                           // is leaving: its first bit goes onto the wire
	Dropped                        // is being discarded
)

// SwitchTap is one packet at a tap of a switch under test. Judges of switches see these and decision records, never a
// model.
type SwitchTap struct {
	Time     clock.Time
	Stage    SwitchStage
	Internal bool // at a recirculation port
	Switch   int
	Port     int
	Queue    int   // of packets that leave or are dropped
	Reason   uint8 // of drops: reasons of the family
	ID       uint64

	Protocol   Protocol
	Kind       ndp.Kind
	Flags      PacketFlags
	IPv6       bool
	Src, Dst   uint32 // hosts
	Flow       uint32
	Connection uint32 // of NDP
	// Number identifies the packet within its flow. For NDP it is the sequence number in the upper half, the counter in
	// the lower.
	Number         uint64
	Rank           uint64 // with the flag Ranked
	Entropy        uint16 // path tag, or source port
	DSCP, ECN, TTL uint8
	Class          uint8 // traffic class (PCP) as the switch sees it
	Size, Original int32 // bytes without FCS, now and before trimming
	Weight         int64 // of its flow as the test declares it, in millionths; 0: nothing is declared
	Shim           uint8 // bytes of Size that a shim takes between switches, which no host sends or receives
}

// PacketsPerNode is how many packets a host or a switch of a network has numbers for: the ID of a packet is
// (node, sequence) as one decimal number.
const PacketsPerNode = 10_000_000_000

// PacketText prints the ID of a packet of a network for people: "1.28" is packet 28 of host 1, "28" that of host 0.
func PacketText(id uint64) string {
	if id < PacketsPerNode {
		return strconv.FormatUint(id, 10)
	}
	return fmt.Sprintf("%d.%d", id/PacketsPerNode, id%PacketsPerNode)
}

// What names the packet's protocol, and for NDP its kind.
func (t *SwitchTap) What() string {
	if t.Protocol == ProtocolNDP {
		return t.Protocol.String() + " " + t.Kind.String()
	}
	return t.Protocol.String()
}
