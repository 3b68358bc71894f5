package deflect

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

func (p place) portText() cause.Argument { return portNumber(p.port) }
func (p place) packet() cause.Argument   { return packet(p.id) }

func packet(id uint64) cause.Argument { return cause.Name(trace.PacketText(id)) }

func number2(v float64) cause.Argument { return cause.Name(fmt.Sprintf("%.1f", v)) }

func portNumber(port int) cause.Argument {
	return cause.Port{Number: port, Text: fmt.Sprintf("port %d", port)}
}

// DEF-1.

func dropped(p place, free int) cause.Cause {
	return cause.Of(deflect.RuleRoom, "dropped", "%v dropped packet %v for want of a port; %v had room.", p.who,
		p.packet(), portNumber(free))
}

func hadRoom(p place, held int64) cause.Cause {
	return cause.Of(deflect.RuleRoom, "refused", "%v dropped packet %v at %v for want of room; %v waited there, and it "+
		"would have fitted.", p.who, p.packet(), p.portText(), cause.Bytes(held))
}

func thrown(p place, reason string) cause.Cause {
	return cause.Of(deflect.RuleRoom, "waited", "%v dropped packet %v, which was waiting at %v, for the reason %v.", p.who,
		p.packet(), p.portText(), cause.Name(reason))
}

// DEF-2.

func ineligible(p place) cause.Cause {
	return cause.Of(deflect.RuleTarget, "ineligible", "%v deflected packet %v to %v, which is not eligible.", p.who,
		p.packet(), p.portText())
}

func toFull(p place, held int64) cause.Cause {
	return cause.Of(deflect.RuleTarget, "full", "%v deflected packet %v to %v, which refuses it: the ingress saw %v "+
		"there.", p.who, p.packet(), p.portText(), cause.Bytes(held))
}

func badCandidate(p place) cause.Cause {
	return cause.Of(deflect.RuleTarget, "candidate", "%v drew %v for packet %v, which is not eligible or was drawn "+
		"before.",
		p.who, p.portText(), p.packet())
}

func notCandidate(p place) cause.Cause {
	return cause.Of(deflect.RuleTarget, "undrawn", "%v deflected packet %v to %v, which is none of its candidates.", p.who,
		p.packet(), p.portText())
}

// DEF-3.

func needless(p place, held int64) cause.Cause {
	return cause.Of(deflect.RuleNeedless, "room", "%v did not queue packet %v at %v, its destination port, where the "+
		"ingress saw only %v.", p.who, p.packet(), p.portText(), cause.Bytes(held))
}

// DEF-4.

func wrongVerdict(p place, deflected bool, held, k, of int64) cause.Cause {
	r := "no relative priority was needed"
	if of > 0 {
		r = fmt.Sprintf("the relative priority was %d/%d", k, of)
	}
	if deflected {
		return cause.Of(deflect.RuleVerdict, "deflected", "%v did not queue packet %v at %v, its destination port, which "+
			"was to take it: the ingress saw %v, and %v.", p.who, p.packet(), p.portText(), cause.Bytes(held), cause.Name(r))
	}
	return keptVerdict(p, held, r)
}

func keptVerdict(p place, held int64, r string) cause.Cause {
	return cause.Of(deflect.RuleVerdict, "kept", "%v kept packet %v at %v, its destination port, instead of "+
		"deflecting it: the ingress saw %v, and %v.", p.who, p.packet(), p.portText(), cause.Bytes(held), cause.Name(r))
}

func otherCause(p place, got, want uint8) cause.Cause {
	return cause.Of(deflect.RuleVerdict, "claimed", "%v recorded that %v is %v for packet %v; it was %v.", p.who,
		p.portText(), testName(got), p.packet(), testName(want))
}

func testName(c uint8) cause.Argument {
	switch c {
	case deflect.TestRoom:
		return cause.Name("free")
	case deflect.TestFull:
		return cause.Name("full")
	case deflect.TestOver:
		return cause.Name("over its threshold")
	}
	return cause.Name("unknown")
}

func otherR(p place, k, of, wantK, wantOf int64) cause.Cause {
	return cause.Of(deflect.RuleVerdict, "relative", "%v recorded the relative priority %v of packet %v at %v; it was %v.",
		p.who, cause.Name(fmt.Sprintf("%d/%d", k, of)), p.packet(), p.portText(),
		cause.Name(fmt.Sprintf("%d/%d", wantK, wantOf)))
}

func overfull(p place, held int64, room int) cause.Cause {
	return cause.Of(deflect.RuleVerdict, "overfull", "%v let packet %v join %v that waited at %v; the queue has room for "+
		"%v.", p.who, p.packet(), cause.Bytes(held), p.portText(), cause.Bytes(room))
}

// DEF-5 and DEF-6.

func important(p place, held int64) cause.Cause {
	return cause.Of(deflect.RuleImportant, "deflected", "%v deflected packet %v, of relative priority 0, although %v was "+
		"not full: the ingress saw %v.", p.who, p.packet(), p.portText(), cause.Bytes(held))
}

func unfair(p place, refused, admitted uint64) cause.Cause {
	return cause.Of(deflect.RuleMonotone, "reversed", "%v refused a packet of priority value %v and admitted one of "+
		"%v that found the same at %v; the latter of both is packet %v.", p.who, cause.Count(refused), cause.Count(admitted),
		p.portText(), p.packet())
}

// DEF-7.

func wrongShare(p place, of choice, selected, seen int, expected float64) cause.Cause {
	return cause.Of(deflect.RuleChoice, "share", "%v chose %v %v %v of %v times; %v were expected.", p.who, p.portText(),
		of, cause.Count(selected), cause.Count(seen), number2(expected))
}

func otherScan(p place, r, want int) cause.Cause {
	return cause.Of(deflect.RuleChoice, "scan", "%v deflected packet %v to %v; from position %v the first port that "+
		"is not congested is %v.", p.who, p.packet(), p.portText(), cause.Count(r), portNumber(want))
}

func badDraw(p place, r, n int) cause.Cause {
	return cause.Of(deflect.RuleChoice, "draw", "%v drew %v for packet %v, of %v eligible ports.", p.who, cause.Count(r),
		p.packet(), cause.Count(n))
}

func fewCandidates(p place, got, want int) cause.Cause {
	return cause.Of(deflect.RuleChoice, "candidates", "%v drew %v candidates for packet %v; it was to draw %v.", p.who,
		cause.Count(got), p.packet(), cause.Count(want))
}

func notShortest(p place, held, least int64) cause.Cause {
	return cause.Of(deflect.RuleChoice, "longer", "%v deflected packet %v to %v, where the ingress saw %v; it saw %v at "+
		"another candidate.", p.who, p.packet(), p.portText(), cause.Bytes(held), cause.Count(least))
}

func notFirst(p place, first int) cause.Cause {
	return cause.Of(deflect.RuleChoice, "tie", "%v deflected packet %v to %v; %v was drawn before it, and is as short.",
		p.who, p.packet(), p.portText(), portNumber(first))
}

// DEF-8 and DEF-9.

func fromNowhere(p place) cause.Cause {
	return cause.Of(deflect.RulePath, "from-nowhere", "Packet %v came into %v by %v; the other end of the link did not "+
		"send it.", p.packet(), place2(p), p.portText())
}

// place2 is a switch within a sentence.
func place2(p place) cause.Argument {
	if p.who == "" {
		return cause.Name("the switch")
	}
	return cause.Name("switch " + string(p.who))
}

func ttlStep(p place, ttl, before uint8) cause.Cause {
	return cause.Of(deflect.RulePath, "ttl-step", "Packet %v has TTL %v at %v of %v; it had %v before.", p.packet(),
		cause.Count(ttl), p.portText(), place2(p), cause.Count(before))
}

func ttlAtFirst(p place, ttl uint8) cause.Cause {
	return cause.Of(deflect.RulePath, "ttl-kept", "%v took packet %v in with TTL %v, from its sender; a switch takes one "+
		"off.", p.who, p.packet(), cause.Count(ttl))
}

func ttlDrop(p place, ttl uint8) cause.Cause {
	return cause.Of(deflect.RulePath, "ttl-drop", "%v dropped packet %v for its TTL, which was %v.", p.who, p.packet(),
		cause.Count(ttl))
}

func tooMany(p place, visits int) cause.Cause {
	return cause.Of(deflect.RulePath, "visits", "%v is visit %v of packet %v to a switch.", p.who, cause.Count(visits),
		p.packet())
}

func detour(p place) cause.Cause {
	return cause.Of(deflect.RulePath, "detour", "%v sent packet %v by %v, which leads no closer to its receiver, and "+
		"recorded no deflection.", p.who, p.packet(), p.portText())
}

func notInside(p place) cause.Cause {
	return cause.Of(deflect.RuleConservation, "not-inside", "%v sent or dropped packet %v at %v, which was not inside.",
		p.who, p.packet(), p.portText())
}

func twice(p place) cause.Cause {
	return cause.Of(deflect.RuleConservation, "twice", "Packet %v came into %v by %v while it was inside a switch.",
		p.packet(), place2(p), p.portText())
}

func vanished(p place) cause.Cause {
	return cause.Of(deflect.RuleConservation, "vanished", "Packet %v was last seen at %v of %v; it has neither "+
		"arrived nor been dropped.", p.packet(), p.portText(), place2(p))
}

func ttlEnded(p place, visits int) cause.Cause {
	return cause.Of(deflect.RuleTTL, "ended", "%v dropped packet %v, as its TTL has ended after %v visits to switches.",
		p.who, p.packet(), cause.Count(visits))
}

// DEF-10 and DEF-11.

func overtakes(p place, at clock.Time, first uint64) cause.Cause {
	return cause.Of(deflect.RuleOrder, "overtakes", "%v sent packet %v by %v at %v; packet %v was to leave first.", p.who,
		p.packet(), p.portText(), cause.Clock(at), packet(first))
}

func wrongVictims(p place, got, want int) cause.Cause {
	return cause.Of(deflect.RuleVictim, "other", "%v pulled %v out of %v for packet %v; the scan gives %v, or others.",
		p.who, cause.Counted{N: int64(got), Noun: "packet"}, p.portText(), p.packet(), cause.Count(want))
}

func wrongDisplaced(p place, priority, largest uint64) cause.Cause {
	return cause.Of(deflect.RuleOrder, "displaced", "%v dropped packet %v of priority value %v at %v; another of %v was "+
		"less important.", p.who, p.packet(), cause.Count(priority), p.portText(), cause.Count(largest))
}

// DEF-12.

func notReceived(host uint32, id uint64) cause.Cause {
	return cause.Of(deflect.RuleShim, "unreceived", "The ordering layer of host %v passed on or discarded packet %v, "+
		"which it did not have.", cause.Count(host), packet(id))
}

func notDuplicate(host uint32, id uint64) cause.Cause {
	return cause.Of(deflect.RuleShim, "discarded", "The ordering layer of host %v discarded packet %v, of which it "+
		"kept no copy.", cause.Count(host), packet(id))
}

func heldLong(host uint32, id uint64, held, most cause.Duration) cause.Cause {
	return cause.Of(deflect.RuleShim, "held", "The ordering layer of host %v held packet %v for %v; %v are allowed.",
		cause.Count(host), packet(id), held, most)
}

func notHeld(host uint32, id uint64, value uint32) cause.Cause {
	return cause.Of(deflect.RuleShim, "not-held", "The ordering layer of host %v passed on packet %v at once; the packet "+
		"of its message with value %v had not come.", cause.Count(host), packet(id), cause.Count(value))
}

func letGo(host uint32, id uint64, held cause.Duration, value uint32) cause.Cause {
	return cause.Of(deflect.RuleShim, "let-go", "The ordering layer of host %v passed on packet %v after %v; the "+
		"packet of its message with value %v had not come, and nothing had been held for omega.",
		cause.Count(host), packet(id), held, cause.Count(value))
}

func kept(host uint32, id uint64) cause.Cause {
	return cause.Of(deflect.RuleShim, "kept", "The ordering layer of host %v kept packet %v although all that was sent "+
		"before it had come.", cause.Count(host), packet(id))
}

func keptBehind(host uint32, id uint64, value uint32) cause.Cause {
	return cause.Of(deflect.RuleShim, "kept-behind", "The ordering layer of host %v passed on the packet with value %v, "+
		"which it had held, and kept packet %v, the next one of its message.", cause.Count(host), cause.Count(value),
		packet(id))
}

func lessOrdered(host uint32, after, before int) cause.Cause {
	return cause.Of(deflect.RuleShim, "late", "The ordering layer of host %v passed %v of a flow on after a later "+
		"one; %v had come so.", cause.Count(host), cause.Counted{N: int64(after), Noun: "packet"}, cause.Count(before))
}

// DEF-13.

func markedControl(p place) cause.Cause {
	return cause.Of(deflect.RuleMark, "control", "The sender of packet %v, which came into %v by %v, marked it as "+
		"control and set other fields.", p.packet(), place2(p), p.portText())
}

func otherMark(p place, got, want deflect.Mark) cause.Cause {
	return cause.Of(deflect.RuleMark, "retransmission", "The sender of packet %v, which came into %v by %v, marked it "+
		"anew with value %v and Ret %v; it was to have %v and %v, and all else as "+
		"before.", p.packet(), place2(p), p.portText(),
		cause.Count(got.Value), cause.Count(got.Ret), cause.Count(want.Value), cause.Count(want.Ret))
}

func badFirst(p place, is bool) cause.Cause {
	what := "does not begin"
	if is {
		what = "begins"
	}
	return cause.Of(deflect.RuleMark, "first", "Packet %v, which came into %v by %v, %v a message by its mark, and "+
		"was to.",
		p.packet(), place2(p), p.portText(), cause.Name(what))
}

func badFlowlet(p place, got, want uint16) cause.Cause {
	return cause.Of(deflect.RuleMark, "flowlet", "Packet %v, which came into %v by %v, has flowlet %v; it belongs to %v.",
		p.packet(), place2(p), p.portText(), cause.Count(got), cause.Count(want))
}

func badRet(p place, got uint8, want cause.Between) cause.Cause {
	return cause.Of(deflect.RuleMark, "ret", "Packet %v, which came into %v by %v, has Ret %v and is new; that of its "+
		"flow is %v.", p.packet(), place2(p), p.portText(), cause.Count(got), want)
}

func badValue(p place, got uint32) cause.Cause {
	return cause.Of(deflect.RuleMark, "value", "Packet %v, which came into %v by %v, has the value %v, which no "+
		"packet has there.", p.packet(), place2(p), p.portText(), cause.Count(got))
}

func notFalling(p place, got, before uint32) cause.Cause {
	return cause.Of(deflect.RuleMark, "order", "Packet %v, which came into %v by %v, has the value %v, and the packet "+
		"of its message before it %v.", p.packet(), place2(p), p.portText(), cause.Count(got), cause.Count(before))
}

// DEF-14 to DEF-17.

func otherWindow(p place, got, want int64) cause.Cause {
	return cause.Of(deflect.RuleWindow, "holds", "%v recorded a window of %v at %v as it tested packet %v; there are %v "+
		"values, or others.", p.who, cause.Counted{N: got, Noun: "value"}, p.portText(), p.packet(), cause.Count(want))
}

func otherSample(p place, sampled bool) cause.Cause {
	what := "not to enter"
	if sampled {
		what = "to enter"
	}
	return cause.Of(deflect.RuleWindow, "turn", "%v recorded of packet %v the opposite of what its turn is at %v: %v the "+
		"window.", p.who, p.packet(), p.portText(), cause.Name(what))
}

func testedAgain(p place) cause.Cause {
	return cause.Of(deflect.RuleWindow, "again", "%v tested packet %v again at %v, which had refused it.", p.who,
		p.packet(), p.portText())
}

func evaluated(p place) cause.Cause {
	return cause.Of(deflect.RuleWindow, "full", "%v evaluated the relative priority of packet %v at %v, which is full.",
		p.who, p.packet(), p.portText())
}

func tooFast(p place, early cause.Duration) cause.Cause {
	return cause.Of(deflect.RuleFloor, "early", "%v sent packet %v by %v %v before the link was free.", p.who, p.packet(),
		p.portText(), early)
}

func stale(p place, got, want int64) cause.Cause {
	return cause.Of(deflect.RuleStale, "bytes", "%v recorded that its ingress saw %v of %v with packet %v; the latest "+
		"update shows %v.", p.who, cause.Count(got), p.portText(), p.packet(), cause.Count(want))
}

func staleBit(p place, got, want int64) cause.Cause {
	return cause.Of(deflect.RuleStale, "bits", "%v recorded the bits %v of %v with packet %v; its ingress was to see %v.",
		p.who, cause.Count(got), p.portText(), p.packet(), cause.Count(want))
}

func tooFewDrawn(p place, got, want int) cause.Cause {
	return cause.Of(deflect.RuleDropped, "undrawn", "%v dropped packet %v for want of a port after %v; it was to draw %v.",
		p.who, p.packet(), cause.Counted{N: int64(got), Noun: "candidate"}, cause.Count(want))
}

func candidateFree(p place, free int) cause.Cause {
	return cause.Of(deflect.RuleDropped, "free", "%v dropped packet %v for want of a port; candidate %v takes it.", p.who,
		p.packet(), portNumber(free))
}

// Records.

func claimed(p place, what string, got, want int64) cause.Cause {
	return cause.Of(deflect.RuleRecord, "value", "%v recorded of packet %v at %v that %v is %v; it was %v.", p.who,
		p.packet(), p.portText(), cause.Name(what), cause.Count(got), cause.Count(want))
}

func misordered(p place) cause.Cause {
	return cause.Of(deflect.RuleRecord, "order", "%v recorded too little of packet %v at %v, or in a wrong order.", p.who,
		p.packet(), p.portText())
}

func ofNobody(who cause.Switch, id uint64) cause.Cause {
	return cause.Of(deflect.RuleRecord, "nobody", "%v recorded a decision about packet %v, which was not inside.", who,
		packet(id))
}

func otherFate(p place, kind uint8, of fate, port int) cause.Cause {
	names := []string{"routed", "tested", "picked", "extracted", "queued", "deflected", "dropped for want of a port",
		"refused by its queue", "displaced", "made"}
	name := "nothing"
	if int(kind) < len(names) {
		name = names[kind]
	}
	became := "was dropped"
	switch of {
	case left, inside, withdrawn:
		became = "was queued"
	case refused:
		became = "was refused or dropped"
	case portless:
		became = "was dropped for want of a port"
	case failed:
		became = "was dropped, as a trunk had failed,"
	case unknown, elsewhere:
	}
	return cause.Of(deflect.RuleRecord, "fate", "%v recorded last that packet %v was %v at %v; it %v at %v.", p.who,
		p.packet(), cause.Name(name), p.portText(), cause.Name(became), portNumber(port))
}

func counted(p place, name string, got, want uint64) cause.Cause {
	return cause.Of(deflect.RuleCounters, "differs", "%v counts %v of %v at %v; taps and records show %v.", p.who,
		cause.Count(got), cause.Name(name), p.portText(), cause.Count(want))
}

// Forwarding.

func offRoute(p place, egress int) cause.Cause {
	return cause.Of(deflect.RuleForwarding, "off-route", "%v chose %v as the destination port of packet %v, which is "+
		"on no shortest path.", p.who, portNumber(egress), p.packet())
}

func otherPath(p place, had int) cause.Cause {
	return cause.Of(deflect.RuleForwarding, "changed", "%v chose %v as the destination port of packet %v; the hash of "+
		"its flow had given %v.", p.who, p.portText(), p.packet(), portNumber(had))
}

func noRoute(p place) cause.Cause {
	return cause.Of(deflect.RuleForwarding, "no-draw", "%v drew no two of several equal paths for packet %v, which "+
		"goes to %v.", p.who, p.packet(), p.portText())
}

func badPair(p place, first, second int) cause.Cause {
	return cause.Of(deflect.RuleForwarding, "pair", "%v drew %v and %v for packet %v, which are not two equal paths.",
		p.who, portNumber(first), portNumber(second), p.packet())
}

func longerQueue(p place, first int, x int64, second int, y int64) cause.Cause {
	return cause.Of(deflect.RuleForwarding, "longer", "%v chose %v for packet %v, not the shorter of %v with %v and %v "+
		"with %v.", p.who, p.portText(), p.packet(), portNumber(first), cause.Bytes(x), portNumber(second),
		cause.Bytes(y))
}

func notJudged(who cause.Switch, what, why string) cause.Cause {
	return cause.Of(ruleNotJudged, "unseen", "%v: %v is not judged, because %v.", who, cause.Name(what), cause.Name(why))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	p := place{"leaf-1", 3, 7}
	return []cause.Cause{
		dropped(p, 2), hadRoom(p, 3000), thrown(p, "evicted"), ineligible(p), toFull(p, 49_000), badCandidate(p),
		notCandidate(p), needless(p, 1500), wrongVerdict(p, true, 40_000, 1, 20),
		wrongVerdict(p, false, 48_000, 19, 20), otherCause(p, deflect.TestRoom, deflect.TestFull), otherR(p, 3, 20, 4, 20),
		overfull(p, 49_500, 50_000), important(p, 47_000), unfair(p, 1500, 30_000),
		wrongShare(p, ofPort, 900, 1000, 250), otherScan(p, 1, 2), badDraw(p, 9, 4), fewCandidates(p, 1, 2),
		notShortest(p, 3000, 1500), notFirst(p, 2), fromNowhere(p), ttlStep(p, 247, 249), ttlAtFirst(p, 250),
		ttlDrop(p, 12), tooMany(p, 251), detour(p), notInside(p), twice(p), vanished(p), ttlEnded(p, 250),
		overtakes(p, clock.Time(3*clock.Microsecond), 5), wrongVictims(p, 2, 1), wrongDisplaced(p, 1500, 9000),
		notReceived(3, 7), notDuplicate(3, 7), heldLong(3, 7, 400_000, 360_000), lessOrdered(3, 5, 4), notHeld(3, 7, 3000),
		letGo(3, 7, 40_000, 3000), kept(3, 7), keptBehind(3, 7, 3000),
		markedControl(p), otherMark(p, deflect.Mark{Value: 1500}, deflect.Mark{Value: 1500, Ret: 1}), badFirst(p, false),
		badFlowlet(p, 2, 1), badRet(p, 1, cause.Between{}), badValue(p, 0), notFalling(p, 3000, 1500),
		otherWindow(p, 4, 5), otherSample(p, true), evaluated(p), testedAgain(p), tooFast(p, 400), stale(p, 3000, 1500),
		staleBit(p, 3, 1), candidateFree(p, 2), tooFewDrawn(p, 1, 2), claimed(p, "occupancy", 3000, 1500), misordered(p),
		ofNobody("leaf-1", 7), otherFate(p, deflect.Queued, refused, 3), counted(p, "Tail", 3, 4), offRoute(p, 0),
		otherPath(p, 2), noRoute(p), badPair(p, 1, 1), longerQueue(p, 1, 0, 3, 1500),
		notJudged("leaf-1", "the rest of the run", "its settings changed"),
	}
}
