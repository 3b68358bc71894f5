package sai

import "net/netip"

// Side is where a packet was seen.
type Side uint8

// Sides of the switch under test.
const (
	Before Side = 1 + iota // has arrived at an ingress port
	After                  // leaves by an egress port
)

// UnknownQueue stands for the queue of a packet that was seen from outside only.
const UnknownQueue = -1

// Observation is one packet at a tap before or after the switch, as far as its headers and its signature tell.
type Observation struct {
	ID     uint64 // number of the record, for findings
	TimePS int64  // picoseconds on one clock for all taps
	Side   Side
	Port   int // of the switch, from 0
	Queue  int // that it left by, or UnknownQueue

	// Signature tells packets apart: what the generator put behind the transport header (connection, number and
	// transmission), which trimming keeps. Of packets with one signature nobody knows which has left.
	Signature uint64
	// Prefix is a digest of the bytes behind the IP header that a copy keeps too; 0: not recorded.
	Prefix uint64

	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	Protocol         uint8
	DSCP, ECN, TTL   uint8
	Length           int  // bytes of the frame without FCS
	IPLength         int  // what the IP header says, IPv6's header included
	ChecksumWrong    bool // of the IPv4 header
}

// EthernetHeader is what a frame has before its IP header. Tagged frames are not trimmed as such.
const EthernetHeader = 14
