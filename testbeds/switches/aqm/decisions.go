package aqm

import (
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Kinds of decisions, as decisions declares them.
const (
	decisionQueued = iota
	decisionMarked
	decisionEarly
	decisionTail
)

// Causes: what the probability was computed from.
const (
	causeNone = iota
	causeMouse
	causeRate
	causeMean
	causeThreshold
)

// decisions declares what the switches record of every packet.
func decisions() []trace.DecisionKind {
	values := []trace.DecisionValue{
		{Name: "etrap", Unit: "bytes", Doc: "Bytes of the flow that ETRAP has counted, this packet included."},
		{Name: "elephant", Doc: "1: the flow is an elephant."},
		{Name: "rate", Unit: "bps", Doc: "Measured rate of the flow, rounded; 0: unknown."},
		{Name: "fair", Unit: "bps", Doc: "Fair rate of the queue, rounded."},
		{Name: "probability", Unit: "ppb", Doc: "Probability of a drop or mark, in billionths."},
		{Name: "index", Unit: "packets", Doc: "Number of the packet in its flow, as DPP counts; 0: it does not."},
		{Name: "mean", Unit: "bytes", Doc: "Mean queue of RED, rounded."},
		{Name: "port", Unit: "bytes", Doc: "Bytes that wait at the port."},
	}
	causes := []string{"", "mouse", "rate", "mean-queue", "threshold"}
	kind := func(name, doc string, outcome trace.Outcome) trace.DecisionKind {
		return trace.DecisionKind{Name: name, Doc: doc, Outcome: outcome, Causes: causes, Values: values}
	}
	return []trace.DecisionKind{
		kind("queued", "The packet waits in its queue.", trace.OutcomeQueued),
		kind("marked", "It does, and was set to CE.", trace.OutcomeQueued),
		kind("early", "The scheme drops it.", trace.OutcomeDropped),
		kind("tail", "Queue, port or buffer have no room for it.", trace.OutcomeDropped),
	}
}

func (m *Mechanism) decide(now clock.Time, p *fabric.Packet, v fabric.Verdict, kind uint8, waiting int) {
	if !m.sw.Decides() {
		return
	}
	c := &m.claims
	d := trace.Decision{Port: int(v.Port), Queue: int(v.Queue), Kind: kind, Cause: c.cause, Occupancy: int64(waiting)}
	elephant := int64(0)
	if c.sighting.Elephant {
		elephant = 1
	}
	d.Values = [trace.DecisionValues]int64{c.sighting.Bytes, elephant, rounded(c.sighting.Rate), 0,
		rounded(c.probability * 1e9), int64(c.index), 0, int64(m.sw.Port(int(v.Port)).Bytes())}
	if m.faults.recordsLate {
		d.Values[7] += int64(p.Size)
	}
	if at := &m.ports[v.Port]; int(v.Queue) < len(at.queues) {
		if q := &at.queues[v.Queue]; q.fair != nil {
			d.Values[3] = rounded(q.fair.Fair())
		} else if q.early != nil {
			d.Values[6] = rounded(q.early.Mean())
		}
	}
	m.sw.Decide(now, p, d)
}

func rounded(v float64) int64 { return int64(math.Round(v)) }
