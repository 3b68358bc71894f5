package sai

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/sai"
)

// miscount is a counter with a value that it should not have.
type miscount struct {
	who                cause.Switch
	where, counter, is string
	want               cause.Argument
}

// of returns a cause whose sentence has the counter, its value, and what it should have been.
func (m miscount) of(rule, code, why string, more ...cause.Argument) cause.Cause {
	if m.where == "switch" {
		m.where = "the switch"
	}
	args := append([]cause.Argument{m.who, cause.Name(m.is), cause.Name(m.counter), cause.Name(m.where), m.want}, more...)
	return cause.Of(rule, code, "%v counted %v in %v of %v; "+why, args...)
}

// seen is a number of things that taps saw.
type seen struct {
	span
	noun string
}

func (s seen) String() string {
	n := s.span.String()
	if s.high >= 1<<60 {
		n = fmt.Sprintf("at least %d", s.low)
	}
	if s.low == 1 && s.high == 1 {
		return n + " " + s.noun
	}
	return n + " " + s.noun + "s"
}

// of is what a counter counts, and the sentence if the taps saw another number.
type of struct{ rule, code, noun, why string }

func (o of) cause(m miscount) cause.Cause { return m.of(o.rule, o.code, o.why) }

var (
	ofTrim         = of{ruleTrim, "other-number", "packet", "the taps show %v to have been trimmed."}
	ofSent         = of{ruleSent, "other-number", "packet", "the taps saw %v leave trimmed."}
	ofLost         = of{ruleLost, "other-number", "packet", "the taps saw %v arrive that never left."}
	ofACL          = of{ruleACLCounter, "other-number", "packet", "the taps saw %v that match."}
	ofQueueSent    = of{ruleQueueSent, "other-number", "packet", "the taps saw %v leave by that queue."}
	ofDropped      = of{ruleDropped, "packets", "packet", "the taps saw %v arrive that did not leave whole."}
	ofDroppedBytes = of{ruleDropped, "bytes", "byte", "the packets that did not leave whole had %v."}
	ofDiscards     = of{ruleInterface, "discards", "packet", "the taps saw %v arrive that did not leave whole."}
	ofOutPackets   = of{ruleInterface, "packets-out", "packet", "the taps saw %v leave by that port."}
	ofInPackets    = of{ruleInterface, "packets-in", "packet", "the taps saw %v arrive at that port."}
)

func causeConservation(m miscount) cause.Cause {
	return m.of(ruleConservation, "other-sum", "TX_TRIM and DROPPED_TRIM of that queue add up to %v.")
}

func causePortSum(m miscount) cause.Cause {
	return m.of(rulePortSum, "other-sum", "the counters of its queues add up to %v.")
}

func causeSwitchSum(m miscount) cause.Cause {
	return m.of(ruleSwitchSum, "other-sum", "the counters of its ports add up to %v.")
}

func causeDroppedTrimmed(m miscount) cause.Cause {
	return m.of(ruleDropped, "less-than-trimmed", "it should have been %v.")
}

func causeOctets(m miscount, framed span, paused bool) cause.Cause {
	if paused {
		return m.of(ruleOctets, "beside-pauses",
			"the packets that the taps saw have %v, or %v with the FCS, and each pause frame adds 60 or 64.",
			cause.Name(framed.String()))
	}
	return m.of(ruleOctets, "other-number", "the packets that the taps saw have %v, or %v with the FCS.",
		cause.Name(framed.String()))
}

func causeMixedFCS(who cause.Switch, kind, bare, withFCS string) cause.Cause {
	return cause.Of(ruleOctets, "mixed", "%v counted octets of %v without the FCS in %v, but with it in %v.", who,
		cause.Name(kind), cause.Name(bare), cause.Name(withFCS))
}

func causeOtherQueues(who cause.Switch, c *sai.Port) cause.Cause {
	return cause.Of(ruleOriginal, "other-queues",
		"%v counted the copies of port %v on other queues than their packets were meant for: TX_TRIM by queue is %v.", who,
		cause.Name(c.Name), cause.Name(fmt.Sprint(sentByQueue(c))))
}

func causeUntrimmed(who cause.Switch, where string, missing int64, c *sai.Queue) cause.Cause {
	return cause.Of(ruleUntrimmed, "dropped-whole",
		"%v dropped packets of %v without trimming them: %v never left, but its counter of trimmed packets was %v.", who,
		cause.Name(where), packets(missing), cause.Name(c.Trim.String()))
}

func causeSilent(who cause.Switch, where string, missing int64, c *sai.Queue) cause.Cause {
	return cause.Of(ruleSilent, "not-counted",
		"%v lost packets of %v without counting them: %v never left, and DROPPED_TRIM is %v.", who, cause.Name(where),
		packets(missing), cause.Name(c.DroppedTrim.String()))
}

func counterExamples() []cause.Cause {
	const in = "port Ethernet0 queue 1"
	is := func(n, where, counter string) miscount { return miscount{where: where, counter: counter, is: n} }
	exactly := func(n int64) span { return span{n, n} }
	saw := func(of of, n, where, counter string, s span) cause.Cause {
		m := is(n, where, counter)
		m.want = seen{s, of.noun}
		return of.cause(m)
	}
	want := func(m miscount, w string) miscount {
		m.want = cause.Name(w)
		return m
	}
	bytes := func(m miscount, n int64) miscount {
		m.want = seen{exactly(n), "byte"}
		return m
	}
	queues := &sai.Port{Name: "Ethernet0", Queues: make([]sai.Queue, 8)}
	queues.Queues[6].TxTrim = 1
	return []cause.Cause{
		causeSilent("", in, 1, &sai.Queue{}),
		causeUntrimmed("", in, 1, &sai.Queue{Trim: 1}),
		causeConservation(want(is("2", in, "SAI_QUEUE_STAT_TRIM_PACKETS"), "1")),
		saw(ofTrim, "1", in, "SAI_QUEUE_STAT_TRIM_PACKETS", exactly(2)),
		saw(ofSent, "0", in, "SAI_QUEUE_STAT_TX_TRIM_PACKETS", exactly(1)),
		saw(ofLost, "2", in, "SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS", exactly(1)),
		saw(ofDropped, "1", in, "SAI_QUEUE_STAT_DROPPED_PACKETS", exactly(2)),
		saw(ofDroppedBytes, "2999", in, "SAI_QUEUE_STAT_DROPPED_BYTES", exactly(3000)),
		causeDroppedTrimmed(want(is("1", in, "SAI_QUEUE_STAT_DROPPED_PACKETS"), "at least 2, the packets trimmed")),
		causeOtherQueues("", queues),
		causePortSum(want(is("3", "port Ethernet0", "SAI_PORT_STAT_TRIM_PACKETS"), "2")),
		causeSwitchSum(want(is("3", "switch", "SAI_SWITCH_STAT_TX_TRIM_PACKETS"), "1")),
		saw(ofDiscards, "1", "port Ethernet0", "SAI_PORT_STAT_IF_OUT_DISCARDS", span{2, 3}),
		saw(ofOutPackets, "3", "port Ethernet0", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", span{1, 2}),
		saw(ofInPackets, "2", "port Ethernet1", "SAI_PORT_STAT_IF_IN_UCAST_PKTS", exactly(3)),
		saw(ofQueueSent, "2", in, "SAI_QUEUE_STAT_PACKETS", exactly(1)),
		causeOctets(bytes(is("112", "ACL entry r", "SAI_ACL_COUNTER_ATTR_BYTES"), 100), exactly(104), false),
		causeOctets(bytes(is("136", "port Ethernet0", "SAI_PORT_STAT_IF_OUT_OCTETS"), 100), exactly(104), true),
		causeMixedFCS("", "ports", "port Ethernet1: SAI_PORT_STAT_IF_IN_OCTETS",
			"port Ethernet0: SAI_PORT_STAT_IF_OUT_OCTETS"),
		saw(ofACL, "2", "ACL entry host", "SAI_ACL_COUNTER_ATTR_PACKETS", exactly(0)),
		causeNoCounters(""),
		causeOtherPorts("", 1, 2),
		causeUndrained(""),
		causeUnknownEgress("", 1),
		causeUnclear("", "Ethernet0"),
	}
}
