package rank

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
)

// coursePoints bounds the points of a curve: when there are so many, every second one is dropped and the distance
// doubles.
const coursePoints = 256

// drawnPorts bounds how many ports have curves: those that served most.
const drawnPorts = 16

// course is how the gap of a port, and the greatest rank that it would admit, went over time.
type course struct {
	served, stride int64
	inversions     int64
	points         []coursePoint
}

type coursePoint struct {
	at         clock.Time
	gap        int64 // millionths
	inversions int64 // so far
	threshold  uint64
	bounded    bool // some ranks are refused
}

// departs takes a departure; it adds a point if it is time for one.
func (c *course) departs(now clock.Time, l *line) {
	c.served++
	c.stride = max(c.stride, 1)
	if c.served%c.stride != 0 {
		return
	}
	share, ok := l.gap.share()
	if !ok {
		return
	}
	if len(c.points) == coursePoints {
		for i := range coursePoints / 2 {
			c.points[i] = c.points[2*i+1]
		}
		c.points = c.points[:coursePoints/2]
		c.stride *= 2
		if c.served%c.stride != 0 {
			return
		}
	}
	p := coursePoint{at: now, gap: share, inversions: c.inversions}
	if l.r.set.Scheme == AIFO {
		p.threshold, p.bounded = l.window.threshold(l.held)
	}
	c.points = append(c.points, p)
}

// threshold returns the greatest rank that is admitted while c packets wait; false: any is.
func (w *window) threshold(c int64) (rank uint64, bounded bool) {
	filled := int64(len(w.ranks))
	if w.set.Stale {
		filled = int64(w.set.Window)
	}
	sorted := slices.Sorted(slices.Values(w.ranks))
	below := 0
	for i, r := range sorted {
		if i > 0 && r > sorted[i-1] {
			below = i
		}
		if !w.set.admits(c, int64(below), filled) {
			return rank, true
		}
		rank = r
	}
	return rank, false
}

// curves returns the courses of the ports that served most, in the order of switches and ports.
func (j *Judge) curves() (list []analyzers.Curve) {
	var lines []*line
	for _, r := range j.replays {
		for _, l := range r.ports {
			if len(l.course.points) > 1 {
				lines = append(lines, l)
			}
		}
	}
	all := slices.Clone(lines)
	slices.SortStableFunc(all, func(a, b *line) int { return cmp.Compare(b.course.served, a.course.served) })
	drawn := all[:min(len(all), drawnPorts)]
	for _, l := range lines {
		if !slices.Contains(drawn, l) {
			continue
		}
		name := fmt.Sprintf("%s.port-%d", l.r.judge.view.SwitchName(l.r.number), l.port)
		gap := analyzers.Curve{Name: name + ".rank-gap", Title: "Gap to PIFO", Unit: "share"}
		inversions := analyzers.Curve{Name: name + ".rank-inversions", Title: "Sum of inversions", Unit: "packets"}
		threshold := analyzers.Curve{Name: name + ".rank-threshold", Title: "Greatest rank admitted", Unit: "rank"}
		for _, p := range l.course.points {
			gap.Add(p.at, float64(p.gap)/ppm)
			inversions.Add(p.at, float64(p.inversions))
			if p.bounded {
				threshold.Add(p.at, float64(p.threshold))
			}
		}
		list = append(list, gap, inversions)
		if len(threshold.Values) > 1 {
			list = append(list, threshold)
		}
	}
	return list
}

// measures are what the judge measures beside the gap and inversions.
type measures struct{ course, waiting, mismatches, refused, late *analyzers.Distribution }

func newMeasures() measures {
	return measures{
		course:     analyzers.NewDistribution("rank.gap-course", analyzers.UnitPPM, 0),
		waiting:    analyzers.NewDistribution("rank.waiting", "packets", 0),
		mismatches: analyzers.NewDistribution("rank.mismatches", analyzers.UnitPPM, 0),
		refused:    analyzers.NewDistribution("rank.refused-quantile", analyzers.UnitPPM, 0),
		late:       analyzers.NewDistribution("rank.late", "packets", 0),
	}
}

func (m *measures) list() []*analyzers.Distribution {
	return []*analyzers.Distribution{m.course, m.waiting, m.mismatches, m.refused, m.late}
}

// end adds what is measured of whole ports.
func (m *measures) end(l *line) {
	for _, p := range l.course.points {
		m.course.Record(p.gap)
	}
	if l.r.set.Scheme == AIFO && l.r.set.Admission.Stale && l.decisions > 0 {
		m.mismatches.Record(l.mismatches * ppm / l.decisions)
	}
	if l.departures > 0 {
		m.late.Record(l.late)
	}
}
