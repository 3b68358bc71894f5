package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// DropTail is the baseline: a packet is dropped if its queue is full.
type DropTail struct{ cutter }

// Ingress implements fabric.Mechanism: everything waits in the queue of its class.
func (d *DropTail) Ingress(_ clock.Time, _ *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	v.Queue = d.data(p)
	return v
}

// Overflow implements fabric.Mechanism.
func (d *DropTail) Overflow(_ clock.Time, _ *fabric.Switch, _ *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	d.trims[v.Port].Lost++
	return v.Drop(fabric.ReasonTail)
}
