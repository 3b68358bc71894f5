package aifo

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/clock"
	live "candela.dev/candela/configs/rank-live"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

const (
	// phaseT2 is the time between the starts of two senders of T2. The first half is not counted: CUBIC needs it to leave
	// slow start, and those before to give way.
	phaseT2 = 2 * clock.Second
	// linkT2 is the rate of the bottleneck in Gb/s, 40 in the paper.
	linkT2 = 0.02
	// leastJain and majority are bounds of ours: the figure shows a shape. Jain's index is 1/n if one of n has everything.
	leastJain, majority = 0.7, 50
)

// connected is what a run of T2 came to.
type connected struct {
	ratesOfPhases
	violations float64 // that its judges found
	skipped    string  // why there was no run; the numbers are NaN
}

// connect runs a test of T2.
func (l *lab) connect(ctx context.Context, s scheme) (*connected, error) {
	tests, err := l.TestsOf(live.FS, s.File)
	if err != nil {
		return nil, err
	}
	run, c := experiments.NewRun(tests[0], 1), new(connected)
	c.skipped, err = l.DoLive(ctx, &run, func(net *fabric.Network) { c.measure(net, phaseT2, phaseT2/2) },
		func(out *orchestrator.Outcome) error {
			for i := range out.Analysis.Findings {
				if out.Analysis.Findings[i].Severity == analyzers.Violation {
					c.violations++
				}
			}
			l.Results.Runs++
			return nil
		})
	if c.skipped != "" {
		for n := range c.ratesOfPhases {
			c.ratesOfPhases[n] = [senders]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
		}
		c.violations = math.NaN()
	}
	return c, err
}

// t2 compares connections of the kernel's CUBIC through a switch on real frames, at 1/2000 of the paper's rates.
func t2(ctx context.Context, l *lab) error {
	for _, s := range []scheme{{"FIFO", "t2-fifo.yml"}, {"SP-PIFO", "t2-sp-pifo.yml"}, {"AIFO", "t2-aifo.yml"}} {
		c, err := l.connect(ctx, s)
		if err != nil {
			return err
		}
		l.connections(s, c)
		if c.skipped == "" {
			l.plotConnections(s, c)
		}
	}
	return nil
}

// connections adds the rows of a scheme.
func (l *lab) connections(s scheme, c *connected) {
	row := func(from comparison.Origin, r comparison.Row) {
		if c.skipped != "" {
			from = comparison.Skipped(c.skipped)
		}
		r.ID, r.What = "T2", s.Name+r.What
		l.Row(from.Of(comparison.PaperStatement), r)
	}
	scaled := comparison.FromMechanism("real frames at 20 Mb/s instead of 40 Gb/s")
	shape := comparison.FromChoice("the paper shows a shape, the bound is ours")
	row(scaled, comparison.NewBound("", ", 1 connection: share of the link", "%", comparison.AtLeast, 100*34./40, 0,
		share(c.ratesOfPhases[0][0])))
	for n := 1; n < senders; n++ {
		what, rates := fmt.Sprintf(", %d connections: ", n+1), c.ratesOfPhases[n][:n+1]
		if s.Name == "FIFO" {
			row(shape, comparison.NewBound("", what+"Jain's index", "", comparison.AtLeast, leastJain, 0, waterfill.Jain(rates)))
		} else {
			row(shape, comparison.NewBound("", what+"share of the newest", "%", comparison.AtLeast, majority, 0,
				share(rates[n])))
		}
	}
	if s.Name != "FIFO" {
		older := c.ratesOfPhases[senders-1][:senders-1]
		row(scaled, comparison.NewBound("", ", 4 connections: largest share of an older one", "%", comparison.AtMost,
			100*5./40, 0, share(slices.Max(older))))
		row(comparison.Unjudged("at 20 Mb/s CUBIC waits for timers of 200 ms and more; not examined further"),
			comparison.NewRow("", ", 4 connections: share of the oldest", "%", 100*0.2/40, 100*1./40, 0, share(older[0])))
	}
	row(comparison.FromMechanism("the rules of queue and scheme, packet by packet"), comparison.NewRow("",
		": violations", "", 0, 0, 0, c.violations))
}

func (l *lab) plotConnections(s scheme, c *connected) {
	plot := comparison.Plot{Name: "fig-4-16-" + strings.ToLower(s.Name), Title: "Figure 4-16: CUBIC, " + s.Name,
		X: "connections", Y: "Mb/s"}
	for i := range senders {
		line := comparison.Series{Name: fmt.Sprint("connection ", i+1)}
		for n := i; n < senders; n++ {
			line.X, line.Y = append(line.X, float64(n+1)), append(line.Y, 1000*c.ratesOfPhases[n][i])
		}
		plot.Series = append(plot.Series, line)
	}
	l.Plot(plot)
}

// share returns a rate in percent of the bottleneck.
func share(gbps float64) float64 { return 100 * gbps / linkT2 }
