package lock

import (
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// Packet is a packet at a port of a switch. The judge keeps no pointer to it.
type Packet struct {
	Time   clock.Time
	ID     uint64 // names it in findings; of a packet that is dropped as it comes, that with which it entered
	Switch int
	Port   int
	Stage  trace.SwitchStage
	Size   int32 // bytes without FCS
	// Outage says of a dropped packet that the switch, or the link, was out of service.
	Outage bool

	// Lock says that it belongs to the lock manager; the following are then known.
	Lock     bool
	Src, Dst netip.Addr
	DstPort  uint16
	Header   netlock.Header

	// Of other packets: what names their flow, and a digest of all that switches may not change. 0: not known.
	Flow, Digest uint64
}
