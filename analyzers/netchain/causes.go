package netchain

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// place is a lock id at a switch, with the packet at hand.
type place struct {
	who  cause.Switch
	lock uint32
	id   uint64
}

func packet(id uint64) cause.Argument  { return cause.Name(trace.PacketText(id)) }
func (p place) packet() cause.Argument { return packet(p.id) }
func (p place) at() cause.Argument     { return lockNumber(p.lock) }

func lockNumber(id uint32) cause.Argument { return cause.Name(fmt.Sprintf("lock %d", id)) }

// of names the id by which an owner was granted a lock.
func (p place) of(id uint32) cause.Argument {
	if id == p.lock {
		return p.at()
	}
	return cause.Name(fmt.Sprintf("lock %d (the same lock)", id))
}

func overlapping(p place, by cause.Switch, held uint32, grant uint64, after cause.Duration) cause.Cause {
	return cause.Of(lock.RuleChainExclusion, "overlapping", "%v granted %v by packet %v while another transaction held "+
		"it: %v had granted %v to that one by packet %v, %v before.", p.who, p.at(), p.packet(), within(by), p.of(held),
		packet(grant), after)
}

// within names a switch inside a sentence.
func within(s cause.Switch) cause.Argument {
	if s == "" {
		return cause.Name("the switch")
	}
	return cause.Name("switch " + string(s))
}

func unasked(p place, op string) cause.Cause {
	return cause.Of(lock.RuleChainOnce, "unasked", "%v sent packet %v (%v of %v), for which no request was open.", p.who,
		p.packet(), cause.Name(op), p.at())
}

func unanswered(p place) cause.Cause {
	return cause.Of(lock.RuleChainLost, "unanswered", "%v never answered the request of packet %v for %v.", p.who,
		p.packet(), p.at())
}

func rejectedFree(p place, request uint64) cause.Cause {
	return cause.Of(lock.RuleChainRejection, "free", "%v rejected the request of packet %v for %v by packet %v, although "+
		"nobody had been granted the lock.", p.who, packet(request), p.at(), p.packet())
}

func rejectedOwner(p place, request, grant uint64) cause.Cause {
	return cause.Of(lock.RuleChainRejection, "owner", "%v rejected the request of packet %v for %v by packet %v, "+
		"although its transaction owned the lock since packet %v.", p.who, packet(request), p.at(), p.packet(), packet(grant))
}

func rejectedReleased(p place, request, release uint64) cause.Cause {
	return cause.Of(lock.RuleChainRelease, "rejected", "%v rejected the request of packet %v for %v by packet %v, "+
		"although the owner had released the lock by packet %v.", p.who, packet(request), p.at(), p.packet(),
		packet(release))
}

func rejectedOnce(p place, request, release, next uint64) cause.Cause {
	return cause.Of(lock.RuleChainRejection, "once", "%v rejected the request of packet %v for %v by packet %v, although "+
		"the owner had released the lock by packet %v; the next request, packet %v, was granted.", p.who, packet(request),
		p.at(), p.packet(), packet(release), packet(next))
}

func freedByAnother(p place, release, grant uint64) cause.Cause {
	return cause.Of(lock.RuleChainOwner, "freed", "%v granted %v by packet %v after the release of packet %v, which was "+
		"not by the transaction that owned the lock since packet %v.", p.who, p.at(), p.packet(), packet(release),
		packet(grant))
}

func sentAway(p place, op string) cause.Cause {
	return cause.Of(lock.RuleChainPlacement, "sent-away", "%v sent packet %v (%v of %v) to the server.", p.who, p.packet(),
		cause.Name(op), p.at())
}

func byServer(p place) cause.Cause {
	return cause.Of(lock.RuleChainPlacement, "by-server", "A server granted %v by packet %v.", p.at(), p.packet())
}

func beyond(p place, ids int64) cause.Cause {
	return cause.Of(lock.RuleChainPlacement, "beyond", "%v granted %v by packet %v; locks have numbers below %v.", p.who,
		p.at(), p.packet(), cause.Count(ids))
}

func tooLate(p place, request uint64, over cause.Duration) cause.Cause {
	return cause.Of(lock.RuleChainDelay, "late", "%v answered the request of packet %v for %v by packet %v %v later than "+
		"the pipeline allows.", p.who, packet(request), p.at(), p.packet(), over)
}

func heldOn(p place, request, grant uint64, over cause.Duration) cause.Cause {
	return cause.Of(lock.RuleChainLease, "late", "%v rejected the request of packet %v for %v by packet %v, although "+
		"lease and poll period of the owner, since packet %v, had ended %v before.", p.who, packet(request), p.at(),
		p.packet(), packet(grant), over)
}

func tooSoon(p place, after, lease cause.Duration) cause.Cause {
	return cause.Of(lock.RuleChainFailover, "soon", "%v granted %v by packet %v %v after it had returned without its "+
		"registers; who had the lock before may hold it for %v.", p.who, p.at(), p.packet(), after, lease)
}

func changed(who cause.Switch, id uint64) cause.Cause {
	return cause.Of(lock.RuleChainTransparency, "changed", "%v sent packet %v of others, which it had not received so.",
		who, packet(id))
}

func reordered(who cause.Switch, id, by uint64) cause.Cause {
	return cause.Of(lock.RuleChainTransparency, "reordered", "%v sent packet %v of others after packet %v, which had "+
		"come later in the same flow.", who, packet(id), packet(by))
}

func notJudged(what, why string) cause.Cause {
	return cause.Of(ruleNotJudged, "not-judged", "Not judged is %v: %v.", cause.Name(what), cause.Name(why))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	const us = clock.Microsecond
	p := place{"", 7, 12}
	return []cause.Cause{
		overlapping(p, "", 6, 9, cause.Span(3*us)), unasked(p, netlock.Reject.String()), unanswered(p),
		rejectedFree(p, 11), rejectedOwner(p, 11, 9), rejectedReleased(p, 11, 10), rejectedOnce(p, 11, 10, 14),
		freedByAnother(p, 10, 9),
		sentAway(p, netlock.Acquire.String()), byServer(p), beyond(p, 7), tooLate(p, 11, cause.Span(5*us)),
		heldOn(p, 11, 9, cause.Span(500*us)), tooSoon(p, cause.Span(200*us), cause.Span(10000*us)),
		changed("", 12), reordered("", 12, 13), notJudged("packets of others", "there are too many flows"),
	}
}
