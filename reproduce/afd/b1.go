package afd

import (
	"context"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// b1 measures how much buffer keeps a link busy.
func b1(ctx context.Context, l *lab) error {
	const id, from, span = "B-1", 300 * clock.Millisecond, clock.Second
	attach := func(p *point) {
		p.watch = func(net *fabric.Network) {
			net.Switch(0).Watch(func(at fabric.Point, now clock.Time, pkt *fabric.Packet) {
				if at.Stage == fabric.Egress && at.Port == 0 && now.Sub(0) > from && now.Sub(0) <= from+span {
					p.sent += float64(pkt.Size)
				}
			})
		}
	}
	var points []*point
	for _, file := range []string{"b-1.yml", "b-1-100us.yml"} {
		runs, err := l.measure(ctx, file, 1, attach)
		if err != nil {
			return err
		}
		points = append(points, runs[0]...)
	}
	factors := []float64{0.25, 0.5, 1, 2}
	const spread = "RTTs that differ by 30 % to either side, which takes the flows out of step"
	spreadRTTs := comparison.FromChoice(spread).Of(comparison.SpecCalibration)
	rule := comparison.FromChoice("the bound is the specification's; " + spread).Of(comparison.PaperStatement)
	plot := comparison.Plot{Name: "b-1", Title: "Use of a link of 10 Gb/s", X: "buffer / (C RTT / √N)", Y: "%"}
	for i, set := range []struct {
		name string
		want []float64
	}{
		{"RTT 1 ms, 16 flows", []float64{.885, .989, 1, 1}}, {"RTT 1 ms, 64 flows", []float64{.830, .977, .999, .999}},
		{"RTT 100 us, 16 flows", []float64{.69, .94, 1, 1}}, {"RTT 100 us, 64 flows", []float64{.47, .81, .974, 1}},
	} {
		s := comparison.Series{Name: set.name}
		for j, f := range factors {
			got := 100 * points[4*i+j].sent * 8 / span.Microseconds() * 1e6 / (1e10 * wire)
			l.row(spreadRTTs, comparison.NewRow(id, fmt.Sprintf("%s, %g times the buffer of the rule: use", set.name, f), "%",
				100*set.want[j], 100*set.want[j], 0.02, got))
			if f == 1 {
				l.row(rule, comparison.NewBound(id, set.name+", the buffer of the rule: use", "%", comparison.AtLeast, 97, 0, got))
			}
			s.X, s.Y = append(s.X, f), append(s.Y, got)
		}
		plot.Series = append(plot.Series, s)
	}
	l.plot(plot)
	return nil
}
