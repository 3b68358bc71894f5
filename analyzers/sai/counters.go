package sai

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/sai"
)

// judgeCounters compares the switch's counters with what was seen, and with each other.
func (a *Analyzer) judgeCounters(s sai.Snapshot) {
	if s.Schema == "" {
		a.note(causeNoCounters(a.who()), "no counters were given: only packets were judged")
		return
	}
	if len(s.Ports) != len(a.ports) {
		a.note(causeOtherPorts(a.who(), len(s.Ports), len(a.ports)),
			fmt.Sprintf("counters of %d ports, observations of %d: counters not judged", len(s.Ports), len(a.ports)))
		return
	}
	if a.config.Undrained {
		a.note(causeUndrained(a.who()), "the switch may not have drained: counters and losses not judged")
		return
	}
	if a.unattributed > 0 {
		a.note(causeUnknownEgress(a.who(), a.unattributed),
			fmt.Sprintf("%d packets were lost on their way to an unknown egress port: counters of losses not judged",
				a.unattributed))
	}
	for _, b := range s.Invariants() {
		if b.Rule == "conservation" && a.explainedByFlush(&s, &b) {
			continue
		}
		build := map[string]func(miscount) cause.Cause{
			"conservation": causeConservation, "port-sum": causePortSum, "switch-sum": causeSwitchSum,
			"dropped": causeDroppedTrimmed,
		}[b.Rule]
		where := place(b.Port, b.Queue)
		why := build(miscount{a.who(), where, b.Counter, b.Actual, cause.Name(b.Expected)})
		a.blame(why, where, b.Counter, b.Expected, b.Actual)
	}
	for i := range s.Ports {
		a.judgePort(i, &s.Ports[i])
	}
	a.judgeACL(s.ACL)
	a.judgeOctets(&s)
}

// explainedByFlush reports whether the trimmed packets of a queue that were neither sent nor counted as lost are the
// copies that a failed link lost in the trim queue. The proposal has DROPPED_TRIM count copies that the trim queue does
// not admit, and says nothing of admitted ones that are lost later: a switch counts all of these or none.
func (a *Analyzer) explainedByFlush(s *sai.Snapshot, b *sai.Broken) bool {
	for i := range s.Ports {
		if s.Ports[i].Name == b.Port && b.Queue >= 0 && b.Queue < queues {
			at, c := &a.ports[i].queues[b.Queue], &s.Ports[i].Queues[b.Queue]
			uncounted := int64(c.Trim) - int64(c.TxTrim) - int64(c.DroppedTrim)
			return uncounted > 0 && uncounted >= at.flushed && uncounted <= at.flushed+at.maybeFlushed
		}
	}
	return false
}

func place(port string, queue int) string {
	switch {
	case port == "":
		return "switch"
	case queue < 0:
		return "port " + port
	}
	return fmt.Sprintf("port %s queue %d", port, queue)
}

func (a *Analyzer) note(c cause.Cause, message string) {
	if a.report.Wants(ruleNotJudged, 0) {
		a.report.Tell(c, analyzers.Finding{Message: message})
	}
}

func (a *Analyzer) blame(c cause.Cause, where, counter, expected, actual string) {
	if a.report.Wants(c.Rule, 0) {
		a.report.Tell(c, analyzers.Finding{
			Expected: counter + " " + expected, Actual: actual, Message: where + ": " + counter,
		})
	}
}

// span is what a counter may be.
type span struct{ low, high int64 }

func (s span) String() string {
	if s.low == s.high {
		return fmt.Sprint(s.low)
	}
	return fmt.Sprintf("%d to %d", s.low, s.high)
}

// within reports a counter outside of s, if the switch has it, and returns whether it did.
func (a *Analyzer) within(why of, where, counter string, c sai.Count, s span) bool {
	if !c.Known() || int64(c) >= s.low && int64(c) <= s.high {
		return false
	}
	found := why.cause(miscount{a.who(), where, counter, c.String(), seen{s, why.noun}})
	a.blame(found, where, counter, s.String(), c.String())
	return true
}

func (a *Analyzer) judgePort(i int, c *sai.Port) {
	p := &a.ports[i]
	blurred := p.blurred()
	if blurred {
		a.note(causeUnclear(a.who(), c.Name),
			"port "+c.Name+": packets that looked different with the same number were inside together: counters not "+
				"judged that depend on which was which")
	}
	misplaced := !blurred && a.misplaced(p, c)
	if misplaced {
		a.blame(causeOtherQueues(a.who(), c), "port "+c.Name, "SAI_QUEUE_STAT_TX_TRIM_PACKETS",
			"on the queues that trimmed packets were meant for",
			fmt.Sprintf("as many on other queues: %v", sentByQueue(c)))
	}
	var lost, refused, copies, ambiguous int64
	for q := range min(len(c.Queues), queues) {
		if !misplaced {
			a.judgeQueue(p, q, c)
		}
		at := &p.queues[q]
		lost += max(int64(c.Queues[q].DroppedTrim), 0)
		refused += at.copies + at.missing
		copies += at.copies
		ambiguous += at.ambiguous
	}
	where := "port " + c.Name
	if a.unattributed == 0 && !blurred {
		a.within(ofDiscards, where, "SAI_PORT_STAT_IF_OUT_DISCARDS", c.OutDiscards,
			span{refused, refused + ambiguous + lost})
	}
	most := span{p.left - copies - ambiguous, p.left}
	if blurred {
		most.low = 0
	}
	if !a.config.Closed {
		most.high = 1 << 62
	}
	a.within(ofOutPackets, where, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS", c.OutPackets, most)
	arrived := span{p.arrived, p.arrived}
	if !a.config.Closed {
		arrived.high = 1 << 62
	}
	a.within(ofInPackets, where, "SAI_PORT_STAT_IF_IN_UCAST_PKTS", c.InPackets, arrived)
}

// blurred reports whether the counts of any of the port's queues may be another's.
func (p *portState) blurred() bool {
	for q := range p.queues {
		if p.queues[q].blurred {
			return true
		}
	}
	return false
}

// misplaced reports whether a port sent as many copies as it counts, but counts them on other queues.
func (a *Analyzer) misplaced(p *portState, c *sai.Port) bool {
	var counted, seen, wrong int64
	for q := range min(len(c.Queues), queues) {
		n := int64(c.Queues[q].TxTrim)
		if n < 0 {
			return false
		}
		at := &p.queues[q]
		counted += n
		seen += at.copies
		if n > 0 && at.copies+at.ambiguous == 0 {
			wrong += n
		}
	}
	return wrong > 0 && counted == seen
}

func sentByQueue(c *sai.Port) []sai.Count {
	var list []sai.Count
	for _, q := range c.Queues {
		list = append(list, q.TxTrim)
	}
	return list
}

func (a *Analyzer) judgeQueue(p *portState, q int, c *sai.Port) {
	at, counts := &p.queues[q], &c.Queues[q]
	where := place(c.Name, q)
	if at.blurred {
		a.judgeSentBy(p, q, counts, where)
		return
	}
	a.within(ofSent, where, "SAI_QUEUE_STAT_TX_TRIM_PACKETS", counts.TxTrim, span{at.copies, at.copies + at.ambiguous})
	a.judgeSentBy(p, q, counts, where)
	if a.unattributed > 0 {
		return
	}
	a.judgeLosses(at, counts, where)
	a.judgeDropped(p, at, q, c, where)
}

// judgeLosses compares packets that never left with the counters of copies.
func (a *Analyzer) judgeLosses(at *tally, c *sai.Queue, where string) {
	lost := span{at.mustTrim, at.mustTrim + at.mayTrim}
	switch {
	case !c.DroppedTrim.Known():
		// Without the counter of lost copies, that of trimmed packets bounds them.
		a.within(ofTrim, where, "SAI_QUEUE_STAT_TRIM_PACKETS", c.Trim,
			span{at.copies, at.copies + at.ambiguous + at.missing})
		return
	case int64(c.DroppedTrim) > lost.high:
		a.within(ofLost, where, "SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS", c.DroppedTrim, lost)
	case int64(c.DroppedTrim) < lost.low && c.Trim.Known() && int64(c.Trim)-at.copies < lost.low:
		a.blame(causeUntrimmed(a.who(), where, at.mustTrim, c), where, "SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS", lost.String(),
			fmt.Sprintf("%v, while %d packets left neither whole nor trimmed and %v are counted as trimmed", c.DroppedTrim,
				at.mustTrim, c.Trim))
	case int64(c.DroppedTrim) < lost.low:
		a.blame(causeSilent(a.who(), where, at.mustTrim, c), where, "SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS", lost.String(),
			fmt.Sprintf("%v, while %d packets left neither whole nor trimmed", c.DroppedTrim, at.mustTrim))
	}
	a.within(ofTrim, where, "SAI_QUEUE_STAT_TRIM_PACKETS", c.Trim,
		span{at.copies + at.mustTrim, at.copies + at.ambiguous + at.mustTrim + at.mayTrim})
}

// judgeDropped compares originals that were not admitted with the counters of drops. Lost copies may count as drops of
// the trim queue, too: the proposal does not say, and test plans rely on it.
func (a *Analyzer) judgeDropped(p *portState, at *tally, q int, c *sai.Port, where string) {
	var lost, lostBytes int64
	if p.lostCopyTarget[q] {
		for i := range c.Queues {
			lost += max(int64(c.Queues[i].DroppedTrim), 0)
		}
		lostBytes = lost * a.largestCopy()
	}
	counts := &c.Queues[q]
	packets := span{at.copies + at.missing, at.copies + at.missing + at.ambiguous + lost}
	bytes := span{at.copiedBytes + at.missingBytes, at.copiedBytes + at.missingBytes + at.unclearBytes + lostBytes}
	if !a.within(ofDropped, where, "SAI_QUEUE_STAT_DROPPED_PACKETS", counts.DroppedPackets, packets) &&
		!bytes.framed(packets).holds(counts.DroppedBytes) {
		a.within(ofDroppedBytes, where, "SAI_QUEUE_STAT_DROPPED_BYTES", counts.DroppedBytes, bytes)
	}
}

func (a *Analyzer) largestCopy() int64 {
	var size int
	for i := range a.compiled {
		size = max(size, a.compiled[i].settings.Trimming.Size)
	}
	return int64(size)
}

// judgeSentBy compares a queue's counter of packets sent with what left by it, if the taps show the queue.
func (a *Analyzer) judgeSentBy(p *portState, q int, c *sai.Queue, where string) {
	var known int64
	for i := range p.queues {
		known += p.queues[i].sentBy
	}
	if known != p.left {
		return // from outside queues are not seen
	}
	s := span{p.queues[q].sentBy, p.queues[q].sentBy}
	if !a.config.Closed {
		s.high = 1 << 62
	}
	a.within(ofQueueSent, where, "SAI_QUEUE_STAT_PACKETS", c.Packets, s)
}

// judgeACL compares the counters of entries with the packets that match them, unless entries changed.
func (a *Analyzer) judgeACL(list []sai.ACL) {
	rules := a.compiled[0].settings.Rules
	for i := range a.compiled {
		if !equalRules(rules, a.compiled[i].settings.Rules) {
			return
		}
	}
	for i, r := range rules {
		for _, c := range list {
			if c.Rule != r.Name {
				continue
			}
			s := span{a.acl[i].packets, a.acl[i].packets}
			a.within(ofACL, "ACL entry "+r.Name, "SAI_ACL_COUNTER_ATTR_PACKETS", c.Packets, s)
		}
	}
}

func equalRules(a, b []sai.Rule) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
