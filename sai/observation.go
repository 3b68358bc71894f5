package sai

import "net/netip"

// Side is the side of the switch at which a packet was captured.
type Side uint8

// Sides of the switch under test.
const (
	Before Side = 1 + iota // has arrived at an ingress port
	After                  // leaves by an egress port
)

// UnknownQueue is the queue of a packet captured outside the switch.
const UnknownQueue = -1

// Observation is one packet at a tap before or after the switch, as its headers and its signature identify it.
type Observation struct {
	ID     uint64 // number of the record, for findings
	TimePS int64  // picoseconds on one clock for all taps
	Side   Side
	Port   int // of the switch, from 0
	Queue  int // queue that it left by, or UnknownQueue

	// Signature identifies packets: the generator writes connection, number and transmission after the transport header,
	// and trimming keeps them. Packets with equal signatures cannot be distinguished.
	Signature uint64
	// Prefix is a digest of the bytes after the IP header that a trimmed copy keeps; 0: not recorded.
	Prefix uint64

	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	Protocol         uint8
	DSCP, ECN, TTL   uint8
	Length           int  // bytes of the frame without FCS
	IPLength         int  // from the IP header, including IPv6's header
	ChecksumWrong    bool // of the IPv4 header
}

// EthernetHeader is the length of the Ethernet header of an untagged frame.
const EthernetHeader = 14
