package afd

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// Times between which most TCP scenarios are measured, and those of A-5 and A-10 (specification, 9.0).
const (
	fromTCP, toTCP     = 300 * clock.Millisecond, 1300 * clock.Millisecond
	fromShort, toShort = 150 * clock.Millisecond, 450 * clock.Millisecond
)

// established is what the completion times of the specification have beyond those from the first packet sent to the
// last one delivered, in ms: a handshake that is a delay of one round trip of 40 us, and the way of the last ACK. All
// flows have both, so nothing else changes.
const established = 0.060

// attachEstablished has a point add what established is.
func attachEstablished(p *point) {
	attachBuffer(p)
	p.before = established
}

// originOf returns the origin of a calibrated row of a queue.
func originOf(queue string) comparison.Origin {
	switch queue {
	case "tail-shallow", "tail-deep", "dpp":
		return outOfStep()
	}
	return calibrated
}

// outOfStep is the origin of a row of a queue that drops by its depth alone.
func outOfStep() comparison.Origin {
	return comparison.FromChoice("send-jitter-us: over equal links a full queue takes all losses from the same flows, " +
		"and the specification has no rule for packets that arrive at once").Of(comparison.SpecCalibration)
}

// tcpPayload is the payload of a packet of 1500 bytes.
const tcpPayload = 1434

// shares returns the layer-2 rates of flows 1 to n in Gb/s between two instants. A flow without a sample, as its
// handshake has not ended, carries nothing then.
func (p *point) shares(n int, from, to clock.Duration) (rates []float64) {
	samples := 0
	for i := range n {
		list := p.series.between(fmt.Sprintf("flow-%d.goodput-bps", i+1), from, to)
		rates = append(rates, total(list)/1e9*1500/tcpPayload)
		samples = max(samples, len(list))
	}
	for i := range rates {
		rates[i] /= float64(samples)
	}
	return rates
}

// mice returns the completion times of the flows that finished, in ms, ascending, and how many packets of flows with an
// end were lost.
func (p *point) mice() (times []float64, lost float64) {
	for i := range p.Flows.Flows {
		f := &p.Flows.Flows[i]
		if f.Bytes == 0 {
			continue
		}
		lost += float64(f.Dropped)
		if f.Finished {
			times = append(times, float64(f.FCTNS)/1e6+p.before)
		}
	}
	slices.Sort(times)
	return times, lost
}

// seedsTCP is the number of seeds of.
const seedsTCP = 3

// column returns the runs of one point of a sweep, by seed.
func column(runs [][]*point, n int) (points []*point) {
	for _, r := range runs {
		points = append(points, r[n])
	}
	return points
}

// spread adds rows for the least and the most of the seeds.
func (l *lab) spread(from comparison.Origin, id, what, unit string, low, high, tolerance float64, values []float64) {
	l.row(from, comparison.NewRow(id, what+", least of the seeds", unit, low, high, tolerance, slices.Min(values)))
	l.row(from, comparison.NewRow(id, what+", most of the seeds", unit, low, high, tolerance, slices.Max(values)))
}

// atLeast adds a row for the least of the seeds.
func (l *lab) atLeast(id, what, unit string, limit, tolerance float64, values []float64) {
	l.row(calibrated, comparison.NewBound(id, what+", least of the seeds", unit, comparison.AtLeast, limit, tolerance,
		slices.Min(values)))
}

// none adds a row for a number that is 0 for all seeds.
func (l *lab) none(from comparison.Origin, id, what string, values []float64) {
	l.row(from, comparison.NewRow(id, what+", all seeds", "", 0, 0, 0, slices.Max(values)))
}

// fairness returns Jain's index of flows 1 to n for each run.
func fairness(points []*point, n int, from, to clock.Duration) []float64 {
	return each(points, func(p *point) float64 { return waterfill.Jain(p.shares(n, from, to)) })
}

// counted returns a counter for each run.
func counted(points []*point, name string) []float64 {
	return each(points, func(p *point) float64 { return p.counter(name) })
}

// total returns the sum of values.
func total(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// unfinished adds a row for the flows with an end that did not finish: their completion times are not in the others.
func (l *lab) unfinished(id string, runs [][]*point) {
	n, all := 0, 0
	for _, points := range runs {
		for _, p := range points {
			for i := range p.Flows.Flows {
				if f := &p.Flows.Flows[i]; f.Bytes > 0 {
					if all++; !f.Finished {
						n++
					}
				}
			}
		}
	}
	l.row(calibrated, comparison.NewRow(id, "mice that did not finish, share of all runs", "%", 0, 0, 0.1,
		100*float64(n)/float64(all)))
}
