package sai

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/sai"
)

// ECN code points.
const (
	notECT = 0
	ce     = 3
)

// checkWhole judges a packet that left with the length and DSCP with which it arrived.
func (a *Analyzer) checkWhole(e *entry, o *sai.Observation) {
	if o.Length != e.Length {
		a.violate(causeWholeLength(a.what(e, o)), o, e, fmt.Sprintf("%d bytes", e.Length), fmt.Sprintf("%d bytes", o.Length))
	}
	own := func(t *compiled) bool { return t.settings.QueueOf(int(e.DSCP)) == o.Queue }
	if o.Queue != sai.UnknownQueue && !a.expects(e, own) {
		a.violate(causeWholeQueue(a.what(e, o)), o, e, fmt.Sprintf("queue %d", e.queue), fmt.Sprintf("queue %d", o.Queue))
	}
}

// checkCopy judges a packet that left shorter than it came, or with another DSCP.
func (a *Analyzer) checkCopy(e *entry, o *sai.Observation, mixed bool) {
	runt := a.runt(e)
	if o.Length == e.Length && !runt {
		a.checkRemarked(e, o)
		return
	}
	a.checkEligible(e, o)
	// It may be a different packet with the same signature; what depends on its arrival time is not judged then.
	if !mixed {
		a.checkOrder(e, o)
		a.checkRoom(e, o)
	}
	a.checkSize(e, o, runt)
	a.checkDSCP(e, o)
	a.checkIP(e, o)
	a.checkHeaders(e, o)
}

func (a *Analyzer) countCopy(e *entry, o *sai.Observation, mixed bool) {
	a.coverage["copy"]++
	if o.Src.Is4() {
		a.coverage["copy-ipv4"]++
	} else {
		a.coverage["copy-ipv6"]++
	}
	t := &a.compiled[e.settings].settings.Trimming
	if t.DSCPMode == sai.FromTC {
		a.coverage["from-tc"]++
	}
	if t.QueueMode == sai.Dynamic {
		a.coverage["dynamic-queue"]++
	}
	if e.Length <= t.Size {
		a.coverage["runt"]++
	}
	if !mixed {
		a.latency.Record((o.TimePS - e.TimePS) / 1000)
	}
	a.trimmed.Record(int64(o.Length))
}

// runt reports whether a packet is too short to be cut under one of the settings that it may have met.
func (a *Analyzer) runt(e *entry) bool {
	return e.Length <= a.compiled[e.settings].settings.Trimming.Size ||
		e.Length <= a.compiled[e.other].settings.Trimming.Size
}

// checkRemarked judges a long packet that left whole with another DSCP: either it was not cut, or its DSCP was changed.
func (a *Analyzer) checkRemarked(e *entry, o *sai.Observation) {
	if a.expects(e, func(t *compiled) bool { return t.dscp[o.Port] == int(o.DSCP) }) {
		size := a.compiled[e.settings].settings.Trimming.Size
		a.violate(causeNotCut(a.what(e, o), size), o, e, fmt.Sprintf("%d bytes", size),
			fmt.Sprintf("%d bytes with the trim DSCP %d", o.Length, o.DSCP))
		return
	}
	if o.DSCP == e.DSCP {
		a.violate(causeWholeQueue(a.what(e, o)), o, e, fmt.Sprintf("queue %d", e.queue), fmt.Sprintf("queue %d", o.Queue))
		return
	}
	a.violate(causeWholeDSCP(a.what(e, o)), o, e, fmt.Sprintf("DSCP %d", e.DSCP), fmt.Sprintf("DSCP %d", o.DSCP))
}

// expects reports whether something holds under one of the settings that the packet may have met.
func (a *Analyzer) expects(e *entry, holds func(*compiled) bool) bool {
	return holds(&a.compiled[e.settings]) || e.other != e.settings && holds(&a.compiled[e.other])
}

func (a *Analyzer) checkSize(e *entry, o *sai.Observation, runt bool) {
	right := func(t *compiled) bool { return o.Length == min(e.Length, t.settings.Trimming.Size) }
	if a.expects(e, right) {
		return
	}
	want := min(e.Length, a.compiled[e.settings].settings.Trimming.Size)
	why := causeSize(a.what(e, o), want)
	if runt {
		why = causeRunt(a.what(e, o))
	}
	a.violate(why, o, e, fmt.Sprintf("%d bytes", want), fmt.Sprintf("%d bytes", o.Length))
}

func (a *Analyzer) checkDSCP(e *entry, o *sai.Observation) {
	if !a.expects(e, func(t *compiled) bool { return t.dscp[o.Port] == int(o.DSCP) }) {
		a.violate(causeDSCP(a.what(e, o), a.compiled[e.settings].dscp[o.Port]), o, e,
			fmt.Sprintf("DSCP %d on port %s", a.compiled[e.settings].dscp[o.Port],
				a.config.Ports[o.Port]),
			fmt.Sprintf("DSCP %d", o.DSCP))
	}
	if o.Queue == sai.UnknownQueue {
		return
	}
	if !a.expects(e, func(t *compiled) bool { return t.queue[o.Port] == o.Queue }) {
		a.violate(causeQueue(a.what(e, o), a.compiled[e.settings].queue[o.Port]), o, e,
			fmt.Sprintf("queue %d", a.compiled[e.settings].queue[o.Port]),
			fmt.Sprintf("queue %d", o.Queue))
	}
}

func (a *Analyzer) checkIP(e *entry, o *sai.Observation) {
	if want := o.Length - sai.EthernetHeader; o.IPLength != want {
		a.violate(causeIPLength(a.what(e, o), want), o, e, fmt.Sprintf("%d", want),
			fmt.Sprintf("%d in a frame of %d bytes", o.IPLength, o.Length))
	}
	if o.ChecksumWrong {
		a.violate(causeChecksum(a.what(e, o)), o, e, "a header checksum that fits the header", "one that does not")
	}
}

func (a *Analyzer) checkHeaders(e *entry, o *sai.Observation) {
	if o.Src == e.Dst && o.Dst == e.Src && o.Src != o.Dst {
		a.violate(causeReturned(a.what(e, o)), o, e, fmt.Sprintf("to %v", e.Dst), "back to the sender")
		return
	}
	ttl := o.TTL == e.TTL || o.TTL == e.TTL-1
	ecn := o.ECN == e.ECN || o.ECN == ce && e.ECN != notECT
	switch {
	case o.Src != e.Src || o.Dst != e.Dst:
		a.violate(causeAddresses(a.what(e, o)), o, e, fmt.Sprintf("%v → %v", e.Src, e.Dst),
			fmt.Sprintf("%v → %v", o.Src, o.Dst))
	case o.SrcPort != e.SrcPort || o.DstPort != e.DstPort || o.Protocol != e.Protocol:
		a.violate(causePorts(a.what(e, o)), o, e, fmt.Sprintf("protocol %d, ports %d → %d", e.Protocol, e.SrcPort, e.DstPort),
			fmt.Sprintf("protocol %d, ports %d → %d", o.Protocol, o.SrcPort, o.DstPort))
	case !ttl:
		a.violate(causeTTL(a.what(e, o)), o, e, fmt.Sprintf("TTL %d or %d", e.TTL, e.TTL-1), fmt.Sprintf("TTL %d", o.TTL))
	case !ecn:
		a.violate(causeECN(a.what(e, o)), o, e, fmt.Sprintf("ECN %d", e.ECN), fmt.Sprintf("ECN %d", o.ECN))
	case o.Prefix != 0 && e.Prefix != 0 && o.Prefix != e.Prefix:
		a.violate(causeBytes(a.what(e, o)), o, e, "the packet's first bytes", "other bytes")
	}
}

// checkEligible judges whether the packet may have been trimmed at all.
func (a *Analyzer) checkEligible(e *entry, o *sai.Observation) {
	if a.mayTrim(e, e.settings, o.Port) || a.mayTrim(e, e.other, o.Port) {
		return
	}
	p := &a.compiled[e.settings].profiles[o.Port][e.queue]
	where := fmt.Sprintf("queue %d of port %s", e.queue, a.config.Ports[o.Port])
	switch {
	case p.Lossless:
		a.violate(causeLossless(a.what(e, o)), o, e, "no trimming: "+where+" is lossless", "a copy")
	case p.Action != sai.DropAndTrim:
		a.violate(causeAction(a.what(e, o)), o, e, "no trimming: "+where+" has the action DROP", "a copy")
	default:
		if !a.trying {
			a.coverage["exempt"]++
		}
		a.violate(causeACL(a.what(e, o), a.compiled[e.settings].settings.Rules[e.rule].Name), o, e,
			"no trimming: an ACL entry disables it for this packet", "a copy")
	}
}

// roomSlack bounds the bytes of packets that have begun to leave a queue.
const roomSlack = 10_000

// checkRoom judges whether a packet was trimmed although its queue held at most half of its limit. The queue held at
// most what had arrived and not left; queues that also hold copies are not judged.
func (a *Analyzer) checkRoom(e *entry, o *sai.Observation) {
	pool := int64(a.config.PoolBytes)
	if pool == 0 || e.out != o.Port || e.settings != e.other || a.ports[o.Port].lostCopyTarget[e.queue] {
		return
	}
	length := int64(e.Length)
	need := func(held int64) int64 { return 2*(held+length) + roomSlack }
	p := &a.compiled[e.settings].profiles[o.Port][e.queue]
	limit := pool
	if p.Limit > 0 {
		limit = min(limit, int64(p.Limit))
	}
	if p.Alpha > 0 {
		limit = min(limit, int64(p.Alpha*float64(pool-e.around-length)))
	}
	if need(e.around) > pool || need(e.ahead) > max(limit, int64(p.Reserved)) {
		return
	}
	a.violate(causeRoom(a.what(e, o), limit), o, e,
		fmt.Sprintf("the packet whole: queue %d of port %s held at most %d of %d bytes", e.queue,
			a.config.Ports[o.Port], e.ahead, limit), "a copy")
}

// checkOrder judges when a copy left.
func (a *Analyzer) checkOrder(e *entry, o *sai.Observation) {
	t := &a.compiled[e.settings]
	queue := t.queue[o.Port]
	key := orderKey{e.Port, o.Port, queue}
	if last, ok := a.order[key]; ok && e.TimePS < last && e.settings == e.other {
		a.violate(causeOrder(a.what(e, o), last-e.TimePS), o, e, "after the copies of packets that arrived before",
			fmt.Sprintf("after that of a packet that arrived %s later", clock.Duration(last-e.TimePS).Text()))
	}
	a.order[key] = max(a.order[key], e.TimePS)
	if a.config.Strict && queue < queues && !a.ports[o.Port].shaped[queue] {
		a.checkOvertaken(e, o, queue)
	}
}

// checkOvertaken looks for packets of lower queues that left while the copy waited.
func (a *Analyzer) checkOvertaken(e *entry, o *sai.Observation, queue int) {
	p := &a.ports[o.Port]
	since := e.TimePS + a.config.ReactionPS
	for q := range min(queue, queues) {
		for _, at := range p.lower[q] {
			if at > since && at < o.TimePS {
				left, late := clock.TextApart(clock.Duration(at), clock.Duration(o.TimePS))
				a.violate(causeOvertake(a.what(e, o), q, at), o, e,
					fmt.Sprintf("before anything of queue %d that is sent after %s", q,
						clock.Duration(since).Text()), fmt.Sprintf("a packet of queue %d left at %s, the copy at %s", q, left, late))
				return
			}
		}
	}
}
