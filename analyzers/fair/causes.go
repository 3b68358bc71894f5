package fair

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// place is a port of a switch with the packet at hand.
type place struct {
	who  cause.Switch
	port int
	id   uint64
}

func (p *port) place(a *arrival) place { return place{p.d.who, p.index, a.id} }

func (p place) at() cause.Argument {
	return cause.Port{Number: p.port, Text: fmt.Sprintf("port %d", p.port)}
}
func (p place) packet() cause.Argument { return cause.Name(trace.PacketText(p.id)) }

// rate is a bit rate for people.
type rate float64

func (r rate) String() string {
	switch {
	case r >= 1e9:
		return fmt.Sprintf("%.4g Gb/s", float64(r)/1e9)
	case r >= 1e6:
		return fmt.Sprintf("%.4g Mb/s", float64(r)/1e6)
	}
	return fmt.Sprintf("%.4g b/s", float64(r))
}

// share is a share or probability.
type share float64

func (s share) String() string { return fmt.Sprintf("%.3g", float64(s)) }

// span64 is a duration for people.
type span64 clock.Duration

func (s span64) String() string { return cause.Span(clock.Duration(s)).String() }

func overtaken(p place, other uint64) cause.Cause {
	return cause.Of(ruleFIFO, "overtaken", "%v sent packet %v at %v after packet %v, which had come later.", p.who,
		p.packet(), p.at(), cause.Name(trace.PacketText(other)))
}

func otherShare(p place, child string, got, want rate, over span64) cause.Cause {
	return cause.Of(ruleShares, "other", "%v gave %v %v at %v for %v; its max-min share was %v.", p.who,
		cause.Name(child),
		got, p.at(), over, want)
}

func variedShare(p place, child string, got, want rate, over span64) cause.Cause {
	return cause.Of(ruleShares, "varied", "%v let %v of %v through at %v for %v; their max-min share, with labels as "+
		"they were, was %v.", p.who, got, cause.Name(child), p.at(), over, want)
}

func disturbed(p place, flow string, before, after rate, node int) cause.Cause {
	return cause.Of(ruleIsolation, "disturbed", "%v gave %v %v at %v, and %v after demand had changed below node %v.",
		p.who,
		cause.Name(flow), before, p.at(), after, cause.Count(node))
}

func idle(p place, got, offered, least rate) cause.Cause {
	return cause.Of(ruleWork, "idle", "%v sent %v by %v, to which %v was offered; %v was to be sent at least.", p.who,
		got,
		p.at(), offered, least)
}

func belowShare(p place, label, alpha rate) cause.Cause {
	return cause.Of(ruleUnder, "dropped", "%v dropped packet %v at %v with label %v; alpha was %v.", p.who, p.packet(),
		p.at(), label, alpha)
}

func lostBelow(p place, flow string, lost share, most, fair rate) cause.Cause {
	return cause.Of(ruleUnder, "lost", "%v dropped %v of the bits of %v at %v, whose label was at most %v; its share "+
		"was %v.",
		p.who, lost, cause.Name(flow), p.at(), most, fair)
}

func wrongShare(p place, of string, selected, seen int, expected float64) cause.Cause {
	return cause.Of(ruleTest, "share", "%v dropped %v of %v packets %v at %v; %v were expected.", p.who,
		cause.Count(selected), cause.Count(seen), cause.Name(of), p.at(), cause.Name(fmt.Sprintf("%.1f", expected)))
}

func surelyDropped(p place) cause.Cause {
	return cause.Of(ruleTest, "certain", "%v queued packet %v at %v, which all random numbers drop.", p.who, p.packet(),
		p.at())
}

func droppedBypassed(p place) cause.Cause {
	return cause.Of(ruleTest, "bypassed", "%v dropped packet %v at %v by the drop test, for which it is too small.",
		p.who,
		p.packet(), p.at())
}

func claimedProbability(p place, claimed, want float64) cause.Cause {
	return cause.Of(ruleTest, "claimed", "%v claimed probability %v for packet %v at %v; its label and alpha give "+
		"%v.", p.who,
		share(claimed), p.packet(), p.at(), share(want))
}

func drewOther(p place, dropped bool, probability share) cause.Cause {
	what := map[bool]string{false: "dropped", true: "kept"}
	return cause.Of(ruleTest, "draw", "%v %v packet %v at %v against its random number; it was to be dropped with "+
		"probability %v.", p.who, cause.Name(what[dropped]), p.packet(), p.at(), probability)
}

func drawOutside(p place, draw int64, bits int) cause.Cause {
	return cause.Of(ruleTest, "outside", "%v claimed random number %v for packet %v at %v, which is not one of %v bits.",
		p.who, cause.Count(draw), p.packet(), p.at(), cause.Count(bits))
}

func unevenDraws(p place, seen int) cause.Cause {
	return cause.Of(ruleTest, "uneven", "%v drew random numbers at %v that are not uniform and independent, as %v of "+
		"them show.", p.who, p.at(), cause.Count(seen))
}

func sameDraws(p place, other cause.Switch, port int) cause.Cause {
	return cause.Of(ruleTest, "same", "%v drew the same random numbers at %v as %v at port %v.", p.who, p.at(), other,
		cause.Port{Number: port})
}

func equalDraws(p place, of string, alike int) cause.Cause {
	return cause.Of(ruleTest, "equal", "%v drew equal random numbers for %v at %v: so the packets of one foretell "+
		"those of another, %v times.", p.who, cause.Name(of), p.at(), cause.Count(alike))
}

func claimedLabel(p place, claimed int64, want float64) cause.Cause {
	return cause.Of(ruleLabel, "claimed", "%v claimed label %v for packet %v at %v; the taps give %v.", p.who,
		rate(claimed),
		p.packet(), p.at(), rate(want))
}

func claimedNode(p place, claimed int64, want int) cause.Cause {
	return cause.Of(ruleLabel, "claimed-node", "%v took packet %v at %v for one of node %v; its flow belongs to node %v.",
		p.who, p.packet(), p.at(), cause.Count(claimed), cause.Count(want))
}

func claimedEdge(p place, edge bool) cause.Cause {
	what := map[bool]string{false: "did not measure", true: "measured"}
	return cause.Of(ruleLabel, "claimed-edge", "%v claimed at %v that it %v the flow of packet %v; the edge, and no "+
		"other switch, measures.", p.who, p.at(), cause.Name(what[edge]), p.packet())
}

func wrongLabel(p place, got, low, high rate) cause.Cause {
	return cause.Of(ruleLabel, "left", "%v sent packet %v by %v with label %v; it was to be from %v to %v.", p.who,
		p.packet(),
		p.at(), got, low, high)
}

func raisedLabel(p place, got, before rate) cause.Cause {
	return cause.Of(ruleLabel, "raised", "%v sent packet %v by %v with label %v; it had come with %v.", p.who, p.packet(),
		p.at(), got, before)
}

func otherNode(p place, got, want int) cause.Cause {
	return cause.Of(ruleLabel, "node", "%v sent packet %v by %v with node %v; its flow belongs to node %v.", p.who,
		p.packet(),
		p.at(), cause.Count(got), cause.Count(want))
}

func noLabel(p place) cause.Cause {
	return cause.Of(ruleLabel, "none", "%v sent packet %v by %v without a label.", p.who, p.packet(), p.at())
}

func keptLabel(p place) cause.Cause {
	return cause.Of(ruleLabel, "kept", "%v sent packet %v by %v to its host with a label.", p.who, p.packet(), p.at())
}

func wrongShim(p place, got, want int) cause.Cause {
	return cause.Of(ruleLabel, "shim", "%v sent packet %v by %v with a shim of %v; it was to have %v.", p.who, p.packet(),
		p.at(), cause.Bytes(got), cause.Bytes(want))
}

func otherLabel(p place, got, claimed rate) cause.Cause {
	return cause.Of(ruleLabel, "recorded", "%v sent packet %v by %v with label %v; its record says %v.", p.who, p.packet(),
		p.at(), got, claimed)
}

func labelledBypassed(p place) cause.Cause {
	return cause.Of(ruleLabel, "bypassed", "%v labelled packet %v at %v, which is too small for that.", p.who, p.packet(),
		p.at())
}

func tooEarly(p place, node int, since, least span64) cause.Cause {
	return cause.Of(rulePacing, "early", "%v changed alpha of node %v at %v with packet %v, %v after it had changed "+
		"before; K_c is %v.", p.who, cause.Count(node), p.at(), p.packet(), since, least)
}

func notDue(p place, node int, since span64) cause.Cause {
	return cause.Of(rulePacing, "not-due", "%v changed alpha of node %v at %v with packet %v, though its phase had "+
		"begun %v before.", p.who, cause.Count(node), p.at(), p.packet(), since)
}

func noUpdate(p place, node int, since span64) cause.Cause {
	return cause.Of(rulePacing, "missing", "%v did not look at alpha of node %v at %v with packet %v, %v after it had "+
		"done so.",
		p.who, cause.Count(node), p.at(), p.packet(), since)
}

func claimedSince(p place, node int, claimed, want span64) cause.Cause {
	return cause.Of(rulePacing, "claimed", "%v claimed at packet %v that node %v at %v had changed %v before; its "+
		"records give %v.", p.who, p.packet(), cause.Count(node), p.at(), claimed, want)
}

func otherPhase(p place, node int, congested bool) cause.Cause {
	what := map[bool]string{false: "congested", true: "not congested"}
	return cause.Of(ruleAlpha, "phase", "%v took node %v at %v for %v with packet %v, contrary to its A and "+
		"capacity.", p.who,
		cause.Count(node), p.at(), cause.Name(what[congested]), p.packet())
}

func claimedEstimate(p place, what string, node int, claimed, want rate) cause.Cause {
	return cause.Of(ruleEstimator, "claimed", "%v claimed %v of %v for node %v at %v with packet %v; the taps give "+
		"%v.", p.who,
		cause.Name(what), claimed, cause.Count(node), p.at(), p.packet(), want)
}

func claimedAlpha(p place, claimed int64, want float64) cause.Cause {
	return cause.Of(ruleAlpha, "claimed", "%v claimed alpha %v for packet %v at %v; the taps give %v.", p.who,
		rate(claimed),
		p.packet(), p.at(), rate(want))
}

func claimedState(p place, what string, node int, claimed, want float64) cause.Cause {
	return cause.Of(ruleAlpha, "state", "%v claimed %v of %v for node %v at %v with packet %v; it was to be %v.", p.who,
		cause.Name(what), rate(claimed), cause.Count(node), p.at(), p.packet(), rate(want))
}

func aboveBound(p place, above, bound int64, fair rate) cause.Cause {
	return cause.Of(ruleExcess, "above", "%v gave the flow of packet %v at %v %v above its share, which was at most "+
		"%v; the bound is %v.", p.who, p.packet(), p.at(), cause.Bytes(above), fair, cause.Bytes(bound))
}

func registers(who cause.Switch, port, got, want int) cause.Cause {
	return cause.Of(ruleState, "registers", "%v kept %v values at port %v; its nodes need %v.", who, cause.Count(got),
		cause.Port{Number: port}, cause.Count(want))
}

func counted(who cause.Switch, port int, name string, got, want uint64) cause.Cause {
	return cause.Of(ruleState, "counted", "%v counted %v %v at port %v; the taps saw %v.", who, cause.Count(got),
		cause.Name(name), cause.Port{Number: port}, cause.Count(want))
}

func leakage(p place, tails, lost int) cause.Cause {
	return cause.Of(ruleTail, "leakage", "%v dropped %v of %v packets at %v because the FIFO was full.", p.who,
		cause.Count(tails), cause.Count(lost), p.at())
}

func overfull(p place, packets int, bytes int64) cause.Cause {
	return cause.Of(ruleTail, "overfull", "%v let packet %v wait at %v behind %v packets (%v): the FIFO was full.", p.who,
		p.packet(), p.at(), cause.Count(packets), cause.Bytes(bytes))
}

func cutOften(p place, node, cuts int) cause.Cause {
	return cause.Of(ruleAlpha, "often", "%v lowered alpha of node %v at %v %v times in K_c for want of room, lastly with "+
		"packet %v: by more than a quarter.", p.who, cause.Count(node), p.at(), cause.Count(cuts), p.packet())
}

func tooSoon(p place, packets int, bytes int64) cause.Cause {
	return cause.Of(ruleTail, "too-soon", "%v dropped packet %v at %v for want of room behind %v packets (%v): the FIFO "+
		"was not full.", p.who, p.packet(), p.at(), cause.Count(packets), cause.Bytes(bytes))
}

func measuredFlows(who cause.Switch, got, want int) cause.Cause {
	return cause.Of(ruleState, "flows", "%v counted %v flows that its edge measures; the taps saw %v.", who,
		cause.Count(got), cause.Count(want))
}

func noOverflow(p place, node int) cause.Cause {
	return cause.Of(ruleAlpha, "overflow", "%v did not lower alpha of node %v at packet %v at %v, for which the FIFO "+
		"had no room.", p.who, cause.Count(node), p.packet(), p.at())
}

func notJudged(who cause.Switch, what, why string) cause.Cause {
	return cause.Of(ruleNotJudged, "unseen", "%v: %v is not judged, because %v.", who, cause.Name(what), cause.Name(why))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	p := place{"s", 1, 7}
	us := func(n int64) span64 { return span64(clock.Duration(n) * clock.Microsecond) }
	return []cause.Cause{
		overtaken(p, 9), otherShare(p, "node 1", 21e9, 19.7e9, us(4000)),
		variedShare(p, "flow 3 from host 1 to host 2", 2.9e9, 2.4e9, us(4000)), disturbed(p, "flow 3 from host 1 to host "+
			"2", 2.5e9,
			2.1e9, 1), idle(p, 24e9, 60e9, 38.6e9), belowShare(p, 1e9, 1.25e9),
		lostBelow(p, "flow 3 from host 1 to host 2", 0.04, 1e9, 1.25e9), wrongShare(p, "of all flows", 10, 1000, 340),
		surelyDropped(p), droppedBypassed(p), claimedProbability(p, 0.2, 0.4), drewOther(p, true, 0.4),
		drawOutside(p, 128, 7), unevenDraws(p, 900), sameDraws(p, "t", 2), equalDraws(p, "flows", 900),
		claimedLabel(p, 1_000_000_000, 2e9), claimedNode(p, 1, 2), claimedEdge(p, true), wrongLabel(p, 2e9, 1e9, 1e9),
		raisedLabel(p, 2e9, 1e9), otherNode(p, 1, 2), noLabel(p), keptLabel(p), wrongShim(p, 0, 8), otherLabel(p, 2e9, 1e9),
		labelledBypassed(p), tooEarly(p, 1,
			us(10), us(200)),
		notDue(p, 1, us(10)), noUpdate(p, 1, us(400)), claimedSince(p, 1, us(10), us(250)), otherPhase(p, 1, true),
		claimedEstimate(p, "A", 1, 1e9, 2e9), claimedAlpha(p, 1_000_000_000, 2e9),
		claimedState(p, "alpha after the update", 1, 1e9, 2e9), aboveBound(p, 90_000, 46_100, 1.25e9), registers("s", 1,
			40, 9),
		counted("s", 1, "drops by the drop test", 3, 5), leakage(p, 300, 2000),
		overfull(p, 1280, 1_920_000), tooSoon(p, 12, 18_000), cutOften(p, 0, 57), measuredFlows("s", 4, 3),
		noOverflow(p, 0), notJudged("s", "port 1", "its link changed"),
	}
}
