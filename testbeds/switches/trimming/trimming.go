package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// firstQueue is the only queue of a recirculation port. A front port has queues of data from 0 on, one for each class
// (parameter queues), and then the queue of headers, if the model has one.
const firstQueue = 0

// ReasonHeaders is the loss of a header: the header queue is full and no other queue takes it.
const ReasonHeaders = fabric.ReasonOwn

// Trims counts the data packets that a trimming switch trimmed, returned or lost, by routed port.
type Trims struct {
	Ingress   uint64 // trimmed before the traffic manager
	Overflow  uint64 // trimmed by the traffic manager, or as a mirrored copy
	Deflected uint64 // trimmed after a deflection to a recirculation port
	Returned  uint64 // of the headers, those returned to the sender
	Lost      uint64 // deflected packets and headers dropped for lack of room
}

// All returns the number of trimmed packets.
func (t *Trims) All() uint64 { return t.Ingress + t.Overflow + t.Deflected }

// cutter is the common part of trimming switches: trimming, marking and counters.
type cutter struct {
	fabric.TailDrop
	keep  int // bytes of a header
	trims []Trims
	// onWire holds, per front port, the size of the data packet sent last. If wireCounts is set, it counts as queued until
	// it has been sent.
	onWire     []int
	wireQueue  []uint8 // of that packet
	wireCounts bool
	headers    uint8 // number of the queue of headers, which is how many queues of data there are
}

// data returns the queue of a data packet: that of its class, or the last.
func (c *cutter) data(p *fabric.Packet) uint8 { return min(p.Class, c.headers-1) }

// Start implements fabric.Starter.
func (c *cutter) Start(_ clock.Time, sw *fabric.Switch) {
	c.trims = make([]Trims, sw.Ports())
	c.onWire, c.wireQueue = make([]int, sw.Ports()), make([]uint8, sw.Ports())
}

// Trims returns the counters of a front port.
func (c *cutter) Trims(port int) Trims { return c.trims[port] }

// cuttable reports whether p is a whole data packet: control packets and headers are never trimmed.
func (c *cutter) cuttable(p *fabric.Packet) bool {
	if p.Flags&fabric.Trimmed != 0 || int(p.Size) <= c.keep {
		return false
	}
	switch p.Protocol {
	case fabric.NDP:
		return p.NDP.Kind == ndp.Data
	case fabric.Raw, fabric.RoCE, fabric.TCP, fabric.PFabric, fabric.Bolt:
		return true
	case fabric.Echo, fabric.PFC, fabric.NetLock:
	}
	return false
}

// small reports whether p belongs in the header queue: headers, and NDP's own control packets.
func (c *cutter) small(p *fabric.Packet) bool {
	return p.Flags&fabric.Trimmed != 0 || p.Protocol == fabric.NDP && p.NDP.Kind != ndp.Data
}

// cut trims p to its header and marks it.
func (c *cutter) cut(p *fabric.Packet) {
	p.Trim(c.keep)
	p.Flags |= fabric.TrimmedMark
	if p.Protocol == fabric.NDP {
		p.NDP.Flags |= ndp.FlagTrimmed
	}
}

// turn returns a header to its sender and returns the verdict; ok is false if the sender is unknown.
func (c *cutter) turn(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict, queue int) (_ fabric.Verdict, ok bool) {
	p.Return()
	if p.Protocol == fabric.NDP {
		p.NDP.Flags |= ndp.FlagReturned
	}
	port, ok := sw.Route(p)
	if !ok {
		return v.Drop(sw.NoRoute(p)), false
	}
	return v.To(sw.Port(port), queue), true
}

// waiting returns the bytes that wait in a queue of data, including the packet on the wire if wireCounts is set.
func (c *cutter) waiting(now clock.Time, port *fabric.Port, queue uint8) int {
	n := port.Queue(int(queue)).Bytes()
	if c.wireCounts && port.BusyUntil() > now && c.wireQueue[port.Index()] == queue {
		n += c.onWire[port.Index()]
	}
	return n
}

// Dequeued implements fabric.Mechanism.
func (c *cutter) Dequeued(_ clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if c.wireCounts && int(v.Port) < sw.Ports() {
		c.onWire[v.Port] = 0
		if v.Queue < c.headers {
			c.onWire[v.Port], c.wireQueue[v.Port] = int(p.Size), v.Queue
		}
	}
	return v
}

// outlet returns the front port that a deflected packet was routed to. Meta holds it, because a second routing decision
// may choose another of several paths.
func outlet(sw *fabric.Switch, p *fabric.Packet) *fabric.Port { return sw.Port(int(p.Meta)) }

// deflect sends p, whole or trimmed, to the recirculation port of its ingress pipeline.
func deflect(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	p.Meta = uint32(v.Port)
	p.Flags |= fabric.Deflected
	p.Deflects++
	return v.To(sw.Recirculation(sw.Port(int(p.Ingress)).Pipeline()), firstQueue)
}

// recirculated reports whether in is a recirculation port.
func recirculated(in *fabric.Port) bool { return in.Kind() == fabric.RecirculationPort }

func (c *cutter) lose(v fabric.Verdict, port int) fabric.Verdict {
	c.trims[port].Lost++
	return v.Drop(ReasonHeaders)
}
