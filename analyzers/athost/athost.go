// Package athost is what judges of switches see of hosts: what a layer between stack and NIC does with packets.
package athost

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Stage is where in a host a packet is seen.
type Stage uint8

// Stages. Between arrival and delivery, a packet is with the layer.
const (
	Sent      Stage = 1 + iota // its stack sends it
	Arrived                    // received whole
	Delivered                  // its stack receives it
	Discarded                  // by the layer
)

// Tap is one packet at a host whose stack has a layer between itself and the NIC.
type Tap struct {
	Time     clock.Time
	Stage    Stage
	Host     uint32
	ID       uint64
	Protocol trace.Protocol
	Flags    trace.PacketFlags
	IPv6     bool
	Src, Dst uint32
	Flow     uint32
	Number   uint64
	Rank     uint64 // with the flag Ranked
	Size     int32
}

// A Judge is an analyzers.SwitchJudge that also sees hosts.
type Judge interface {
	// SeesHosts reports whether it does in this run.
	SeesHosts() bool
	ObserveHost(t *Tap)
}
