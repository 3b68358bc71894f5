package aqm

import (
	"candela.dev/candela/analyzers"
)

// million is the scale of shares.
const million = 1_000_000

// measures are the distributions that the judge measures.
type measures struct{ evictions, miceShare, portBytes *analyzers.Distribution }

func newMeasures() measures {
	return measures{
		evictions: analyzers.NewDistribution("aqm.evictions", analyzers.UnitCount, 0),
		miceShare: analyzers.NewDistribution("aqm.mice-share", analyzers.UnitCount, 0),
		portBytes: analyzers.NewDistribution("aqm.port-bytes", analyzers.UnitBytes, 0),
	}
}

func (m *measures) metrics() []analyzers.Metric {
	return []analyzers.Metric{m.evictions.Metric(), m.miceShare.Metric(), m.portBytes.Metric()}
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
			if q.share.bytes > 0 {
				m.miceShare.Record(q.share.miceBytes * million / q.share.bytes)
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
