package rank

import (
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

func causeEligible(who cause.Switch, id uint64, at, next clock.Time) cause.Cause {
	return cause.Of(ruleEligible, "early", "%v sent packet %v at %v; its flow may send again at %v.", who, packet(id),
		cause.Clock(at), cause.Clock(next))
}

func causeIdle(who cause.Switch, id uint64, at, could clock.Time) cause.Cause {
	return cause.Of(ruleIdle, "waits", "%v sent nothing until %v although packet %v could leave at %v.", who,
		cause.Clock(at), packet(id), cause.Clock(could))
}

// chooses judges that of the packets that wait a is sent: the first of those whose flows may send, and as soon as one
// may.
func (l *line) chooses(now clock.Time, a *arrival) {
	if next := l.paces[a.flow]; next > now {
		l.r.tell(a, now, causeEligible(l.r.who, a.id, now, next), "", "")
	}
	var first, idle *arrival
	could := now
	for _, w := range l.waiting {
		next := l.paces[w.flow]
		if first == nil && next <= now {
			first = w
		}
		if may := max(w.at, next, l.busy); may < could {
			idle, could = w, may
		}
	}
	if first != nil && first != a && compareKeys(first.key, a.key) != 0 && l.paces[a.flow] <= now {
		l.r.tell(a, now, causeDeparture(l.r.who, a.id, now, first.id), "", "", first.id)
	}
	// A NIC may be paused, and asks its host only now and then.
	if idle != nil && !l.r.only && !l.r.untimed && !l.r.links[l.port].changed {
		l.r.tell(a, now, causeIdle(l.r.who, idle.id, now, could), "", "", idle.id)
	}
	if l.r.set.Pace == 0 {
		return
	}
	l.paces[a.flow] = now.Add(l.r.set.Pace.Serialise(int(a.size)))
	if len(l.paces) > l.limit {
		for k, next := range l.paces {
			if next <= now {
				delete(l.paces, k)
			}
		}
		l.limit = max(1024, 2*len(l.paces))
	}
}
