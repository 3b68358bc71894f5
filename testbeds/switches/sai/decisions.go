package sai

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Kinds of decisions, as decisions declares them.
const (
	decisionAdmitted = iota
	decisionRefused
	decisionTrimmed
	decisionCopied
	decisionLost
)

// decisions declares the recorded decisions, with the queue's profile and the state of the pool.
func decisions() []trace.DecisionKind {
	values := []trace.DecisionValue{
		{Name: "limit", Unit: "bytes", Doc: "Static threshold of the queue's profile; 0: none."},
		{Name: "reserved", Unit: "bytes", Doc: "Bytes that the queue may always hold."},
		{Name: "pool-used", Unit: "bytes", Doc: "Bytes in the shared buffer before the decision."},
		{Name: "pool", Unit: "bytes", Doc: "Size of the shared buffer."},
	}
	return []trace.DecisionKind{
		{Name: "admitted", Doc: "The packet has room in its queue.", Outcome: trace.OutcomeQueued, Values: values},
		{Name: "refused", Doc: "It has none, and its profile does not trim.", Outcome: trace.OutcomeDropped, Values: values},
		{Name: "trimmed", Doc: "It has none, and a copy goes on.", Outcome: trace.OutcomeDropped, Values: values},
		{Name: "copied", Doc: "The copy has room in the trim queue.", Outcome: trace.OutcomeQueued, Copy: true,
			Values: values},
		{Name: "lost", Doc: "The copy has none.", Outcome: trace.OutcomeDropped, Copy: true, Values: values},
	}
}

func (m *Mechanism) decide(now clock.Time, p *fabric.Packet, v fabric.Verdict, kind uint8) {
	if !m.sw.Decides() {
		return
	}
	at := &m.places[v.Port][v.Queue]
	used, pool := m.sw.BufferUsed()
	m.sw.Decide(now, p, trace.Decision{
		Port: int(v.Port), Queue: int(v.Queue), Kind: kind,
		Occupancy: int64(m.sw.Port(int(v.Port)).Queue(int(v.Queue)).Bytes() + m.shapers[v.Port][v.Queue].bytes),
		Values:    [trace.DecisionValues]int64{int64(at.limit), int64(at.reserved), int64(used + m.waiting), int64(pool)},
	})
}
