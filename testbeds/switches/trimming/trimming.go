package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Queues of every front port of a trimming switch. Recirculation ports have the first one only.
const (
	dataQueue   = 0
	headerQueue = 1
)

// ReasonHeaders is why a header is lost: the queue of headers is full and nothing else takes it.
const ReasonHeaders = fabric.ReasonOwn

// Trims counts what a trimming switch did to data packets, per port that they were routed to.
type Trims struct {
	Ingress   uint64 // cut before the traffic manager
	Overflow  uint64 // cut by the traffic manager, or as a copy that it mirrored
	Deflected uint64 // cut after a deflection to a recirculation port
	Returned  uint64 // headers among them that were sent back
	Lost      uint64 // deflected packets and headers that found no room anywhere
}

// All returns how many packets were cut.
func (t *Trims) All() uint64 { return t.Ingress + t.Overflow + t.Deflected }

// cutter is what all trimming switches share: how a packet is cut and marked, and counters.
type cutter struct {
	fabric.TailDrop
	keep  int // bytes of a header
	trims []Trims
	// onWire holds, per front port, the size of the data packet that was sent last: it still counts as queued while it is
	// sent, if wireCounts says so.
	onWire     []int
	wireCounts bool
}

// Start implements fabric.Starter.
func (c *cutter) Start(_ clock.Time, sw *fabric.Switch) {
	c.trims = make([]Trims, sw.Ports())
	c.onWire = make([]int, sw.Ports())
}

// Trims returns the counters of a front port.
func (c *cutter) Trims(port int) Trims { return c.trims[port] }

// cuttable reports whether p is a whole data packet: control packets and headers are never cut again.
func (c *cutter) cuttable(p *fabric.Packet) bool {
	if p.Flags&fabric.Trimmed != 0 || int(p.Size) <= c.keep {
		return false
	}
	switch p.Protocol {
	case fabric.NDP:
		return p.NDP.Kind == ndp.Data
	case fabric.Raw, fabric.RoCE, fabric.TCP:
		return true
	case fabric.Echo, fabric.PFC:
	}
	return false
}

// small reports whether p belongs into the queue of headers: headers, and NDP's own control packets.
func (c *cutter) small(p *fabric.Packet) bool {
	return p.Flags&fabric.Trimmed != 0 || p.Protocol == fabric.NDP && p.NDP.Kind != ndp.Data
}

// cut leaves p's header, with the marks that say so.
func (c *cutter) cut(p *fabric.Packet) {
	p.Trim(c.keep)
	p.Flags |= fabric.TrimmedMark
	if p.Protocol == fabric.NDP {
		p.NDP.Flags |= ndp.FlagTrimmed
	}
}

// turn sends a header back to its sender and returns where to; ok is false if it came from nowhere known.
func (c *cutter) turn(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict, queue int) (_ fabric.Verdict, ok bool) {
	p.Return()
	if p.Protocol == fabric.NDP {
		p.NDP.Flags |= ndp.FlagReturned
	}
	port, ok := sw.Route(p)
	if !ok {
		return v.Drop(fabric.ReasonNoRoute), false
	}
	return v.To(sw.Port(port), queue), true
}

// waiting returns how many bytes of data wait for a front port, with the packet on the wire if that counts.
func (c *cutter) waiting(now clock.Time, port *fabric.Port) int {
	n := port.Queue(dataQueue).Bytes()
	if c.wireCounts && port.BusyUntil() > now {
		n += c.onWire[port.Index()]
	}
	return n
}

// Dequeued implements fabric.Mechanism.
func (c *cutter) Dequeued(_ clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if c.wireCounts && int(v.Port) < sw.Ports() {
		c.onWire[v.Port] = 0
		if v.Queue == dataQueue {
			c.onWire[v.Port] = int(p.Size)
		}
	}
	return v
}

// outlet returns the front port that a deflected packet was routed to; Meta remembers it, because a second look at the
// routes may choose another of several paths.
func outlet(sw *fabric.Switch, p *fabric.Packet) *fabric.Port { return sw.Port(int(p.Meta)) }

// deflect sends p, whole or cut, to the recirculation port of the pipeline that it came in by.
func deflect(sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	p.Meta = uint32(v.Port)
	p.Flags |= fabric.Deflected
	p.Deflects++
	return v.To(sw.Recirculation(sw.Port(int(p.Ingress)).Pipeline()), dataQueue)
}

// recirculated reports whether p has come in through a recirculation port.
func recirculated(in *fabric.Port) bool { return in.Kind() == fabric.RecirculationPort }

// lose counts a header that found no room.
func (c *cutter) lose(v fabric.Verdict, port int) fabric.Verdict {
	c.trims[port].Lost++
	return v.Drop(ReasonHeaders)
}
