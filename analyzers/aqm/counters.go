package aqm

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// tally is what a queue should have counted.
type tally struct {
	aqm.Group
	remarked uint64 // packets that came with a mark: another one does not show
}

// count counts what the counters of a switch should count.
func (d *device) count(t *trace.SwitchTap, a *arrival) {
	if a.fate == elsewhere || a.fate == withdrawn {
		return
	}
	for len(d.counted) <= t.Port {
		d.counted = append(d.counted, nil)
	}
	for len(d.counted[t.Port]) <= t.Queue {
		d.counted[t.Port] = append(d.counted[t.Port], tally{})
	}
	g := &d.counted[t.Port][t.Queue]
	switch a.fate {
	case left:
		g.TxPackets++
		g.TxBytes += uint64(a.size)
		if a.marked {
			g.MarkedPackets++
		}
		if a.congested {
			g.remarked++
		}
	case early:
		g.EarlyPackets++
		g.EarlyBytes += uint64(a.size)
		g.DroppedPackets++
	case tail:
		g.DroppedPackets++
	case unknown, inside, withdrawn, elsewhere:
	}
}

// compareCounters compares the counters of a switch with what the taps saw since it started.
func (d *device) compareCounters(now clock.Time) {
	if d.out {
		return
	}
	snapshot, err := d.judge.view.Counters(d.number)
	if err != nil {
		d.note(now, "its counters", err.Error())
		return
	}
	waiting := uint64(0) // that may have been marked
	for _, a := range d.inside {
		if a.capable {
			waiting++
		}
	}
	for port, groups := range snapshot.(aqm.Counters).Ports {
		for queue := range groups {
			own := tally{}
			if port < len(d.counted) && queue < len(d.counted[port]) {
				own = d.counted[port][queue]
			}
			d.compareGroup(now, place{d.who, port, queue, 0}, &groups[queue], &own, waiting)
		}
	}
}

func (d *device) compareGroup(now clock.Time, p place, claimed *aqm.Group, own *tally, waiting uint64) {
	differs := func(name string, got, want uint64) {
		if got != want && d.judge.report.Wants(ruleCounters, 0) {
			c := counted(p, name, got, want)
			d.judge.report.Tell(c, analyzers.Finding{TimeNS: now.Nanoseconds(), Message: c.Sentence()})
		}
	}
	want := own.Wrapped(d.set)
	differs("packets sent", claimed.TxPackets, want.TxPackets)
	differs("bytes sent", claimed.TxBytes, want.TxBytes)
	differs("early drops", claimed.EarlyPackets, want.EarlyPackets)
	differs("bytes dropped early", claimed.EarlyBytes, want.EarlyBytes)
	differs("drops", claimed.DroppedPackets, want.DroppedPackets)
	if claimed.DroppedPackets < claimed.EarlyPackets && want.DroppedPackets == own.DroppedPackets {
		differs("drops, fewer than early ones", claimed.DroppedPackets, claimed.EarlyPackets)
	}
	if d.set.OtherMarks || d.set.Scheme == aqm.TailDrop {
		return
	}
	// Packets that wait are marked and not seen so yet, and marks of packets that came with one do not show.
	hidden := own.remarked + waiting
	switch more := d.set.Wrapped(claimed.MarkedPackets - own.MarkedPackets); {
	case more <= hidden:
	case claimed.MarkedPackets > want.MarkedPackets:
		differs("marked packets, more than there can be", claimed.MarkedPackets, d.set.Wrapped(own.MarkedPackets+hidden))
	default:
		differs("marked packets", claimed.MarkedPackets, want.MarkedPackets)
	}
}

// endState completes what is measured of a switch until it stops or the run ends.
func (d *device) endState() {
	for i, e := range d.ports {
		for j, q := range e.queues {
			if h := &q.hungry; h.longestServe >= longHunger && d.judge.report.Wants(ruleStarved, 0) {
				c := starved(place{d.who, i, j, 0}, h.longestServe, duration(h.longest))
				d.judge.report.Tell(c, analyzers.Finding{TimeNS: d.began.Nanoseconds(), Message: c.Sentence()})
			}
			if s := &q.share; q.fair != nil && s.miceHit >= 10 && s.mice > 0 && s.elephants > 0 {
				mice, elephants := float64(s.miceHit)/float64(s.mice), float64(s.elephantsHit)/float64(s.elephants)
				if 2*mice >= elephants && d.judge.report.Wants(ruleFlowAware, 0) {
					c := flowBlind(place{d.who, i, j, 0}, mice, elephants)
					d.judge.report.Tell(c, analyzers.Finding{TimeNS: d.began.Nanoseconds(), Message: c.Sentence()})
				}
			}
		}
	}
	d.judge.measures.end(d)
}

// finish ends the judgement of a switch.
func (d *device) finish() {
	for !d.overrun && d.presume() { // packets that wait at the end
	}
	if !d.overrun {
		d.compareCounters(d.began)
	}
	d.endState()
}
