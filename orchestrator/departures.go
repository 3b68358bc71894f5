package orchestrator

import (
	"candela.dev/candela/injector"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// departures says of every event that fired and changed when, how often or how its packet left the injector what it did: the
// mirror shows only that it did.
func departures(p *plan.Plan, known *trace.Connections, hits []uint64) []trace.Departure {
	var list []trace.Departure
	for i := range p.Intents {
		in := &p.Intents[i]
		if i >= len(hits) || hits[i] == 0 || !departs(in.Action.Type) {
			continue
		}
		list = append(list, departure(in, known))
	}
	return list
}

func departs(t trace.EventType) bool {
	return t == trace.EventDelay || t == trace.EventDuplicate || t == trace.EventReorder || t == trace.EventRewrite
}

func departure(in *injector.Intent, known *trace.Connections) trace.Departure {
	first := known.InitialPSN(in.Flow, in.Space)
	d := trace.Departure{
		Flow: in.Flow, Class: in.Class, HasPSN: in.RelPSN != 0, Nth: in.Nth, Event: in.Action.Type, DelayNS: in.Action.DelayNS,
		Copies: int(in.Action.Copies), Behind: int(in.Action.By), LimitNS: pipeline.ReorderLimitNS, Field: in.Action.Field, Value: in.Action.Value,
	}
	if d.HasPSN {
		d.PSN = first.Add(int(in.RelPSN - 1))
	}
	if d.Field == packet.RewritePSN {
		d.Value = uint64(first.Add(int(in.Action.Value) - 1))
	}
	return d
}
