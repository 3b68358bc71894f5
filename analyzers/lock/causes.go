package lock

import (
	"fmt"
	"net/netip"
	"strconv"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

type causeOf = cause.Cause

func packet(id uint64) cause.Argument    { return cause.Name(trace.PacketText(id)) }
func (p place) packet() cause.Argument   { return packet(p.id) }
func (p place) at() cause.Argument       { return lockNumber(p.lock) }
func lockNumber(n uint32) cause.Argument { return cause.Name(fmt.Sprintf("lock %d", n)) }
func number(v float64) string            { return strconv.FormatFloat(v, 'g', -1, 64) }

// N1.

func overlapping(p place, mode, other netlock.Mode, by cause.Argument, grant uint64, after cause.Duration) cause.Cause {
	return cause.Of(lock.RuleExclusion, "overlapping", "%v granted %v in mode %v by packet %v, although %v had granted "+
		"it in mode %v by packet %v %v before and had got no release.", p.who, p.at(), mode, p.packet(), by, other,
		packet(grant), after)
}

// giver names who granted a lock that a switch grants now.
func giver(d, by *device) cause.Argument {
	if d == by {
		return cause.Name("it")
	}
	return within(by.who)
}

// N2.

func unasked(p place, op string) cause.Cause {
	return cause.Of(lock.RuleOnce, "unasked", "%v sent packet %v (%v of %v), for which nobody had asked.", p.who,
		p.packet(), cause.Name(op), p.at())
}

func grantedTwice(p place, first uint64) cause.Cause {
	return cause.Of(lock.RuleOnce, "twice", "%v granted %v a second time by packet %v: packet %v had granted the same "+
		"request.", p.who, p.at(), p.packet(), packet(first))
}

func tooMany(p place, answers, asks int64) cause.Cause {
	return cause.Of(lock.RuleOnce, "answers", "%v answered a request for %v by packet %v; these are %v to %v.", p.who,
		p.at(), p.packet(), cause.Counted{N: answers, Noun: "answer"}, cause.Counted{N: asks, Noun: "request"})
}

func returnedAgain(p place, of uint64) cause.Cause {
	return cause.Of(lock.RuleOnce, "returned-again", "The server of %v returned the request of packet %v again by packet "+
		"%v: it had the request when the copy came.", p.at(), packet(of), p.packet())
}

func grantedAgain(p place, first uint64) cause.Cause {
	return cause.Of(lock.RuleOnce, "server-twice", "The server of %v granted by packet %v what it had granted by packet "+
		"%v: all copies of the request came before it was released.", p.at(), p.packet(), packet(first))
}

func otherMode(p place, mode netlock.Mode, of uint64, asked netlock.Mode) cause.Cause {
	return cause.Of(lock.RuleOnce, "other-mode", "%v sent packet %v about %v in mode %v; the request of packet %v is for "+
		"mode %v.", p.who, p.packet(), p.at(), mode, packet(of), asked)
}

func otherStamp(p place, of uint64) cause.Cause {
	return cause.Of(lock.RuleOnce, "other-stamp", "%v sent packet %v about %v with another time stamp than the request "+
		"of packet %v.", p.who, p.packet(), p.at(), packet(of))
}

func otherFields(p place, of uint64) cause.Cause {
	return cause.Of(lock.RuleOnce, "other-fields", "%v sent the request of packet %v for %v to the server by packet %v, "+
		"which has another priority or tenant.", p.who, packet(of), p.at(), p.packet())
}

func returnedOtherwise(p place, of uint64) cause.Cause {
	return cause.Of(lock.RuleOnce, "returned-otherwise", "The server of %v returned the request of packet %v by packet "+
		"%v, which has another priority.", p.at(), packet(of), p.packet())
}

func forwardedAgain(p place, of uint64) cause.Cause {
	return cause.Of(lock.RuleOnce, "forwarded", "%v sent the request of packet %v for %v to the server more often than "+
		"it had come, by packet %v.", p.who, packet(of), p.at(), p.packet())
}

// N3.

func skipped(p place, later uint64) cause.Cause {
	return cause.Of(lock.RuleLost, "skipped", "%v never granted the request of packet %v for %v; that of packet %v, "+
		"which came later, was granted.", p.who, p.packet(), p.at(), packet(later))
}

func forgotten(p place, idle cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "forgotten", "%v never granted the request of packet %v: %v has been free for %v "+
		"longer than a grant takes.", p.who, p.packet(), p.at(), idle)
}

func skippedByServer(p place, later uint64) cause.Cause {
	return cause.Of(lock.RuleLost, "at-server", "The server of %v never granted the request of packet %v; that of packet "+
		"%v, which came later, was granted.", p.at(), p.packet(), packet(later))
}

func notAskedAgain(p place, since cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "not-asked-again", "%v has not told the server again about the move of %v since "+
		"packet %v, which had no answer for %v.", p.who, p.at(), p.packet(), since)
}

func notForwarded(p place, since cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "not-forwarded", "%v neither sent the request of packet %v to the server that owns %v "+
		"nor rejected it; it came %v before the end.", p.who, p.packet(), p.at(), since)
}

func strandedAt(p place, since cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "stranded", "%v has not asked the server for the request of packet %v, although its "+
		"own queue of %v has been empty for %v.", p.who, p.packet(), p.at(), since)
}

func askedLate(p place, of uint64, late cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "asked-late", "%v asked the server for the request of packet %v by packet %v %v later "+
		"than it was to, after its own queue of %v had become empty.", p.who, packet(of), p.packet(), late, p.at())
}

func idleAtServer(p place, of uint64, over cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "server-late", "The server of %v granted the request of packet %v by packet %v %v "+
		"later than it takes, although nobody had the lock.", p.at(), packet(of), p.packet(), over)
}

func neglectedByServer(p place, since cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "server-idle", "The server of %v never granted the request of packet %v, although the "+
		"request leads its queue and nothing has kept it from the lock for %v longer than a grant takes.", p.at(), p.packet(),
		since)
}

func miscountedBy(p place, received, back int64) cause.Cause {
	return cause.Of(lock.RuleLost, "server-count", "The server of %v says by packet %v that it has nothing to return, "+
		"although it received %v more to be buffered than it returned: the switch goes on to wait for %v.", p.at(),
		p.packet(), cause.Counted{N: received - back, Noun: "request"}, cause.Counted{N: received - back, Noun: "request"})
}

func keptRelease(p place, since cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "release-kept", "%v did not send the release of packet %v to the server, which had "+
		"granted %v; it came %v before the end.", p.who, p.packet(), p.at(), since)
}

func keptAnswer(p place, op string, since cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLost, "answer-kept", "%v did not forward packet %v (%v of %v), by which the other switch of "+
		"the pair answered a client; it came %v before the end.", p.who, p.packet(), cause.Name(op), p.at(), since)
}

// N4 and N5.

func overtakenInSwitch(p place, of, by uint64) cause.Cause {
	return cause.Of(lock.RuleOrder, "overtaken", "%v granted the request of packet %v for %v by packet %v only after "+
		"that of packet %v, which had come later.", p.who, packet(of), p.at(), p.packet(), packet(by))
}

func overtakenAtServer(p place, of, by uint64) cause.Cause {
	return cause.Of(lock.RuleOrder, "at-server", "The server of %v granted the request of packet %v only after that of "+
		"packet %v, which had come later: packet %v.", p.at(), packet(of), packet(by), p.packet())
}

func overtakenInBuffer(p place, of, by uint64) cause.Cause {
	return cause.Of(lock.RuleSingleQueue, "overtaken", "%v granted the request of packet %v for %v, which the server had "+
		"buffered, by packet %v only after that of packet %v, which had come later.", p.who, packet(of), p.at(),
		p.packet(), packet(by))
}

func passedBuffer(p place, of, ahead uint64) cause.Cause {
	return cause.Of(lock.RuleSingleQueue, "passed", "%v queued the request of packet %v for %v, which packet %v grants, "+
		"itself, although it had sent packet %v to the server to be buffered and had not asked for it.", p.who, packet(of),
		p.at(), p.packet(), packet(ahead))
}

func askedEarly(p place, holder uint64) cause.Cause {
	return cause.Of(lock.RuleSingleQueue, "asked-early", "%v asked for buffered requests of %v, as packet %v shows, "+
		"although the request that packet %v grants was in its own queue.", p.who, p.at(), p.packet(), packet(holder))
}

func keptBuffer(p place, received, sent int64) cause.Cause {
	return cause.Of(lock.RuleSingleQueue, "kept", "The server of %v says by packet %v that it has received %v to be "+
		"buffered since it was to forget what it had; it was sent %v.", p.at(), p.packet(),
		cause.Counted{N: received, Noun: "request"}, cause.Count(sent))
}

// N6.

func notPreferred(p place, high, low uint8, by uint64) cause.Cause {
	return cause.Of(lock.RulePriority, "overtaken", "%v granted a request of priority %v for %v by packet %v only after "+
		"one of priority %v, by packet %v, although it waited when that was decided.", p.who, cause.Count(int64(high)+1),
		p.at(), p.packet(), cause.Count(int64(low)+1), packet(by))
}

// N7 and N8.

func tooEarly(p place, passes cause.Times, took, least cause.Duration) cause.Cause {
	return cause.Of(lock.RuleBatch, "early", "%v granted %v by packet %v %v after the release, with the packet "+
		"recirculated %v that takes %v.", p.who, p.at(), p.packet(), took, passes, least)
}

func lateInBatch(p place, passes cause.Times, over cause.Duration) cause.Cause {
	return cause.Of(lock.RuleBatch, "late", "%v granted %v by packet %v %v later than its place in the shared run gives, "+
		"with the packet recirculated %v.", p.who, p.at(), p.packet(), over, passes)
}

func oneByOne(p place, of uint64, over cause.Duration) cause.Cause {
	return cause.Of(lock.RuleBatch, "one-by-one", "The server of %v granted the request of packet %v by packet %v %v "+
		"later than it takes, although it shares the lock with those that were granted since the last exclusive one.", p.at(),
		packet(of), p.packet(), over)
}

func leftOfBatch(p place, granted int64) cause.Cause {
	return cause.Of(lock.RuleBatch, "left-out", "%v never granted the request of packet %v, although it led the queue of "+
		"%v with others, of which %v granted.", p.who, p.packet(), p.at(), wasWere(granted))
}

func tooLate(p place, took, over cause.Duration) cause.Cause {
	return cause.Of(lock.RuleDelay, "late", "%v granted %v by packet %v %v after the request, %v later than the pipeline "+
		"and its passes allow.", p.who, p.at(), p.packet(), took, over)
}

// N9.

func overflowed(p place, had, slots int64) cause.Cause {
	return cause.Of(lock.RuleOccupancy, "overflowed", "%v took the request that packet %v granted as number %v in the "+
		"queue of %v, which has %v.", p.who, p.packet(), cause.Count(had), p.at(), cause.Counted{N: slots, Noun: "slot"})
}

func bufferedEarly(p place, present, slots int64) cause.Cause {
	return cause.Of(lock.RuleOccupancy, "buffered", "%v sent packet %v to the server to be buffered, although at most %v "+
		"of %v of %v were taken and the server had nothing of it.", p.who, p.packet(), cause.Count(present),
		cause.Counted{N: slots, Noun: "slot"}, p.at())
}

func bufferedForeign(p place) cause.Cause {
	return cause.Of(lock.RuleOccupancy, "foreign", "%v sent packet %v to the server to be buffered, although %v is not "+
		"installed.", p.who, p.packet(), p.at())
}

func askedForOthers(p place, avail, slots int64) cause.Cause {
	return cause.Of(lock.RuleOccupancy, "asked-for", "%v asked by packet %v for %v of %v, for which it has %v, all of "+
		"them free.", p.who, p.packet(), cause.Counted{N: avail, Noun: "request"}, p.at(),
		cause.Counted{N: slots, Noun: "slot"})
}

func askedInVain(p place, said uint64) cause.Cause {
	return cause.Of(lock.RuleOccupancy, "in-vain", "%v asked by packet %v for requests of %v that the server had said by "+
		"packet %v not to have; it has sent none to be buffered since: what was lost still counts.", p.who, p.packet(),
		p.at(), packet(said))
}

// N10.

func sentAway(p place) cause.Cause {
	return cause.Of(lock.RulePlacement, "sent-away", "%v sent packet %v to the server as a request for a lock of the "+
		"server, although %v is installed.", p.who, p.packet(), p.at())
}

func otherServer(p place, of uint64) cause.Cause {
	return cause.Of(lock.RulePlacement, "other-server", "%v sent the request of packet %v for %v by packet %v to another "+
		"server than the client had asked.", p.who, packet(of), p.at(), p.packet())
}

func releaseMarked(who cause.Switch, id uint32, of uint64, mark netlock.Mark) cause.Cause {
	return cause.Of(lock.RulePlacement, "release-marked", "%v sent packet %v, a release of %v, to the server with the "+
		"mark %v, which no release has.", who, packet(of), lockNumber(id), cause.Name(mark.String()))
}

func byServer(p place) cause.Cause {
	return cause.Of(lock.RulePlacement, "by-server", "A server granted %v by packet %v, although it is installed in %v.",
		p.at(), p.packet(), within(p.who))
}

func grantedBuffered(p place, request uint64) cause.Cause {
	return cause.Of(lock.RulePlacement, "buffered", "A server granted %v by packet %v, although the request of packet %v "+
		"had been sent to it to be buffered: the lock moves to %v.", p.at(), p.packet(), packet(request), within(p.who))
}

func handedAgain(p place, after cause.Duration) cause.Cause {
	return cause.Of(lock.RulePlacement, "handed-again", "%v told the server by packet %v that it owns %v, which the "+
		"server had answered %v before: the switch still has the lock.", p.who, p.packet(), p.at(), after)
}

func bySwitch(p place) cause.Cause {
	return cause.Of(lock.RulePlacement, "by-switch", "%v granted %v by packet %v, although it is not installed.", p.who,
		p.at(), p.packet())
}

func wasWere(n int64) cause.Argument {
	if n == 1 {
		return cause.Name("1 was")
	}
	return cause.Name(strconv.FormatInt(n, 10) + " were")
}

func within(s cause.Switch) cause.Argument {
	if s == "" {
		return cause.Name("the switch")
	}
	return cause.Name("switch " + string(s))
}

// N11.

func overQuota(who cause.Switch, tenant, got, quota int64) cause.Cause {
	return cause.Of(lock.RuleQuota, "over", "%v accepted %v of tenant %v in one period; its quota is %v.", who,
		cause.Counted{N: got, Noun: "request"}, cause.Count(tenant), cause.Count(quota))
}

func rejectedEarly(p place, tenant, before, quota int64) cause.Cause {
	return cause.Of(lock.RuleQuota, "rejected", "%v rejected a request of tenant %v by packet %v after at most %v in the "+
		"period; its quota is %v.", p.who, cause.Count(tenant), p.packet(), cause.Counted{N: before, Noun: "request"},
		cause.Count(quota))
}

func rejectedFreely(p place, tenant int64) cause.Cause {
	return cause.Of(lock.RuleQuota, "without", "%v rejected a request of tenant %v, which has no quota, by packet %v.",
		p.who, cause.Count(tenant), p.packet())
}

// N12.

func heldOn(p place, over cause.Duration) cause.Cause {
	return cause.Of(lock.RuleLease, "late", "%v granted %v by packet %v %v later than the end of the lease before, the "+
		"poll and the passes allow.", p.who, p.at(), p.packet(), over)
}

func neverExpired(p place) cause.Cause {
	return cause.Of(lock.RuleLease, "never", "%v never ended the lease of whoever holds %v, for which packet %v waits.",
		p.who, p.at(), p.packet())
}

// N13.

func tooSoon(p place, who string, after, lease cause.Duration) cause.Cause {
	return cause.Of(lock.RuleFailover, "soon", "%v granted %v by packet %v %v after %v; whoever had it before may hold "+
		"it for %v.", p.who, p.at(), p.packet(), after, cause.Name(who), lease)
}

func begunEarly(p place, before cause.Duration) cause.Cause {
	return cause.Of(lock.RuleFailover, "server-soon", "A server granted %v by packet %v %v before it was to begin, when "+
		"leases from the server before it have ended.", p.at(), p.packet(), before)
}

func unneeded(p place) cause.Cause {
	return cause.Of(lock.RuleFailover, "standby", "%v granted %v by packet %v, although it is on standby and no other "+
		"switch had failed.", p.who, p.at(), p.packet())
}

func bypassed(p place, after cause.Duration) cause.Cause {
	return cause.Of(lock.RuleFailover, "bypassed", "%v still had a request for %v, which packet %v grants, when the "+
		"switch that had returned granted one %v after it came.", p.who, p.at(), p.packet(), after)
}

func besideBackup(p place, grant uint64, after cause.Duration) cause.Cause {
	return cause.Of(lock.RuleFailover, "beside", "%v granted %v by packet %v, although the backup had granted it by "+
		"packet %v %v before and had got no release.", p.who, p.at(), p.packet(), packet(grant), after)
}

// N14.

func tooMuch(who cause.Switch, sum, slots int64) cause.Cause {
	return cause.Of(lock.RuleAllocation, "too-much", "%v has %v and gives %v to locks.", who,
		cause.Counted{N: slots, Noun: "slot"}, cause.Count(sum))
}

func beyond(who cause.Switch, id uint32, n, most int64) cause.Cause {
	return cause.Of(lock.RuleAllocation, "beyond", "%v gives %v %v; its contention is %v.", who, lockNumber(id),
		cause.Counted{N: n, Noun: "slot"}, cause.Count(most))
}

func notOptimal(who cause.Switch, got, best requestRate) cause.Cause {
	return cause.Of(lock.RuleAllocation, "not-optimal", "%v serves at least %v requests per second by its allocation; "+
		"the best one gives %v.", who, got, best)
}

// N15.

func changed(who cause.Switch, id uint64) cause.Cause {
	return cause.Of(lock.RuleTransparency, "changed", "%v sent packet %v of others, which it had not received so.", who,
		packet(id))
}

func reordered(who cause.Switch, id, by uint64) cause.Cause {
	return cause.Of(lock.RuleTransparency, "reordered", "%v sent packet %v of others after packet %v, which had come "+
		"later in the same flow.", who, packet(id), packet(by))
}

// The variant of one round trip.

func queuedQuery(p place, after cause.Duration) cause.Cause {
	return cause.Of(lock.RuleOneTrip, "queued", "%v sent the grant of %v in packet %v to the database, although the "+
		"request had come %v before and waited: what the database is asked was to be dropped.", p.who, p.at(), p.packet(),
		after)
}

func lostQuery(p place) cause.Cause {
	return cause.Of(lock.RuleOneTrip, "lost", "%v sent the grant of %v in packet %v to the client, although nobody had "+
		"the lock when the request came: it was to go to the database with the request.", p.who, p.at(), p.packet())
}

func otherDatabase(d *device, p *Packet, own netip.Addr) cause.Cause {
	if at := (place{d.who, p.Header.Lock, p.ID}); p.Header.Op == netlock.GrantFromServer {
		return cause.Of(lock.RuleOneTrip, "other-database-of-server", "A server sent the grant of %v in packet %v to the "+
			"database %v; that of the lock is %v.", at.at(), at.packet(), cause.Name(p.Dst.String()), cause.Name(own.String()))
	}
	return cause.Of(lock.RuleOneTrip, "other-database", "%v sent the grant of %v in packet %v to the database %v; that "+
		"of the lock is %v.", d.who, lockNumber(p.Header.Lock), packet(p.ID), cause.Name(p.Dst.String()),
		cause.Name(own.String()))
}

func databaseUnasked(p *Packet) cause.Cause {
	return cause.Of(lock.RuleOneTrip, "database-unasked", "The database %v sent packet %v about %v, which it had not "+
		"been asked, or had answered before.", cause.Name(p.Src.String()), packet(p.ID), lockNumber(p.Header.Lock))
}

func databaseOtherwise(p *Packet, asked uint64) cause.Cause {
	return cause.Of(lock.RuleOneTrip, "database-mode", "The database %v answered packet %v about %v by packet %v in mode "+
		"%v.", cause.Name(p.Src.String()), packet(asked), lockNumber(p.Header.Lock), packet(p.ID), p.Header.Mode)
}

func notJudged(what, why string) cause.Cause {
	return cause.Of(ruleNotJudged, "not-judged", "Not judged is %v: %v.", cause.Name(what), cause.Name(why))
}

// example is an address of the examples of causes.
func example(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	p := place{"", 7, 12}
	span := func(d clock.Duration) cause.Duration { return cause.Span(d) }
	const us = clock.Microsecond
	return []cause.Cause{
		overlapping(p, netlock.Exclusive, netlock.Shared, cause.Name("it"), 9, span(3*us)),
		unasked(p, netlock.Acquire.String()), grantedTwice(p, 9), tooMany(p, 2, 1),
		otherMode(p, netlock.Shared, 9, netlock.Exclusive), otherStamp(p, 9),
		skipped(p, 15), forgotten(p, span(40*us)), notForwarded(p, span(40*us)), strandedAt(p, span(40*us)),
		askedLate(p, 9, span(700*us)), skippedByServer(p, 15), idleAtServer(p, 8, span(3*us)),
		neglectedByServer(p, span(3*us)), keptRelease(p, span(40*us)), miscountedBy(p, 5, 3), grantedAgain(p, 9),
		oneByOne(p, 8, span(3*us)), notAskedAgain(p, span(3*clock.Millisecond)),
		overtakenInSwitch(p, 8, 9), overtakenAtServer(p, 8, 9), overtakenInBuffer(p, 8, 9), askedEarly(p, 9),
		passedBuffer(p, 8, 7),
		keptBuffer(p, 7, 3), begunEarly(p, span(2*clock.Millisecond)), leftOfBatch(p, 2),
		notPreferred(p, 0, 1, 9), tooEarly(p, 1, span(600*clock.Nanosecond), span(800*clock.Nanosecond)),
		lateInBatch(p, 3, span(2*us)), tooLate(p, span(3*us), span(2*us)),
		overflowed(p, 5, 4), bufferedEarly(p, 1, 4), bufferedForeign(p), askedInVain(p, 9), askedForOthers(p, 3, 4),
		returnedAgain(p, 8),
		sentAway(p), byServer(p), grantedBuffered(p, 8), handedAgain(p, span(40*us)), bySwitch(p),
		overQuota("", 1, 101, 100), rejectedEarly(p, 1, 9, 100), rejectedFreely(p, 1),
		heldOn(p, span(500*us)), neverExpired(p),
		tooSoon(p, "it took over", span(2*clock.Millisecond), span(10*clock.Millisecond)), unneeded(p),
		bypassed(p, span(8*us)),
		besideBackup(p, 9, span(8*us)),
		tooMuch("", 11, 10), beyond("", 7, 3, 2), notOptimal("", 110, 200),
		queuedQuery(p, span(8*us)), lostQuery(p),
		otherFields(p, 9), returnedOtherwise(p, 9), forwardedAgain(p, 9), otherServer(p, 9),
		releaseMarked("", 7, 12, netlock.BufferOnly),
		otherDatabase(&device{}, &Packet{ID: 12, Dst: example(1), Header: netlock.Header{Lock: 7}}, example(2)),
		otherDatabase(&device{}, &Packet{ID: 12, Dst: example(1),
			Header: netlock.Header{Op: netlock.GrantFromServer, Lock: 7}}, example(2)),
		databaseUnasked(&Packet{ID: 12, Src: example(1), Header: netlock.Header{Lock: 7}}),
		databaseOtherwise(&Packet{ID: 12, Src: example(1), Header: netlock.Header{Lock: 7}}, 9),
		changed("", 12), reordered("", 12, 13),
		notJudged("packets of others", "there are too many flows"),
	}
}
