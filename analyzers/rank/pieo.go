package rank

import (
	"slices"

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

// kept returns the packet that could leave first of those that wait, if that was before an instant, as the link was
// free from an instant on; nil: none could.
func (l *line) kept(now, free clock.Time) (first *arrival, could clock.Time) {
	could = now
	for _, w := range l.waiting {
		if may := max(w.at, l.paces[w.flow], free); may < could {
			first, could = w, may
		}
	}
	return first, could
}

// chooses judges that of the packets that wait a is sent: the first of those whose flows may send, and as soon as one
// may.
func (l *line) chooses(now clock.Time, a *arrival) {
	if next := l.paces[a.flow]; next > now {
		l.r.tell(a, now, causeEligible(l.r.who, a.id, now, next), "", "")
	}
	var first *arrival
	if i := slices.IndexFunc(l.waiting, func(w *arrival) bool { return l.paces[w.flow] <= now }); i >= 0 {
		first = l.waiting[i]
	}
	if first != nil && first != a && compareKeys(first.key, a.key) != 0 && l.paces[a.flow] <= now {
		l.r.tell(a, now, causeDeparture(l.r.who, a.id, now, first.id), "", "", first.id)
	}
	if l.r.set.Pace == 0 { // see idles
		return
	}
	if idle, could := l.kept(now, l.busy); idle != nil && l.prompt() {
		l.r.tell(a, now, causeIdle(l.r.who, idle.id, now, could), "", "", idle.id)
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
