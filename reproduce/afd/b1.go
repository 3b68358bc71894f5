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
	runs, err := l.measure(ctx, "b-1.yml", 1, func(p *point) {
		p.watch = func(net *fabric.Network) {
			net.Switch(0).Watch(func(at fabric.Point, now clock.Time, pkt *fabric.Packet) {
				if at.Stage == fabric.Egress && at.Port == 0 && now.Sub(0) > from && now.Sub(0) <= from+span {
					p.sent += float64(pkt.Size)
				}
			})
		}
	})
	if err != nil {
		return err
	}
	factors := []float64{0.25, 0.5, 1, 2}
	jitter := comparison.FromChoice("send-jitter-us, which takes flows over equal links out of step").
		Of(comparison.SpecCalibration)
	rule := comparison.FromChoice("the bound is the specification's; send-jitter-us").Of(comparison.PaperStatement)
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
			got := 100 * runs[0][4*i+j].sent * 8 / span.Microseconds() * 1e6 / (1e10 * wire)
			l.row(jitter, comparison.NewRow(id, fmt.Sprintf("%s, %g times the buffer of the rule: use", set.name, f), "%",
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
