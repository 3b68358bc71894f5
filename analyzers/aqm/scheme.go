package aqm

import (
	"fmt"
	"math"

	"candela.dev/candela/aqm"
)

// Values of decision records, in the order in which the family declares them.
const (
	valueBytes = iota
	valueElephant
	valueRate
	valueFair
	valueProbability
	valueIndex
	valueMean
	valuePort
)

// Kinds of decision records, of the same family.
const (
	kindQueued = iota
	kindMarked
	kindEarly
	kindTail
)

// Causes of decision records, of the same family.
const (
	causeMouse = 1
	causeRate  = 2
)

// claimed returns what the switch claims about a packet; −1: it keeps no records.
func (d *device) claimed(a *arrival, value int) int64 {
	if a.claim == nil {
		return -1
	}
	return a.claim.Values[value]
}

// judgeRecord judges whether a record says what became of its packet. What still waits may yet be lost, and a mark that
// the packet came with hides one.
func (d *device) judgeRecord(a *arrival) {
	if a.claim == nil {
		return
	}
	right := true
	switch kind := a.claim.Kind; a.fate {
	case early:
		right = kind == kindEarly
	case tail:
		right = kind == kindTail
	case left:
		right = kind == kindQueued && (!a.marked || d.set.OtherMarks) || kind == kindMarked && (a.marked || a.congested)
	case withdrawn, inside:
		right = kind == kindQueued || kind == kindMarked
	case unknown, elsewhere:
	}
	if !right {
		d.tell(a, otherFate(d.place(a), a.claim.Kind, a.fate, a.marked))
	}
}

// near reports whether a claim, which is rounded, is a computed value.
func near(claim int64, value float64) bool {
	return math.Abs(float64(claim)-value) <= 1+1e-9*math.Abs(value)
}

// judgeTrap compares what the switch claims about the flow of a packet.
func (d *device) judgeTrap(a *arrival, f *trapped) {
	if a.claim == nil || d.set.Scheme != aqm.AFD {
		return
	}
	none := trapped{}
	if f == nil {
		f = &none
	}
	switch elephant := d.claimed(a, valueElephant) != 0; {
	case elephant != f.elephant:
		d.tell(a, claimedElephant(d.place(a), f.elephant, f.total))
	case d.claimed(a, valueBytes) != f.total:
		d.tell(a, claimedBytes(d.place(a), d.claimed(a, valueBytes), f.total))
	case !near(d.claimed(a, valueRate), f.rate):
		d.tell(a, claimedRate(d.place(a), d.claimed(a, valueRate), f.rate))
		d.judgeConstant(a, f, d.claimed(a, valueRate))
	}
}

// judgeScheme judges whether a packet was dropped early or marked as the scheme of its queue has it.
func (d *device) judgeScheme(a *arrival, q *queue, f *trapped) {
	selected := a.fate == early || a.marked && !d.set.OtherMarks
	p := d.place(a)
	if a.marked && !a.capable { // whatever marks, RFC 3168 forbids it
		d.tell(a, markedIncapable(p))
		return
	}
	if q.policy.Off || a.lossless {
		if selected {
			d.tell(a, schemeOff(p, a.marked))
		}
		return
	}
	switch {
	case d.set.Scheme == aqm.Threshold:
		d.judgeThreshold(a, q)
		return
	case a.fate == early && q.policy.ECN && a.capable:
		d.tell(a, droppedCapable(p))
	case a.marked && !q.policy.ECN && !d.set.OtherMarks:
		d.tell(a, markedWithout(p))
		return
	}
	if d.set.Scheme == aqm.RED {
		d.judgeMean(a, q, selected)
		return
	}
	d.judgeFair(a, q, f, selected)
}

// judgeFair judges AFD's decision.
func (d *device) judgeFair(a *arrival, q *queue, f *trapped, selected bool) {
	p := d.place(a)
	if claim := d.claimed(a, valueFair); claim >= 0 && !q.fair.claims(claim) {
		d.tell(a, claimedFair(p, claim, q.fair.rate))
	}
	elephant, because := f != nil && f.elephant, uint8(causeMouse)
	if elephant {
		because = causeRate
	}
	if a.claim != nil && a.claim.Cause != because {
		d.tell(a, claimedElephant(p, elephant, f.bytes()))
	}
	if !elephant {
		q.share.mice++
		if selected {
			q.share.miceHit++
			d.tell(a, mouseSelected(p, a.marked, f.bytes()))
		}
		d.judgeClaim(a, 0)
		return
	}
	q.share.elephants++
	if selected {
		q.share.elephantsHit++
	}
	probability := q.fair.probability(f.rate, q.held)
	q.demand.sees(a, probability)
	d.judgeShares(a, q, probability, selected)
	d.judgeClaim(a, probability)
	switch {
	case probability > 0:
		d.judgeDraw(a, q, probability, selected)
	case selected && q.fair.exceeds(f.rate):
		d.tell(a, belowFair(p, a.marked, f.rate, q.fair.rate))
	case selected && f.rate > q.fair.rate*(1+1e-9):
		d.tell(a, emptyQueue(p, a.marked))
	}
}

// judgeClaim compares what the switch claims of the probability of a packet.
func (d *device) judgeClaim(a *arrival, probability float64) {
	if claim := d.claimed(a, valueProbability); claim >= 0 && math.Abs(float64(claim)/1e9-probability) > 1e-6 {
		d.tell(a, claimedProbability(d.place(a), float64(claim)/1e9, probability))
	}
}

// judgeDraw judges a packet that is selected with a probability above 0.
func (d *device) judgeDraw(a *arrival, q *queue, probability float64, selected bool) {
	if d.hidden(a, q) {
		return
	}
	if probability >= 1 {
		if !selected {
			d.tell(a, certain(d.place(a), probability))
		}
		return
	}
	d.judge.coverage["draws"]++
	if q.all.See(probability, selected) {
		d.tell(a, wrongShare(d.place(a), "of all flows", q.all.Selected, q.all.Seen, q.all.Expected))
	}
	w := q.flows[a.key]
	if w == nil {
		w = d.judge.wagers.Next()
		q.flows[a.key] = w
	}
	if q.twins.See(w.Seen, probability, selected) {
		d.tell(a, equalDraws(d.place(a), "flows", q.twins.Alike))
	}
	if d.twins.See(q.all.Seen-1, probability, selected) {
		d.tell(a, equalDraws(d.place(a), "queues", d.twins.Alike))
	}
	if w.See(probability, selected) {
		d.tell(a, wrongShare(d.place(a), fmt.Sprintf("from host %d to host %d (flow %d)", a.key.src, a.key.dst, a.key.flow),
			w.Selected, w.Seen, w.Expected))
	}
}

// hidden reports whether the fate of a packet does not show if it was selected: it would have been marked, and had a
// mark before, may have another, or has not left.
func (d *device) hidden(a *arrival, q *queue) bool {
	return q.policy.ECN && a.capable && (a.congested || d.set.OtherMarks || a.fate != left && a.fate != early)
}

// judgeMean judges RED's decision.
func (d *device) judgeMean(a *arrival, q *queue, selected bool) {
	m, p := q.mean, d.place(a)
	probability, known := m.arrive(q.held)
	if claim := d.claimed(a, valueMean); claim >= 0 && !near(claim, m.mean) {
		d.tell(a, claimedMean(p, claim, m.mean))
	}
	hidden := d.hidden(a, q)
	switch {
	case probability == 0:
		if selected && m.mean < m.low*(1-1e-9) {
			d.tell(a, meanTooLow(p, a.marked, m.mean, m.low))
		}
		return
	case m.mean > m.high:
		if !selected && !hidden && m.mean > m.high*(1+1e-9) {
			d.tell(a, meanTooHigh(p, m.mean, m.high))
		}
		m.selected()
		return
	case known:
		d.judgeClaim(a, probability)
		if !hidden {
			d.judgeDraw(a, q, probability, selected)
		}
	}
	if selected {
		m.selected()
	} else if hidden {
		m.uncertain = true
	}
}

// judgeThreshold judges marks by a threshold.
func (d *device) judgeThreshold(a *arrival, q *queue) {
	must := a.capable && q.held >= q.threshold
	switch p := d.place(a); {
	case a.fate == early:
		d.tell(a, thresholdDrop(p))
	case a.fate != left || a.congested:
	case must && !a.marked, !must && a.marked && !d.set.OtherMarks:
		d.tell(a, thresholdMark(p, a.marked, q.held, q.threshold))
	}
}
