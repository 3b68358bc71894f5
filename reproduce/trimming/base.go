package trimming

import (
	"context"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
)

// Geometry of the tests: receiver r is at port firstReceiver + r.
const (
	firstReceiver = 64
	receivers     = 16
)

func (p *point) senders() int { return p.Test.Workload[0].Values.Int("senders") }

func (l *lab) bySenders(ctx context.Context, file string) (map[int]*point, error) {
	points, err := l.measure(ctx, file)
	if err != nil {
		return nil, err
	}
	by := make(map[int]*point)
	for _, p := range points {
		by[p.senders()] = p
	}
	return by, nil
}

// ideal returns the run of the ideal switch with this number of senders. It is measured only once.
func (l *lab) ideal(ctx context.Context, senders int) (*point, error) {
	const file = "t4-ideal.yml"
	known := append(slices.Clone(l.done[file]), l.single[senders])
	for _, p := range known {
		if p != nil && p.senders() == senders {
			return p, nil
		}
	}
	tests, err := l.Tests(file)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(tests, func(t *config.SwitchTest) bool { return t.Workload[0].Values.Int("senders") == senders })
	if i < 0 {
		return nil, fmt.Errorf("%s has no point with %d senders", file, senders)
	}
	points, err := l.measureTests(ctx, tests[i:i+1], nil)
	if err != nil {
		return nil, err
	}
	l.single[senders] = points[0]
	return points[0], nil
}

func t4(ctx context.Context, l *lab) error {
	const id = "T4"
	ideal, err := l.bySenders(ctx, "t4-ideal.yml")
	if err != nil {
		return err
	}
	tofino, err := l.bySenders(ctx, "t4-tofino.yml")
	if err != nil {
		return err
	}
	var n, good, goodIdeal, cut, cutIdeal, peaks, shares, extra []float64
	for senders := 1; senders <= 64; senders++ {
		a, b := ideal[senders], tofino[senders]
		if a == nil || b == nil {
			continue
		}
		n = append(n, float64(senders))
		goodIdeal, good = append(goodIdeal, mean(a.goodput())), append(good, mean(b.goodput()))
		cutIdeal, cut = append(cutIdeal, a.trims()), append(cut, b.trims())
		peaks = append(peaks, b.recirculationPeak())
		shares = append(shares, 100*(mean(b.goodput())/mean(a.goodput())-1))
		if a.trims() > 0 {
			extra = append(extra, 100*(b.trims()/a.trims()-1))
		}
	}
	l.row(follows, comparison.NewBound(id, "goodput of tofino beside the ideal switch, worst of all numbers of senders",
		"%", comparison.AtLeast, -5, 0, slices.Min(shares)))
	l.row(follows, comparison.NewBound(id, "trims of tofino beyond the ideal switch, worst", "%", comparison.AtMost, 10, 0,
		slices.Max(extra)))
	l.row(follows, comparison.NewBound(id, "trims of tofino beyond the ideal switch, mean", "%", comparison.AtMost, 6, 0,
		mean(extra)))
	l.row(follows, comparison.NewBound(id, "longest recirculation queue", "packets", comparison.AtMost, 250, 0.1,
		slices.Max(peaks)).Noted("tolerance ours: the source gives a limit"))
	l.plot(comparison.Plot{Name: "fig-6a", Title: "Mean goodput of a flow", X: "senders", Y: "Gb/s",
		Series: []comparison.Series{
			{Name: "ideal", X: n, Y: goodIdeal}, {Name: "tofino", X: n, Y: good}}})
	l.plot(comparison.Plot{Name: "fig-6b", Title: "Trimmed packets", X: "senders", Y: "packets",
		Series: []comparison.Series{
			{Name: "ideal", X: n, Y: cutIdeal}, {Name: "tofino", X: n, Y: cut}}})
	l.plot(comparison.Plot{Name: "fig-6-queue", Title: "Longest recirculation queue", X: "senders", Y: "packets",
		Series: []comparison.Series{
			{Name: "tofino", X: n, Y: peaks}}})
	return nil
}

// episodes plots the pessimistic periods of ports (figure 7).
func episodes(l *lab, p *point, name, title string) {
	s := comparison.Series{Name: "pessimistic", Style: comparison.Segments}
	for r := range receivers {
		for _, e := range p.spans[firstReceiver+r] {
			for _, at := range []clock.Time{e.From, e.To} {
				s.X, s.Y = append(s.X, clock.Duration(at).Microseconds()), append(s.Y, float64(r+1))
			}
		}
	}
	l.plot(comparison.Plot{Name: name, Title: title, X: "us", Y: "output port", Series: []comparison.Series{s}})
}

// incastEnd is the end of the uncontrolled phase. Packets trimmed later are explained by pacing. The first window lasts
// 120 us at line rate; PULLs that arrive during it prolong it, by a third with four senders per port.
func incastEnd(sendersPerPort int) clock.Time {
	const window = 120 * clock.Microsecond
	n := clock.Duration(sendersPerPort)
	return clock.Time(window * n / max(1, n-1)).Add(clock.Microsecond)
}

// shares returns the mean share of the time before until in which the given ports were pessimistic, in percent.
func (p *point) shares(ports int, until clock.Time) float64 {
	sum := 0.0
	for r := range ports {
		sum += p.pessimisticShare(firstReceiver+r, until)
	}
	return 100 * sum / float64(ports)
}

func t5(ctx context.Context, l *lab) error {
	const id = "T5"
	points, err := l.measureAll(ctx, []string{"t5.yml", "t5-idle.yml"}, nil)
	if err != nil {
		return err
	}
	p, sixteen, seventeen := points[0], points[1], points[2]
	ideal, err := l.ideal(ctx, 18)
	if err != nil {
		return err
	}
	private, shared := splitFlows(p)
	_, best := splitFlows(ideal)
	l.row(comparison.FromChoice("line rate; that goodput counts 1436 bytes of 1500 is taken from this value"),
		comparison.NewRow(id, "18 senders: slowest with a port of its own", "Gb/s", 95.7, 95.7, 0.01, slices.Min(private)))
	l.row(follows, comparison.NewRow(id, "18 senders: slowest of four that share two ports", "Gb/s", 46, 47, 0.01,
		slices.Min(shared)))
	l.row(follows, comparison.NewRow(id, "18 senders: fastest of four that share two ports", "Gb/s", 46, 47, 0.01,
		slices.Max(shared)))
	l.row(comparison.Unjudged("46 to 47 Gb/s, \"within 1 % of optimal\": of an optimum that the source does not give"),
		comparison.NewBound(id, "18 senders: goodput of the four beside the ideal switch", "%", comparison.AtLeast, -1, 0,
			100*(mean(shared)/mean(best)-1)))
	l.row(follows, comparison.NewBound(id, "18 senders: time pessimistic", "%", comparison.AtMost, 25, 0,
		p.shares(2, p.end())))
	l.row(comparison.FromChoice("bound ours: the source says that it never builds; jitter alone bunches some packets"),
		comparison.NewBound(id, "17 senders: longest recirculation queue", "packets", comparison.AtMost, 5, 0,
			seventeen.recirculationPeak()))
	l.row(follows, comparison.NewRow(id, "16 senders: trimmed packets", "", 0, 0, 0, sixteen.trims()))
	episodes(l, p, "fig-7a", "18 senders: when ports are pessimistic")
	return nil
}

// splitFlows returns the goodput of flows with a private port and of flows that share one.
func splitFlows(p *point) (private, shared []float64) {
	good := p.goodput()
	for i, g := range good {
		if i+receivers < len(good) || i >= receivers {
			shared = append(shared, g)
		} else {
			private = append(private, g)
		}
	}
	return private, shared
}

func t6(ctx context.Context, l *lab) error {
	const id, senders = "T6", 32
	points, err := l.measure(ctx, "t6.yml")
	if err != nil {
		return err
	}
	p := points[0]
	good := p.goodput()
	l.row(follows, comparison.NewRow(id, "32 senders: slowest flow", "Gb/s", 45, 46, 0.03, slices.Min(good)))
	l.row(follows, comparison.NewRow(id, "32 senders: fastest flow", "Gb/s", 45, 46, 0.03, slices.Max(good)))
	l.row(follows, comparison.NewRow(id, "32 senders: time pessimistic during the incast", "%", 25, 25, 0.25,
		p.shares(receivers, incastEnd(senders/receivers))).
		Noted("the source: roughly a quarter"))
	episodes(l, p, "fig-7b", "32 senders: when ports are pessimistic")
	return nil
}

func t7(ctx context.Context, l *lab) error {
	const id, senders = "T7", 64
	points, err := l.measure(ctx, "t7.yml")
	if err != nil {
		return err
	}
	p := points[0]
	good := p.goodput()
	l.row(follows, comparison.NewRow(id, "64 senders: slowest flow", "Gb/s", 22.2, 22.2, 0.05, slices.Min(good)))
	l.row(follows, comparison.NewRow(id, "64 senders: fastest flow", "Gb/s", 23.4, 23.4, 0.05, slices.Max(good)))
	ideal, err := l.ideal(ctx, senders)
	if err != nil {
		return err
	}
	l.row(follows, comparison.NewBound(id, "64 senders: mean goodput beside the ideal switch", "%", comparison.AtLeast, -1,
		0, 100*(mean(good)/mean(ideal.goodput())-1)).Noted("the source: within 1 % of optimal"))
	l.row(follows, comparison.NewRow(id, "64 senders: time pessimistic during the incast", "%", 100, 100, 0.05,
		p.shares(receivers, incastEnd(senders/receivers))))
	episodes(l, p, "fig-7c", "64 senders: when ports are pessimistic")
	if math.IsNaN(mean(good)) {
		return fmt.Errorf("no flow was measured")
	}
	return nil
}
