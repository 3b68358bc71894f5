package sai

import (
	"fmt"

	"candela.dev/candela/sai"
)

// fcs is the length of a frame's check sequence. SAI's headers do not say what octets include. The counters have the
// names of those of RFC 2863; for Ethernet, RFC 3635 has these count the MAC header and the FCS. Not every switch does,
// nor all its tables.
const fcs = 4

// minFrame is the shortest frame, without FCS. Taps may see fewer bytes of one that is padded on the wire.
const minFrame = 60

// padding returns what a frame of so many bytes is filled up with.
func padding(length int) int64 { return int64(max(0, minFrame-length)) }

// framed returns the span of octets with the FCS of so many packets.
func (s span) framed(packets span) span {
	return span{s.low + fcs*packets.low, s.high + fcs*packets.high}
}

func (s span) holds(c sai.Count) bool { return int64(c) >= s.low && int64(c) <= s.high }

// octets judges the counters of one kind: all count the FCS, or none does.
type octets struct {
	a             *Analyzer
	kind          string
	bare, withFCS string // the first counter that can only be read so
	paused        bool   // pause frames, which the taps don't see, may be among them
}

// fits reports whether a counter is that of the packets that were seen and any number of pause frames of size bytes.
func (o *octets) fits(s span, c sai.Count, size int64) bool {
	if s.holds(c) || !o.paused {
		return s.holds(c)
	}
	more := int64(c) - s.low
	return more >= 0 && (s.low != s.high || more%size == 0)
}

// judge compares a counter with the packets that it has counted.
func (o *octets) judge(where, counter string, c sai.Count, packets, bytes span) {
	if !c.Known() {
		return
	}
	bare, withFCS := o.fits(bytes, c, minFrame), o.fits(bytes.framed(packets), c, minFrame+fcs)
	name := where + ": " + counter
	switch {
	case !bare && !withFCS:
		expected := fmt.Sprintf("%s, or with the FCS %s", bytes, bytes.framed(packets))
		if o.paused {
			expected += ", and pause frames"
		}
		m := miscount{o.a.who(), where, counter, c.String(), seen{bytes, "byte"}}
		o.a.blame(causeOctets(m, bytes.framed(packets), o.paused), where, counter, expected, c.String())
	case !withFCS && o.bare == "":
		o.bare = name
	case !bare && o.withFCS == "":
		o.withFCS = name
	}
}

// finish says whether the counters agree.
func (o *octets) finish() {
	if o.bare != "" && o.withFCS != "" {
		o.a.blame(causeMixedFCS(o.a.who(), o.kind, o.bare, o.withFCS), "switch", "octets of "+o.kind,
			"with the FCS in all of them or in none",
			fmt.Sprintf("without it in %s, with it in %s", o.bare, o.withFCS))
	}
}

// judgeOctets compares octets with what the taps saw.
func (a *Analyzer) judgeOctets(s *sai.Snapshot) {
	ports, queued, acl := octets{a: a, kind: "ports", paused: a.paused()}, octets{a: a, kind: "queues"},
		octets{a: a, kind: "ACL entries"}
	for i := range s.Ports {
		p, c := &a.ports[i], &s.Ports[i]
		where := "port " + c.Name
		arrived := span{p.arrivedBytes, p.arrivedBytes + p.arrivedPadding}
		ports.judge(where, "SAI_PORT_STAT_IF_IN_OCTETS", c.InOctets, a.open(span{p.arrived, p.arrived}), a.open(arrived))
		packets, bytes := p.sent(c.OutPackets)
		bytes.high += p.leftPadding
		ports.judge(where, "SAI_PORT_STAT_IF_OUT_OCTETS", c.OutOctets, a.open(packets), a.open(bytes))
		a.judgeQueueOctets(&queued, p, c)
	}
	a.judgeACLOctets(&acl, s.ACL)
	for _, o := range []*octets{&ports, &queued, &acl} {
		o.finish()
	}
}

// open lets a counter be greater where others than the watched hosts may send.
func (a *Analyzer) open(s span) span {
	if !a.config.Closed {
		s.high = 1 << 60
	}
	return s
}

func (a *Analyzer) paused() bool {
	for i := range a.compiled {
		if a.compiled[i].settings.PFC {
			return true
		}
	}
	return false
}

// sent returns how many packets and bytes left by the port as its interface statistics count. The counter of packets
// shows whether copies are included.
func (p *portState) sent(counted sai.Count) (packets, bytes span) {
	var ambiguous, unclear int64
	for q := range p.queues {
		ambiguous, unclear = ambiguous+p.queues[q].ambiguous, unclear+p.queues[q].unclearBytes
	}
	switch n := int64(counted); {
	case n == p.left:
		return span{p.left, p.left}, span{p.leftBytes, p.leftBytes}
	case p.blurred():
		return span{0, p.left}, span{0, p.leftBytes}
	case n == p.left-p.copies && ambiguous == 0:
		return span{n, n}, span{p.leftBytes - p.copyBytes, p.leftBytes - p.copyBytes}
	}
	return span{p.left - p.copies - ambiguous, p.left}, span{p.leftBytes - p.copyBytes - unclear, p.leftBytes}
}

// judgeQueueOctets judges the octets of queues, if the taps show the queue of a packet.
func (a *Analyzer) judgeQueueOctets(o *octets, p *portState, c *sai.Port) {
	var known int64
	for q := range p.queues {
		known += p.queues[q].sentBy
	}
	for q := 0; known == p.left && q < min(len(c.Queues), queues); q++ {
		at := &p.queues[q]
		o.judge(place(c.Name, q), "SAI_QUEUE_STAT_BYTES", c.Queues[q].Bytes, a.open(span{at.sentBy, at.sentBy}),
			a.open(span{at.sentBytes, at.sentBytes + at.sentPadding}))
	}
}

// judgeACLOctets judges the octets of entries, unless entries changed.
func (a *Analyzer) judgeACLOctets(o *octets, list []sai.ACL) {
	rules := a.compiled[0].settings.Rules
	for i := range a.compiled {
		if !equalRules(rules, a.compiled[i].settings.Rules) {
			return
		}
	}
	for i, r := range rules {
		for _, c := range list {
			if t := &a.acl[i]; c.Rule == r.Name {
				o.judge("ACL entry "+r.Name, "SAI_ACL_COUNTER_ATTR_BYTES", c.Bytes, span{t.packets, t.packets},
					span{t.bytes, t.bytes + t.padding})
			}
		}
	}
}
