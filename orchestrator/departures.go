package orchestrator

import (
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/trace"
)

// departures lists the effect of each fired event that changed when, how often or how its packet left the injector. The
// mirror copy shows only that the event fired.
func departures(p *plan.Plan, known *trace.Connections, hits []uint64) []trace.Departure {
	var list []trace.Departure
	for i := range p.Intents {
		in := &p.Intents[i]
		if i >= len(hits) || hits[i] == 0 || !in.Action.Type.Departs() {
			continue
		}
		list = append(list, departure(in, known))
	}
	return list
}

func departure(in *injector.Intent, known *trace.Connections) trace.Departure {
	first := known.InitialPSN(in.Flow, in.Space)
	d := in.Action.Row().Departure(in.Action.Absolute(first).Params)
	d.Flow, d.Class, d.HasPSN, d.Nth, d.Event = in.Flow, in.Class, in.RelPSN != 0, in.Nth, in.Action.Type
	if d.HasPSN {
		d.PSN = first.Add(int(in.RelPSN - 1))
	}
	return d
}
