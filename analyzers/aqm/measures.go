package aqm

import (
	"math"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
)

// million is the scale of shares.
const million = 1_000_000

// measures are the distributions that the judge measures.
type measures struct{ evictions, miceShare, portBytes, fairness *analyzers.Distribution }

func newMeasures() measures {
	return measures{
		evictions: analyzers.NewDistribution("aqm.evictions", analyzers.UnitCount, 0),
		miceShare: analyzers.NewDistribution("aqm.mice-share", analyzers.UnitPPM, 0),
		portBytes: analyzers.NewDistribution("aqm.port-bytes", analyzers.UnitBytes, 0),
		fairness:  analyzers.NewDistribution("aqm.fairness", analyzers.UnitPPM, 0),
	}
}

func (m *measures) metrics() []analyzers.Metric {
	return []analyzers.Metric{m.evictions.Metric(), m.miceShare.Metric(), m.portBytes.Metric(),
		m.fairness.Metric()}
}

// miceShare compares mice with elephants at a queue.
type miceShare struct {
	mice, miceHit, elephants, elephantsHit int64 // packets
	bytes, miceBytes                       int64
}

// arrived takes a packet of a flow that ETRAP tracks; nil: it does not.
func (s *miceShare) arrived(a *arrival, f *trapped) {
	s.bytes += a.size
	if f == nil || !f.elephant {
		s.miceBytes += a.size
	}
}

// end measures what a switch did until it stopped or the run ended.
func (m *measures) end(d *device) {
	for _, e := range d.ports {
		if e.most > 0 {
			m.portBytes.Record(e.most)
		}
		for _, q := range e.queues {
			if q.share.elephants > 0 {
				m.miceShare.Record(q.share.miceBytes * million / q.share.bytes)
			}
			if index, ok := q.demand.jain(); ok {
				m.fairness.Record(int64(index*million + 0.5))
			}
		}
	}
	for i, t := range d.traps {
		if t == nil || i > 0 && t == d.traps[0] {
			continue
		}
		for _, f := range t.flows { // a distribution has no order but that of its first values
			if f.promotions > 0 {
				t.gone = append(t.gone, f.evicted)
			}
		}
		t.record(m.evictions)
	}
}

// record adds how often each elephant became a mouse again.
func (t *trap) record(to *analyzers.Distribution) {
	counts := make(map[int64]int)
	most := int64(0)
	for _, n := range t.gone {
		counts[n]++
		most = max(most, n)
	}
	for n := range most + 1 {
		for range counts[n] {
			to.Record(n)
		}
	}
}

// hunger is how long a queue of data waits for mice.
type hunger struct {
	since        clock.Time // 0 packets: it does not wait
	packets      int        // of mice, since then
	longest      clock.Duration
	longestServe int
}

// longHunger is how many packets of mice a queue waits for before it is reported; a choice.
const longHunger = 1000

// starve takes that a packet leaves one of the queues of a port.
func (e *egress) starve(now clock.Time, served int, mice bool) {
	for i, q := range e.queues[:len(e.queues)-1] {
		h := &q.hungry
		switch {
		case !mice && i == served || q.held == 0:
			*h = hunger{longest: h.longest, longestServe: h.longestServe}
		case mice:
			if h.packets == 0 {
				h.since = now
			}
			if h.packets++; h.packets > h.longestServe {
				h.longestServe, h.longest = h.packets, now.Sub(h.since)
			}
		}
	}
}

// demand is what a queue took of elephants, in the order of their first packets.
type demand struct {
	flows map[flowKey]*elephantShare
	list  []*elephantShare
}

// elephantShare is what a queue took of a flow while it was an elephant.
type elephantShare struct {
	bytes          int64
	packets, above int // above: those that came while the flow exceeded the fair rate
	first, last    clock.Time
}

// sees takes a packet of an elephant that was to be selected with probability d.
func (w *demand) sees(a *arrival, d float64) {
	f := w.flows[a.key]
	if f == nil {
		if w.flows == nil {
			w.flows = make(map[flowKey]*elephantShare)
		}
		f = &elephantShare{first: a.at}
		w.flows[a.key] = f
		w.list = append(w.list, f)
	}
	f.last = a.at
	f.packets++
	if d > 0 {
		f.above++
	}
	if a.fate != early && a.fate != tail {
		f.bytes += a.size
	}
}

// jain returns Jain's index of the rates of backlogged elephants: those that exceeded the fair rate with a quarter of
// their packets or more, as TCP's sawtooth does around it. Flows that want less than their share say nothing about
// fairness, nor does the rate of a burst: an elephant counts if it was one for half as long as the longest of them, or
// longer. false: there are fewer than two.
func (w *demand) jain() (float64, bool) {
	longest := clock.Duration(0)
	for _, f := range w.list {
		if f.backlogged() {
			longest = max(longest, f.last.Sub(f.first))
		}
	}
	var rates []float64
	for _, f := range w.list {
		if span := f.last.Sub(f.first); f.backlogged() && span > 0 && 2*span >= longest {
			rates = append(rates, bitsPerSecond(f.bytes, span))
		}
	}
	index := waterfill.Jain(rates)
	return index, len(rates) > 1 && !math.IsNaN(index)
}

func (f *elephantShare) backlogged() bool { return 4*f.above >= f.packets }
