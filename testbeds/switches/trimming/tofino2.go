package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Tofino2's ingress pipelines see the length of egress queues, but too early: a packet is judged some stages before it
// is queued. In each pipeline, as many packets as there are remaining stages are therefore unseen. Packets that
// overflow the queue are deflected as in DeflectOnDrop.
type Tofino2 struct {
	cutter
	threshold int            // bytes of the queue above which ingress trims
	cycle     clock.Duration // of a pipeline: one packet per cycle
	stages    int            // remaining after the stage that reads the queue's length
	next      []clock.Time   // per pipeline: when it can take the next packet
	recent    [][]unseen     // per front port and data queue
}

// unseen is a packet that was judged but is not yet counted in the visible queue length.
type unseen struct {
	queued    clock.Time
	bytes     int
	deflected bool
}

// Start implements fabric.Starter.
func (t *Tofino2) Start(now clock.Time, sw *fabric.Switch) {
	t.cutter.Start(now, sw)
	t.next = make([]clock.Time, sw.Pipelines())
	t.recent = make([][]unseen, sw.Ports()*int(t.headers))
}

// Ingress implements fabric.Mechanism.
func (t *Tofino2) Ingress(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	switch {
	case recirculated(in):
		port := outlet(sw, p)
		t.cut(p)
		t.trims[port.Index()].Deflected++
		return v.To(port, int(t.headers))
	case v.Action != fabric.Forward:
		return v
	case t.small(p):
		v.Queue = t.headers
		return v
	}
	v.Queue = t.data(p)
	if t.cuttable(p) && t.full(now, in.Pipeline(), sw.Port(int(v.Port)), v.Queue, int(p.Size)) {
		t.cut(p)
		t.trims[v.Port].Ingress++
		v.Queue = t.headers
	}
	return v
}

// full reports whether the queue, as visible to the pipeline, has no room for size bytes.
func (t *Tofino2) full(now clock.Time, pipeline int, port *fabric.Port, queue uint8, size int) bool {
	slot := max(now, t.next[pipeline])
	t.next[pipeline] = slot.Add(t.cycle)
	place := t.place(port.Index(), queue)
	recent, seen := t.recent[place][:0], t.waiting(now, port, queue)
	for _, u := range t.recent[place] {
		if u.queued > now {
			recent = append(recent, u)
		}
		switch {
		case u.queued > slot && !u.deflected:
			seen -= u.bytes
		case u.queued <= slot && u.deflected:
			seen += u.bytes // it came earlier: packets of one instant are simulated in port order
		}
	}
	t.recent[place] = recent
	if seen+size > t.threshold {
		return true
	}
	if t.stages == 0 {
		return false
	}
	t.recent[place] = append(recent, unseen{slot.Add(clock.Duration(t.stages) * t.cycle), size, false})
	return false
}

// place is the index of a data queue in recent.
func (t *Tofino2) place(port int, queue uint8) int { return port*int(t.headers) + int(queue) }

// Overflow implements fabric.Mechanism.
func (t *Tofino2) Overflow(_ clock.Time, sw *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	switch {
	case int(v.Port) >= sw.Ports():
		return t.lose(v, int(p.Meta))
	case v.Queue == t.headers || !t.cuttable(p):
		return t.lose(v, int(v.Port))
	}
	if recent := t.recent[t.place(int(v.Port), v.Queue)]; len(recent) > 0 {
		recent[len(recent)-1].deflected = true
	}
	return deflect(sw, p, v)
}
