package aqm

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/trace"
)

// place is a queue of a switch with the packet at hand.
type place struct {
	who         cause.Switch
	port, queue int
	id          uint64
}

func (p place) queueText() cause.Argument {
	return cause.Queue{Queue: p.queue, Port: cause.Port{Number: p.port}}
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

// did is what a switch does to selected packets.
func did(marked bool) cause.Argument {
	if marked {
		return cause.Name("marked")
	}
	return cause.Name("dropped")
}

func mouseSelected(p place, marked bool, bytes int64) cause.Cause {
	return cause.Of(ruleMouse, "selected", "%v %v packet %v early at %v; its flow was a mouse of %v.", p.who, did(marked),
		p.packet(), p.queueText(), cause.Bytes(bytes))
}

func belowFair(p place, marked bool, flow, fair float64) cause.Cause {
	return cause.Of(ruleBelowFair, "below", "%v %v packet %v early at %v; its flow sent %v, and the fair rate was %v.",
		p.who, did(marked), p.packet(), p.queueText(), rate(flow), rate(fair))
}

func emptyQueue(p place, marked bool) cause.Cause {
	return cause.Of(ruleBelowFair, "empty", "%v %v packet %v early at %v, which held too little for that.", p.who,
		did(marked), p.packet(), p.queueText())
}

func wrongShare(p place, of string, selected, seen int, expected float64) cause.Cause {
	return cause.Of(ruleProbability, "share", "%v dropped or marked %v of %v packets %v at %v; %v were expected.", p.who,
		cause.Count(selected), cause.Count(seen), cause.Name(of), p.queueText(), cause.Name(fmt.Sprintf("%.1f", expected)))
}

func certain(p place, probability float64) cause.Cause {
	return cause.Of(ruleProbability, "certain", "%v queued packet %v at %v, which had to be dropped or marked with "+
		"probability %v.", p.who, p.packet(), p.queueText(), share(probability))
}

func claimedProbability(p place, claimed, want float64) cause.Cause {
	return cause.Of(ruleProbability, "claimed", "%v claimed probability %v for packet %v at %v; the taps give %v.", p.who,
		share(claimed), p.packet(), p.queueText(), share(want))
}

func claimedFair(p place, claimed int64, want float64) cause.Cause {
	return cause.Of(ruleFairRate, "claimed", "%v claimed fair rate %v at packet %v for %v; the taps give %v.", p.who,
		rate(claimed), p.packet(), p.queueText(), rate(want))
}

func unfairShares(p place, actual, expected float64) cause.Cause {
	return cause.Of(ruleFairness, "unfair", "%v gave the backlogged elephants at %v shares with Jain's index %v; AFD "+
		"would have given %v.", p.who, p.queueText(), share(actual), share(expected))
}

func unsteady(p place, held, desired, excess int64, above bool) cause.Cause {
	what := map[bool]string{false: "fewer", true: "more"}
	return cause.Of(ruleSteady, "kept", "%v held %v at %v, which are to hold %v; it took %v %v of elephants than their "+
		"probabilities give.", p.who, cause.Bytes(held), p.queueText(), cause.Count(desired), cause.Bytes(excess),
		cause.Name(what[above]))
}

func noHeadroom(p place, excess int64) cause.Cause {
	return cause.Of(ruleHeadroom, "taken", "%v had no room for packet %v of a mouse at %v, having taken %v of elephants "+
		"more than their probabilities give.", p.who, p.packet(), p.queueText(), cause.Bytes(excess))
}

func constantRate(p place, claimed int64, mean float64, windows int) cause.Cause {
	return cause.Of(ruleRate, "constant", "%v claimed rate %v for the flow of packet %v, which has sent %v in each of %v "+
		"windows.", p.who, rate(claimed), p.packet(), rate(mean), cause.Count(windows))
}

func droppedCapable(p place) cause.Cause {
	return cause.Of(ruleECN, "dropped", "%v dropped packet %v early at %v instead of marking it.", p.who, p.packet(),
		p.queueText())
}

func markedWithout(p place) cause.Cause {
	return cause.Of(ruleECN, "marked", "%v marked packet %v at %v, where ECN is off.", p.who, p.packet(), p.queueText())
}

func markedIncapable(p place) cause.Cause {
	return cause.Of(ruleECN, "incapable", "%v marked packet %v at %v, whose sender does not support ECN.", p.who,
		p.packet(), p.queueText())
}

func flowBlind(p place, mice, elephants float64) cause.Cause {
	return cause.Of(ruleFlowAware, "blind", "%v dropped or marked %v of the mice at %v, and %v of the elephants.", p.who,
		share(mice), p.queueText(), share(elephants))
}

func claimedElephant(p place, elephant bool, bytes int64) cause.Cause {
	what := map[bool]string{false: "a mouse", true: "an elephant"}
	return cause.Of(ruleEtrap, "elephant", "%v took the flow of packet %v for %v; it is %v with %v.", p.who, p.packet(),
		cause.Name(what[!elephant]), cause.Name(what[elephant]), cause.Bytes(bytes))
}

func claimedBytes(p place, claimed, want int64) cause.Cause {
	return cause.Of(ruleEtrap, "bytes", "%v claimed %v for the flow of packet %v; the taps give %v.", p.who,
		cause.Bytes(claimed), p.packet(), cause.Count(want))
}

func claimedRate(p place, claimed int64, want float64) cause.Cause {
	return cause.Of(ruleEtrap, "rate", "%v claimed rate %v for the flow of packet %v; the taps give %v.", p.who,
		rate(claimed), p.packet(), rate(want))
}

func wrongGroup(p place, index int, mouse bool) cause.Cause {
	what := map[bool]string{false: "not a mouse", true: "a mouse"}
	return cause.Of(ruleMiceGroup, "group", "%v sent packet %v to %v; it is number %v of its flow and %v.", p.who,
		p.packet(), p.queueText(), cause.Count(index), cause.Name(what[mouse]))
}

func wrongClass(p place, queue int) cause.Cause {
	return cause.Of(ruleMiceGroup, "class", "%v sent packet %v to %v; its class has queue %v.", p.who, p.packet(),
		p.queueText(), cause.Count(queue))
}

func wrongAge(p place, index int) cause.Cause {
	return cause.Of(ruleMiceAge, "age", "%v sent packet %v to %v, as if its flow had started again at another time; it "+
		"is number %v since then.", p.who, p.packet(), p.queueText(), cause.Count(index))
}

func claimedIndex(p place, claimed int64, want int) cause.Cause {
	return cause.Of(ruleMiceAge, "claimed", "%v took packet %v for number %v of its flow; it is number %v.", p.who,
		p.packet(), cause.Count(claimed), cause.Count(want))
}

func miceWait(p place, mice int64) cause.Cause {
	return cause.Of(ruleMiceFirst, "waited", "%v served packet %v of %v while %v of mice waited.", p.who, p.packet(),
		p.queueText(), cause.Bytes(mice))
}

func overtaken(p place, other uint64) cause.Cause {
	return cause.Of(ruleMiceOrder, "overtaken", "%v sent packet %v of %v after packet %v, a younger one of its flow.",
		p.who, p.packet(), p.queueText(), cause.Name(trace.PacketText(other)))
}

func lateMouse(p place, late cause.Duration) cause.Cause {
	return cause.Of(ruleMiceDelay, "late", "%v sent packet %v of %v %v later than the mice before it explain.", p.who,
		p.packet(), p.queueText(), late)
}

func counted(p place, name string, claimed, want uint64) cause.Cause {
	return cause.Of(ruleCounters, "differs", "%v counted %v %v at %v; the taps saw %v.", p.who, cause.Count(claimed),
		cause.Name(name), p.queueText(), cause.Count(want))
}

func overfull(p place, what string, held, room int64) cause.Cause {
	return cause.Of(ruleBuffer, "overfull", "%v held %v at the %v of %v with packet %v; it has room for %v.", p.who,
		cause.Bytes(held), cause.Name(what), p.queueText(), p.packet(), cause.Count(room))
}

func claimedPort(p place, claimed, held int64) cause.Cause {
	return cause.Of(ruleBuffer, "claimed", "%v claimed that %v waited at the port of %v as packet %v came; the taps "+
		"give %v.", p.who, cause.Bytes(claimed), p.queueText(), p.packet(), cause.Count(held))
}

func hadRoom(p place, held, room int64) cause.Cause {
	return cause.Of(ruleRoom, "refused", "%v refused packet %v at %v; the port held %v and has room for %v.", p.who,
		p.packet(), p.queueText(), cause.Bytes(held), cause.Count(room))
}

func schemeOff(p place, marked bool) cause.Cause {
	return cause.Of(ruleOff, "selected", "%v %v packet %v early at %v, where no scheme is on.", p.who, did(marked),
		p.packet(), p.queueText())
}

func meanTooLow(p place, marked bool, mean, low float64) cause.Cause {
	return cause.Of(ruleMeanQueue, "low", "%v %v packet %v early at %v; the mean queue was %v, and min-bytes are %v.",
		p.who, did(marked), p.packet(), p.queueText(), cause.Bytes(int64(mean)), cause.Count(low))
}

func meanTooHigh(p place, mean, high float64) cause.Cause {
	return cause.Of(ruleMeanQueue, "high", "%v queued packet %v at %v; the mean queue was %v, and max-bytes are %v.",
		p.who, p.packet(), p.queueText(), cause.Bytes(int64(mean)), cause.Count(high))
}

func claimedMean(p place, claimed int64, want float64) cause.Cause {
	return cause.Of(ruleMeanQueue, "claimed", "%v claimed a mean queue of %v at packet %v for %v; the taps give %v.",
		p.who, cause.Bytes(claimed), p.packet(), p.queueText(), cause.Count(want))
}

func thresholdMark(p place, marked bool, held, threshold int64) cause.Cause {
	what := map[bool]string{false: "did not mark", true: "marked"}
	return cause.Of(ruleThreshold, "mark", "%v %v packet %v at %v, which held %v; the threshold is %v.", p.who,
		cause.Name(what[marked]), p.packet(), p.queueText(), cause.Bytes(held), cause.Count(threshold))
}

func thresholdDrop(p place) cause.Cause {
	return cause.Of(ruleThreshold, "drop", "%v dropped packet %v early at %v; a threshold only marks.", p.who, p.packet(),
		p.queueText())
}

// otherFate is of a record that says something else than the taps.
func otherFate(p place, kind uint8, of fate, marked bool) cause.Cause {
	claims := []string{"queued", "queued and marked", "dropped early", "dropped for want of room"}
	claim, saw := "something unknown", claims[kindQueued]
	if int(kind) < len(claims) {
		claim = claims[kind]
	}
	switch {
	case of == early:
		saw = claims[kindEarly]
	case of == tail:
		saw = claims[kindTail]
	case marked:
		saw = claims[kindMarked]
	}
	return cause.Of(ruleRecord, "differs", "%v recorded packet %v at %v as %v; it was %v.", p.who, p.packet(),
		p.queueText(), cause.Name(claim), cause.Name(saw))
}

func equalDraws(p place, of string, alike int) cause.Cause {
	return cause.Of(ruleProbability, "equal", "%v drew equal random numbers for %v at %v: so the packets of one foretell "+
		"those of another, %v times.", p.who, cause.Name(of), p.queueText(), cause.Count(alike))
}

func starved(p place, packets int, lasted cause.Duration) cause.Cause {
	return cause.Of(ruleStarved, "waited", "%v kept %v waiting for %v while it served %v packets of mice.", p.who,
		p.queueText(), lasted, cause.Count(packets))
}

func notJudged(who cause.Switch, what, why string) cause.Cause {
	return cause.Of(ruleNotJudged, "unseen", "%v: %v is not judged, because %v.", who, cause.Name(what), cause.Name(why))
}

// Causes lists an example of each cause.
func Causes() []cause.Cause {
	p := place{"s", 1, 0, 7}
	mice := place{"s", 1, 1, 7}
	return []cause.Cause{
		mouseSelected(p, false, 1_048_500), belowFair(p, false, 2e9, 2.6e9), emptyQueue(p, false),
		wrongShare(p, "of flow 3", 10, 1000, 340), certain(p, 1), claimedProbability(p, 0.2, 0.4),
		claimedFair(p, 2_600_000_000, 2.5e9), unfairShares(p, 0.83, 1), unsteady(p, 300_000, 150_000, 90_000, true),
		noHeadroom(p, 400_000), constantRate(p, 1e9, 2e9, 9), droppedCapable(p), markedWithout(p),
		markedIncapable(p), flowBlind(p, 0.21, 0.2),
		claimedElephant(p, true, 1_048_600), claimedBytes(p, 1500, 3000), claimedRate(p, 1e9, 2e9),
		wrongGroup(mice, 121, false), wrongClass(p, 2), wrongAge(p, 3), claimedIndex(p, 121, 1), miceWait(p, 1500),
		overtaken(mice, 9), lateMouse(mice, 1200), counted(p, "early drops", 3, 5), overfull(p, "port", 3_001_500, 3_000_000),
		claimedPort(p, 3000, 1500), hadRoom(p, 2_000_000, 3_000_000), schemeOff(p, false), meanTooLow(p, false, 120_000,
			150_000),
		meanTooHigh(p, 470_000, 450_000), claimedMean(p, 120_000, 140_000), thresholdMark(p, false, 100_000, 97_500),
		thresholdDrop(p),
		otherFate(p, kindTail, early, false), equalDraws(p, "its flows", 900), starved(p, 1200, 3_000_000),
		notJudged("s", "the fair rate", "the switch keeps no records"),
	}
}
