package trimming

import (
	"context"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// traced is the number of packets in the source's table.
const traced = 20_000

func t12(ctx context.Context, l *lab) error {
	const id = "T12"
	points, err := l.measureAll(ctx, []string{"t12.yml"}, (*probe).followPackets)
	if err != nil {
		return err
	}
	p := points[0]
	for host := fabric.HostID(firstReceiver); host < firstReceiver+2; host++ {
		var ingress, deflected, all float64
		for _, a := range p.probe.packets {
			if a.host != host || all == traced {
				continue
			}
			all++
			switch {
			case a.trimmed && a.deflected:
				deflected++
			case a.trimmed:
				ingress++
			}
		}
		name := fmt.Sprintf("host H%d, first 20 k packets: ", host-firstReceiver+1)
		l.row(comparison.FromChoice("the source does not say when flows start: here 100 us apart; 60 us give 6 % more"),
			comparison.NewRow(id, name+"trimmed in ingress", "", 13490, 13490, 0.05, ingress).Noted("hardware: 13.5 k"))
		l.row(follows, comparison.NewRow(id, name+"trimmed after deflection", "", 682, 682, 0.15,
			deflected).Noted("hardware: 678"))
	}
	lost := 0.0
	for _, f := range p.Flows.Flows {
		lost += float64(f.Dropped)
	}
	l.row(follows, comparison.NewRow(id, "packets of which nothing arrives", "", 0, 0, 0, lost))
	fairness(l, p, id)
	return nil
}

// fairness compares the flows after all four have started, and plots figure 11.
func fairness(l *lab, p *point, id string) {
	const settle, bin = 20 * clock.Microsecond, 10 * clock.Microsecond
	from := lastStart(p) + settle
	steps := int(p.end().Sub(0) / bin)
	var rates []float64
	plot := comparison.Plot{Name: "fig-11", Title: "Throughput of the flows to H1", X: "us", Y: "Gb/s"}
	for flow := uint32(1); flow <= 4; flow++ {
		bytes, total := make([]float64, steps), 0.0
		for _, a := range p.probe.packets {
			if a.flow != flow || a.trimmed {
				continue
			}
			if i := int(clock.Duration(a.at) / bin); i < steps {
				bytes[i] += 1500
			}
			if a.at >= clock.Time(from) {
				total += 1500
			}
		}
		s := comparison.Series{Name: fmt.Sprintf("flow %d", flow), Style: comparison.Line}
		for i, b := range bytes {
			s.X, s.Y = append(s.X, (float64(i)+0.5)*bin.Microseconds()), append(s.Y, b*8/float64(bin.Nanoseconds()))
		}
		plot.Series = append(plot.Series, s)
		rates = append(rates, total*8/float64(p.end().Sub(clock.Time(from)).Nanoseconds()))
	}
	l.plot(plot)
	shared := comparison.FromChoice("bound ours: almost perfect sharing; it needs jitter-ns, which is ours, too")
	l.row(shared, comparison.NewRow(id, "four flows to H1: slowest beside their mean", "%", 100, 100, 0.05,
		100*slices.Min(rates)/mean(rates)))
	l.row(shared, comparison.NewRow(id, "four flows to H1: fastest beside their mean", "%", 100, 100, 0.05,
		100*slices.Max(rates)/mean(rates)))
}

func lastStart(p *point) clock.Duration {
	var last clock.Duration
	for i := range p.Test.Workload {
		last = max(last, p.Test.Workload[i].Offer.Start)
	}
	return last
}

func t13(ctx context.Context, l *lab) error {
	const id, second = "T13", 20.0 // us: start of the second flow
	points, err := l.measureAll(ctx, []string{"t13.yml"}, (*probe).followPackets)
	if err != nil {
		return err
	}
	first := firstFlow(points[0])
	origin := second + onTheWay(first)
	l.plot(figure12(first, origin))
	s := jumpOf(first, origin)
	l.row(follows, comparison.NewRow(id, "the queue has grown to", "us", 4.7, 4.7, 0.05, s.longest).
		Noted("the queue of 4.7 us has 39 packets, ours 20"))
	l.row(follows, comparison.NewRow(id, "first ingress-trimmed header after the second flow's start", "us", 6, 6, 0.1,
		s.firstHeader))
	l.row(comparison.Unjudged("no number in the source: all early ones jump the queue"),
		comparison.NewRow(id, "it overtakes data by", "us", 0, s.longest, 0, s.overtaken))
	l.row(follows, comparison.NewRow(id, "the queue has largely drained (data waits half as long)",
		"us", 10, 10, 0.15, s.drained).
		Noted("two pipelines still let 50 Gb/s pass: what takes 4.7 us to fill at 100 Gb/s can't drain in 4 us; a queue of "+
			"half the size would"))
	l.row(follows, comparison.NewRow(id, "then trimmed of the first flow", "%", 50, 50, 0.1, 100*s.share))
	return nil
}

func firstFlow(p *point) []arrival {
	var list []arrival
	for _, a := range p.probe.packets {
		if a.flow == 1 {
			list = append(list, a)
		}
	}
	return list
}

// onTheWay returns the transit time of a packet without queueing, in microseconds.
func onTheWay(list []arrival) float64 {
	least := math.Inf(1)
	for _, a := range list {
		if !a.trimmed {
			least = min(least, a.at.Sub(a.sent).Microseconds())
		}
	}
	return least
}

// figure12 plots packet numbers over time, from the arrival of the second flow on.
func figure12(list []arrival, origin float64) comparison.Plot {
	series := []comparison.Series{
		{Name: "data", Style: comparison.Dots}, {Name: "trimmed in ingress", Style: comparison.Dots},
		{Name: "deflected", Style: comparison.Dots}}
	for _, a := range list {
		at := clock.Duration(a.at).Microseconds() - origin
		if at < -2 || at > 15 {
			continue
		}
		i := 0
		switch {
		case a.trimmed && a.deflected:
			i = 2
		case a.trimmed:
			i = 1
		}
		series[i].X, series[i].Y = append(series[i].X, at), append(series[i].Y, float64(a.number))
	}
	return comparison.Plot{Name: "fig-12", Title: "First flow when the second one starts", X: "us", Y: "packet",
		Series: series}
}

// jump holds the results of figure 12, in microseconds after the arrival of the second flow.
type jump struct{ longest, firstHeader, overtaken, drained, share float64 }

func jumpOf(list []arrival, origin float64) jump {
	base := onTheWay(list)
	j := jump{firstHeader: math.NaN(), drained: math.NaN()}
	var after, cut float64
	for _, a := range list {
		at, waited := clock.Duration(a.at).Microseconds()-origin, a.at.Sub(a.sent).Microseconds()-base
		switch {
		case at < 0:
		case !a.trimmed:
			j.longest = max(j.longest, waited)
			if waited <= j.longest/2 && math.IsNaN(j.drained) && !math.IsNaN(j.firstHeader) {
				j.drained = at
			}
		case !a.deflected && math.IsNaN(j.firstHeader):
			j.firstHeader = at
			j.overtaken = j.longest - max(0, waited)
		}
		const settled = 14 // us: the pessimistic time has ended
		if at > settled {
			after++
			if a.trimmed {
				cut++
			}
		}
	}
	j.share = cut / after
	return j
}
