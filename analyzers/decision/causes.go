package decision

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// what is a packet of a switch at an instant.
type what struct {
	who    cause.Switch
	packet cause.Count
	at     cause.Instant
}

func (a *Analyzer) what(sw int, now clock.Time, packet uint64) what {
	return what{cause.Switch(a.view.SwitchName(sw)), cause.Count(packet), cause.Clock(now)}
}

func (p place) argument() cause.Queue {
	return cause.Queue{Queue: p.queue, Port: cause.Port{Number: p.port}}
}

func causeUndeclared(w what, kind uint8) cause.Cause {
	return cause.Of(Unknown, "undeclared-kind",
		"%v recorded a decision of kind %v about packet %v at %v; its family does not declare that kind.", w.who,
		cause.Count(kind), w.packet, w.at)
}

func causeNotInside(w what, kind string) cause.Cause {
	return cause.Of(Unknown, "not-inside",
		"%v recorded decision %v about packet %v at %v, but that packet was not inside.",
		w.who, cause.Name(kind), w.packet, w.at)
}

func causeSize(w what, came, claimed int32) cause.Cause {
	return cause.Of(Size, "other-size", "%v recorded packet %v with %v at %v; it arrived with %v.", w.who, w.packet,
		cause.Bytes(int(claimed)), w.at, cause.Bytes(int(came)))
}

func causeOccupancy(w what, at place, holds, claimed int64) cause.Cause {
	return cause.Of(Occupancy, "other-occupancy", "%v recorded %v in %v for packet %v at %v; the queue held %v.", w.who,
		cause.Bytes(claimed), at.argument(), w.packet, w.at, cause.Bytes(holds))
}

// causeContradicted says how packet p, of which something was decided, left or was dropped.
func causeContradicted(w what, p *packet, t *trace.SwitchTap) cause.Cause {
	sent := place{t.Port, t.Queue}.argument()
	switch {
	case t.Stage != trace.Left:
		return cause.Of(Contradicted, "dropped", "%v dropped packet %v at %v after it had recorded that it queued it in %v.",
			w.who, w.packet, w.at, p.at.argument())
	case p.outcome == trace.OutcomeDropped:
		return cause.Of(Contradicted, "sent", "%v sent packet %v from %v at %v after it had recorded that it dropped it.",
			w.who, w.packet, sent, w.at)
	case p.outcome == trace.OutcomeQueued:
		return cause.Of(Contradicted, "other-queue",
			"%v sent packet %v from %v at %v after it had recorded that it queued it in %v.", w.who, w.packet, sent, w.at,
			p.at.argument())
	}
	return cause.Of(Contradicted, "never-queued",
		"%v sent packet %v from %v at %v without having recorded in which queue it waited.", w.who, w.packet, sent, w.at)
}

func causeMissing(w what, t *trace.SwitchTap) cause.Cause {
	if t.Stage != trace.Left {
		return cause.Of(Missing, "dropped", "%v dropped packet %v at %v without recording a decision.", w.who, w.packet, w.at)
	}
	return cause.Of(Missing, "sent", "%v sent packet %v from %v at %v without recording a decision.", w.who, w.packet,
		place{t.Port, t.Queue}.argument(), w.at)
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	const ns = clock.Time(clock.Nanosecond)
	at := func(now clock.Time) what { return what{"sw1", 1, cause.Clock(now)} }
	left, dropped := &trace.SwitchTap{Stage: trace.Left, Queue: 2}, &trace.SwitchTap{Stage: trace.Dropped}
	decided := func(o trace.Outcome) *packet { return &packet{outcome: o, at: place{queue: 2}} }
	return []cause.Cause{
		causeUndeclared(at(ns), 9),
		causeNotInside(at(0), "queued"),
		causeSize(at(ns), 100, 99),
		causeOccupancy(at(ns), place{queue: 2}, 0, 1),
		causeContradicted(at(2*ns), decided(trace.OutcomeQueued), dropped),
		causeContradicted(at(2*ns), decided(trace.OutcomeDropped), left),
		causeContradicted(at(2*ns), decided(trace.OutcomeQueued), &trace.SwitchTap{Stage: trace.Left, Queue: 3}),
		causeContradicted(at(2*ns), decided(trace.OutcomeNone), left),
		causeMissing(at(ns), dropped),
		causeMissing(at(ns), left),
	}
}
