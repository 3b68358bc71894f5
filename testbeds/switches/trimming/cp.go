package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// CutPayload is CP: above a watermark packets are trimmed, and the header waits in the same queue as data (Cheng et
// al., NSDI 2014). The rest of the queue is for headers; when it is full, headers are lost.
type CutPayload struct {
	cutter
	watermark int // bytes
}

// Ingress implements fabric.Mechanism.
func (c *CutPayload) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	v.Queue = c.data(p)
	if c.cuttable(p) && c.waiting(now, sw.Port(int(v.Port)), v.Queue)+int(p.Size) > c.watermark {
		c.cut(p)
		c.trims[v.Port].Overflow++
	}
	return v
}

// Overflow implements fabric.Mechanism.
func (c *CutPayload) Overflow(_ clock.Time, _ *fabric.Switch, _ *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	return c.lose(v, int(v.Port))
}
