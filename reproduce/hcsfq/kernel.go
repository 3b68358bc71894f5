package hcsfq

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	live "candela.dev/candela/configs/fair-live"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// The result LIVE measures E7 to E10 with the TCP of Linux through the live switch, at 3/4000 of the source's rate.
const (
	idLive     = "LIVE"
	linkLive   = 0.03              // Gb/s
	fromLive   = 10 * clock.Second // of 30 s: slow start and the first probes of BBR are over
	toLive     = 30 * clock.Second
	phaseLive  = 6 * clock.Second // of E10; the first half is not counted
	settleLive = phaseLive / 2
)

// Origins of rows on real frames.
var (
	shapeLive = comparison.FromMechanism("real frames at 30 Mb/s with RTTs of 50 ms and more instead of 40 Gb/s and 0.3 " +
		"ms; the source shows a figure without values, the tolerance is that of the specification for TCP").
		Of(comparison.PaperStatement)
	statedLive = comparison.FromMechanism("real frames at 30 Mb/s with RTTs of 50 and 117 ms instead of 0.3 and 0.7 ms").
			Of(comparison.PaperStatement)
	chosenLive = comparison.FromChoice("real frames; the source says almost all, or shows a bias: the bound is ours").
			Of(comparison.PaperStatement)
	exactLive = comparison.FromMechanism("the rules of scheme and queue, packet by packet")
)

// livePoint is the outcome of a run on real frames. Nothing was measured if skipped says why.
type livePoint struct {
	point
	skipped string
}

// liveRun runs a point of a test.
func (l *lab) liveRun(ctx context.Context, file string, at int) (*livePoint, error) {
	tests, err := l.TestsOf(live.FS, file)
	if err != nil {
		return nil, err
	}
	p := &livePoint{point: point{Run: experiments.NewRun(tests[at], 1)}}
	// CUBIC is that of all others.
	if p.skipped = lacks("cubic", tests[at].Hosts.Values.Word("congestion-control")); p.skipped != "" {
		return p, nil
	}
	p.skipped, err = l.DoLive(ctx, &p.Run, p.course.watch, p.read)
	if p.skipped == "" {
		l.Results.Runs++
	}
	return p, err
}

// lacks says which congestion controls the kernel does not have; empty: it has all, or does not say.
func lacks(names ...string) string {
	data, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return ""
	}
	for _, n := range names {
		if !slices.Contains(strings.Fields(string(data)), n) {
			return fmt.Sprintf("the kernel has no %s: %s", n, strings.TrimSpace(string(data)))
		}
	}
	return ""
}

// row adds a row that a run has measured, or says why it has not.
func (l *lab) row(p *livePoint, from comparison.Origin, r comparison.Row) {
	if r.ID = idLive; p.skipped != "" {
		from = comparison.Skipped(p.skipped)
		nothing := comparison.NewRow(r.ID, r.What, r.Unit, r.Low, r.High, r.Tolerance, math.NaN())
		nothing.Bound = r.Bound
		r = nothing
	}
	l.Row(from, r)
}

// blameless adds the row of what the judges found.
func (l *lab) blameless(p *livePoint, what string) {
	l.row(p, exactLive, comparison.NewRow("", what+": violations", "", 0, 0, 0, p.violations))
}

// beside returns the mean rate of some flows for each unit of that of others.
func (p *livePoint) beside(a, b flows, from, to clock.Duration) float64 {
	return mean(p.course.rates(a, from, to)) / mean(p.course.rates(b, from, to))
}

// allLive are the flows of E7 and E8, lastLive those of the last host.
var allLive, firstLive, lastLive = flows{1, 32}, flows{1, 24}, flows{25, 32}

// runLive measures E7 to E10.
func runLive(ctx context.Context, l *lab) error {
	for _, do := range []func(context.Context) error{l.liveE7, l.liveE8, l.liveE9, l.liveE10} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// liveE7 compares 32 connections of CUBIC.
func (l *lab) liveE7(ctx context.Context) error {
	for _, s := range []struct{ name, file string }{{"FIFO", "e7-fifo.yml"}, {"CSFQ", "e7-csfq.yml"},
		{"HCSFQ", "e7-hcsfq.yml"}} {
		p, err := l.liveRun(ctx, s.file, 0)
		if err != nil {
			return err
		}
		what := "E7, " + s.name
		l.row(p, comparison.Unjudged("the source shows equal rates without a number"), comparison.NewRow("",
			what+": Jain's index of 32 flows", "", 1, 1, 0, jain(&p.point, fromLive, toLive, share{allLive, 1})))
		if s.name != "FIFO" {
			for host := range 4 {
				g := flows{8*host + 1, 8*host + 8}
				l.row(p, shapeLive, comparison.NewRow("", what+": mean of "+g.String(), "Mb/s", phi*1000*linkLive/32,
					phi*1000*linkLive/32, toleranceTCP, 1000*mean(p.course.rates(g, fromLive, toLive))))
			}
		}
		l.blameless(p, what)
	}
	p, err := l.liveRun(ctx, "e7-weights.yml", 0)
	if err != nil {
		return err
	}
	l.row(p, shapeLive, comparison.NewRow("", "E7, HCSFQ: weight 2 beside weight 1", "times", 2, 2, toleranceTCP,
		p.beside(lastLive, firstLive, fromLive, toLive)))
	l.blameless(p, "E7, HCSFQ, weights")
	return nil
}

// liveE8 compares eight connections of BBR or Reno with 24 of CUBIC.
func (l *lab) liveE8(ctx context.Context) error {
	for at, control := range []string{"BBR", "Reno"} {
		without, err := l.liveRun(ctx, "e8-fifo.yml", at)
		if err != nil {
			return err
		}
		with, err := l.liveRun(ctx, "e8-hcsfq.yml", at)
		if err != nil {
			return err
		}
		if control == "BBR" {
			taken := 100 * 8 * mean(without.course.rates(lastLive, fromLive, toLive)) / linkLive
			l.row(without, chosenLive, comparison.NewBound("", "E8, FIFO: share of eight flows of BBR beside 24 of CUBIC", "%",
				comparison.AtLeast, 90, 0, taken))
		} else {
			l.row(without, comparison.Unjudged("the source does not show it"), comparison.NewRow("",
				"E8, FIFO: flow of Reno beside one of CUBIC", "times", 1, 1, 0,
				without.beside(lastLive, firstLive, fromLive, toLive)))
		}
		l.row(with, shapeLive, comparison.NewRow("", "E8, HCSFQ: flow of "+control+" beside one of CUBIC", "times", 1, 1,
			toleranceTCP, with.beside(lastLive, firstLive, fromLive, toLive)))
		l.blameless(without, "E8, "+control+", FIFO")
		l.blameless(with, "E8, "+control+", HCSFQ")
		l.liveBars("fig-3-9a-live-"+strings.ToLower(control), "Figure 3-9a: Linux, flows 25 to 32 of "+control, allLive,
			without, with)
	}
	return nil
}

// liveE9 compares connections with two RTTs.
func (l *lab) liveE9(ctx context.Context) error {
	short, long := flows{1, 4}, flows{5, 8}
	ratio := func(p *livePoint) float64 { return p.beside(short, long, fromLive, toLive) }
	for at, control := range []string{"CUBIC", "Reno"} {
		without, err := l.liveRun(ctx, "e9-fifo.yml", at)
		if err != nil {
			return err
		}
		with, err := l.liveRun(ctx, "e9-hcsfq.yml", at)
		if err != nil {
			return err
		}
		l.row(without, statedLive, comparison.NewRow("", "E9, FIFO, "+control+": RTT of 50 ms beside 117 ms", "times", 1.7,
			2.6, 0, ratio(without)))
		l.row(with, statedLive, comparison.NewBound("", "E9, HCSFQ, "+control+": RTT of 50 ms beside 117 ms", "times",
			comparison.AtMost, 1.1, 0, ratio(with)))
		l.blameless(without, "E9, "+control+", FIFO")
		l.blameless(with, "E9, "+control+", HCSFQ")
		l.liveBars("fig-3-9b-live-"+strings.ToLower(control), "Figure 3-9b: Linux's "+control+
			", RTTs of 50 and 117 ms (5 to 8)", flows{1, 8}, without, with)
	}
	for at, k := range []string{"the shorter RTT", "20 times the shorter RTT, near the 22 of the artefact"} {
		p, err := l.liveRun(ctx, "e9-averaging.yml", at)
		if err != nil {
			return err
		}
		l.row(p, comparison.Unjudged("what averaging of labels does; the rows above have a third of the shorter RTT"),
			comparison.NewBound("", "E9, HCSFQ, CUBIC, K is "+k+": RTT of 50 ms beside 117 ms", "times", comparison.AtMost, 1.1,
				0, ratio(p)))
		l.blameless(p, "E9, CUBIC, HCSFQ, K is "+k)
	}
	return nil
}

// liveE10 has connections with two RTTs join and leave.
func (l *lab) liveE10(ctx context.Context) error {
	without, err := l.liveRun(ctx, "e10-fifo.yml", 0)
	if err != nil {
		return err
	}
	with, err := l.liveRun(ctx, "e10-hcsfq.yml", 0)
	if err != nil {
		return err
	}
	for n, senders := range []int{1, 2, 3, 4, 3, 2, 1} {
		from, want := clock.Duration(n)*phaseLive, 1000*phi*linkLive/float64(senders)
		for i := range senders {
			l.row(with, shapeLive, comparison.NewRow("", fmt.Sprintf("E10, HCSFQ, phase %d, flows of %d: flow %d", n+1,
				senders, i+1), "Mb/s", want, want, toleranceTCP, 1000*with.course.rate(i+1, from+settleLive, from+phaseLive)))
		}
	}
	l.row(without, chosenLive, comparison.NewBound("", "E10, FIFO, 4 senders: RTT of 50 ms beside 117 ms", "times",
		comparison.AtLeast, 1.1, 0, without.beside(flows{1, 2}, flows{3, 4}, 3*phaseLive+settleLive, 4*phaseLive)))
	l.blameless(without, "E10, FIFO")
	l.blameless(with, "E10, HCSFQ")
	for _, p := range []struct {
		*livePoint
		name, title string
	}{{without, "fig-3-11a-live", "Figure 3-11a: Linux, without HCSFQ"},
		{with, "fig-3-11b-live", "Figure 3-11b: Linux's CUBIC, flows join and leave"}} {
		if p.skipped != "" {
			continue
		}
		plot := comparison.Plot{Name: p.name, Title: p.title, X: "s", Y: "Mb/s"}
		for flow := 1; flow <= 4; flow++ {
			line := comparison.Series{Name: fmt.Sprint("flow ", flow), Style: comparison.Line}
			const wide = clock.Second / 2
			for from := clock.Duration(0); from < 7*phaseLive; from += wide {
				line.X = append(line.X, float64(from+wide/2)/float64(clock.Second))
				line.Y = append(line.Y, 1000*p.course.rate(flow, from, from+wide))
			}
			plot.Series = append(plot.Series, line)
		}
		l.Plot(plot)
	}
	return nil
}

// liveBars draws the rates of flows with and without HCSFQ.
func (l *lab) liveBars(name, title string, of flows, without, with *livePoint) {
	if without.skipped != "" || with.skipped != "" {
		return
	}
	plot := comparison.Plot{Name: name, Title: title, X: "flow", Y: "Mb/s"}
	for _, p := range []struct {
		*livePoint
		name string
	}{{without, "FIFO"}, {with, "HCSFQ"}} {
		s := comparison.Series{Name: p.name}
		for i, r := range p.course.rates(of, fromLive, toLive) {
			s.X, s.Y = append(s.X, float64(of.first+i)), append(s.Y, 1000*r)
		}
		plot.Series = append(plot.Series, s)
	}
	l.Plot(plot)
}
