package aifo

import (
	"context"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// senders of T1 and T2, which start one after the other. Their receiver's port has the next number.
const senders = 4

// phaseT1 is the time between the starts of two senders of T1, of which the first fifth is not counted.
const phaseT1 = 5 * clock.Millisecond

// ratesOfPhases are the rates in Gb/s of all senders, by how many send, from 1.
type ratesOfPhases [senders][senders]float64

func (l *lab) sharesT1(ctx context.Context, s scheme) (rates ratesOfPhases, err error) {
	tests, err := l.Tests(s.File)
	if err != nil {
		return rates, err
	}
	run := experiments.NewRun(tests[0], 1)
	err = l.Batch(ctx, 1, func(int) error {
		return l.Do(ctx, &run, func(net *fabric.Network) { rates.measure(net, phaseT1, phaseT1/5) },
			func(*orchestrator.Outcome) error { return nil })
	})
	return rates, err
}

// measure counts at the bottleneck, from skipped after the start of each phase on.
func (r *ratesOfPhases) measure(net *fabric.Network, phase, skipped clock.Duration) {
	*r = ratesOfPhases{}
	net.Switch(0).Watch(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		n := now.Sub(0) / phase
		if at.Stage == fabric.Egress && at.Port == senders && int(p.Src) < senders && n < senders &&
			now.Sub(0)%phase >= skipped {
			r[n][p.Src] += float64(p.Size) * 8 / float64((phase - skipped).Nanoseconds())
		}
	})
}

// t1 compares senders at line rate.
func t1(ctx context.Context, l *lab) error {
	const id = "T1"
	rates, err := l.sharesT1(ctx, scheme{"FIFO", "t1-fifo.yml"})
	if err != nil {
		return err
	}
	from := comparison.FromMechanism("simulated instead of the testbed").Of(comparison.PaperStatement)
	for n := range rates {
		fair := 40 / float64(n+1)
		for sender := range n + 1 {
			l.Row(from, comparison.NewRow(id, fmt.Sprintf("FIFO, %d senders: sender %d", n+1, sender+1), "Gb/s", fair, fair, 0.1,
				rates[n][sender]))
		}
	}
	l.plotT1("FIFO", "fifo", rates)
	for _, s := range []scheme{{"SP-PIFO", "t1-sp-pifo.yml"}, {"AIFO", "t1-aifo.yml"}} {
		rates, err := l.sharesT1(ctx, s)
		if err != nil {
			return err
		}
		l.plotT1(s.Name, s.File[len("t1-"):len(s.File)-len(".yml")], rates)
		for n := 1; n < senders; n++ {
			l.Row(from, comparison.NewBound(id, fmt.Sprintf("%s, %d senders: share of the newest", s.Name, n+1), "%",
				comparison.AtLeast, 95, 0, 100*rates[n][n]/(rates[n][0]+rates[n][1]+rates[n][2]+rates[n][3])))
		}
	}
	return nil
}

// plotT1 draws the rate of each sender over time, a bar for the part of each phase that is counted.
func (l *lab) plotT1(scheme, file string, rates ratesOfPhases) {
	plot := comparison.Plot{Name: "fig-4-15-" + file, Title: "Figure 4-15: senders at line rate, " + scheme, X: "ms",
		Y: "Gb/s"}
	const phase = float64(phaseT1) / float64(clock.Millisecond)
	for sender := range senders {
		bars := comparison.Series{Name: fmt.Sprint("sender ", sender+1), Style: comparison.Segments}
		for n := sender; n < senders; n++ {
			bars.X = append(bars.X, (float64(n)+0.2)*phase, float64(n+1)*phase)
			bars.Y = append(bars.Y, rates[n][sender], rates[n][sender])
		}
		plot.Series = append(plot.Series, bars)
	}
	l.Plot(plot)
}
