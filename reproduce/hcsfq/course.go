package hcsfq

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// step is the resolution of a course.
const step = clock.Millisecond

// course is what each flow sent through the bottleneck, in bits of whole frames, for each step.
type course struct {
	flows [][]float64 // by number, from 1
}

// watch counts at the last port of the first switch, which leads to the receiver.
func (c *course) watch(net *fabric.Network) {
	sw := net.Switch(0)
	last := sw.Ports() - 1
	sw.Watch(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		if at.Stage != fabric.Egress || at.Port != last {
			return
		}
		for len(c.flows) <= int(p.Flow) {
			c.flows = append(c.flows, nil)
		}
		f, n := &c.flows[p.Flow], int(now.Sub(0)/step)
		for len(*f) <= n {
			*f = append(*f, 0)
		}
		(*f)[n] += 8 * float64(p.Size)
	})
}

// rate returns the rate of a flow in Gb/s between two instants, which are multiples of step.
func (c *course) rate(flow int, from, to clock.Duration) (gbps float64) {
	if flow >= len(c.flows) {
		return 0
	}
	f := c.flows[flow]
	for n := int(from / step); n < min(int(to/step), len(f)); n++ {
		gbps += f[n]
	}
	return gbps / float64((to - from).Nanoseconds())
}

// flows are those from first to last.
type flows struct{ first, last int }

func (f flows) String() string {
	if f.first == f.last {
		return fmt.Sprintf("flow %d", f.first)
	}
	return fmt.Sprintf("flows %d to %d", f.first, f.last)
}

// rates returns the rates of flows in Gb/s.
func (c *course) rates(f flows, from, to clock.Duration) (all []float64) {
	for i := f.first; i <= f.last; i++ {
		all = append(all, c.rate(i, from, to))
	}
	return all
}

// line returns the rate of a flow over milliseconds.
func (c *course) line(name string, flow int) comparison.Series {
	s := comparison.Series{Name: name, Style: comparison.Line}
	if flow < len(c.flows) {
		for n := range c.flows[flow] {
			from := clock.Duration(n) * step
			s.X = append(s.X, float64(from+step/2)/float64(clock.Millisecond))
			s.Y = append(s.Y, c.rate(flow, from, from+step))
		}
	}
	return s
}

// point is the outcome of one run.
type point struct {
	experiments.Run
	course     course
	violations float64 // that its judges found
}

// read takes what the judges found.
func (p *point) read(out *orchestrator.Outcome) error {
	if out.Analysis != nil {
		for i := range out.Analysis.Findings {
			if out.Analysis.Findings[i].Severity == analyzers.Violation {
				p.violations++
			}
		}
	}
	return nil
}

// each returns a value for each point.
func each(points []*point, of func(p *point) float64) (values []float64) {
	for _, p := range points {
		values = append(values, of(p))
	}
	return values
}

// jain is Jain's index of the rates of flows for each unit of weight.
func jain(p *point, from, to clock.Duration, groups ...share) float64 {
	var all []float64
	for _, g := range groups {
		for _, r := range p.course.rates(g.flows, from, to) {
			all = append(all, r/g.want)
		}
	}
	return waterfill.Jain(all)
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
