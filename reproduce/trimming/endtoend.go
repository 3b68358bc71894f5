package trimming

import (
	"context"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/reproduce/comparison"
)

// The leaf-spine testbed of section 6.5.
const (
	hostRate = 25.0 // Gb/s
	spines   = 3
)

// alone is the goodput of a TCP connection on its own 25 Gb/s link; an NDP connection differs by at most 0.1 %. A frame
// of 9000 bytes carries 8934 bytes.
const alone = hostRate * 8934 / 9000

func t14(ctx context.Context, l *lab) error {
	const id = "T14"
	points, err := l.measure(ctx, "t14-ecmp.yml")
	if err != nil {
		return err
	}
	sprayed, err := l.measure(ctx, "t14-spray.yml")
	if err != nil {
		return err
	}
	var shares []float64
	collisions := 0.0
	for _, p := range points {
		good := p.goodput()
		sum := mean(good) * float64(len(good))
		used := int(sum/alone + 0.5) // spines: a spine that is used is always busy
		if used < spines {
			collisions++
		}
		if used == spines-1 { // two on one spine, the third alone
			shares = append(shares, 100*(sum-slices.Max(good))/2/hostRate)
		}
	}
	if len(shares) == 0 {
		return fmt.Errorf("t14-ecmp.yml: in no run do two connections share a spine")
	}
	l.row(comparison.Unjudged("the source says frequently; the number is that of three fair draws from three"),
		comparison.NewRow(id, "ECMP: runs in which connections collide", "%", 100*7/9.0, 100*7/9.0, 0.25,
			100*collisions/float64(len(points))))
	l.row(follows, comparison.NewRow(id,
		"ECMP: mean goodput of two connections on one spine, of line rate", "%", 50, 50, 0.05, mean(shares)).
		Noted("the source: halved. TCP shares a drop-tail queue unevenly, hence the mean"))
	l.row(follows, comparison.NewRow(id, "trimming and spraying: slowest of three connections", "Gb/s",
		hostRate, hostRate, 0.05, slices.Min(sprayed[0].goodput())).
		Noted("goodput, headers not counted; NDP for EQDS"))
	return nil
}

// trips returns the round trips that the first flow of a kind measured.
func (p *point) trips(kind workload.Exchange) (switchtest.Trips, error) {
	for i := range p.Flows.Flows {
		if f := &p.Flows.Flows[i]; f.Kind == kind && f.Trips != nil {
			return *f.Trips, nil
		}
	}
	return switchtest.Trips{}, fmt.Errorf("%s: no %s came back", p.Test.Title(), kind)
}

func t15(ctx context.Context, l *lab) error {
	const id, us = "T15", 1e3
	points, err := l.measureAll(ctx, []string{"t15-idle.yml", "t15-droptail.yml", "t15-trimming.yml"}, nil)
	if err != nil {
		return err
	}
	var trips [3]switchtest.Trips
	for i, p := range points {
		if trips[i], err = p.trips(workload.Pings); err != nil {
			return err
		}
	}
	idle := trips[0].P50
	high := func(i int) float64 { return float64(trips[i].P99-idle) / us }
	median := func(i int) float64 { return float64(trips[i].P50-idle) / us }
	chosen := comparison.FromChoice("9000 bytes and the 99th percentile: the source says neither; they fit its plot best")
	median50 := comparison.Unjudged("another reading of the same plot")
	l.row(chosen, comparison.NewRow(id, "drop tail, 200 packets: ping takes longer by, 99 % of all", "us", 500, 500, 0.2,
		high(1)).Noted("tolerance ours"))
	l.row(chosen, comparison.NewRow(id, "trimming, 12 packets: ping takes longer by, 99 % of all", "us", 36, 36, 0.2,
		high(2)).Noted("tolerance ours; NDP for TCP over EQDS"))
	l.row(median50, comparison.NewRow(id, "drop tail, 200 packets: ping takes longer by, median", "us", 500, 500, 0.2,
		median(1)))
	l.row(median50, comparison.NewRow(id, "trimming, 12 packets: ping takes longer by, median", "us", 36, 36, 0.2,
		median(2)))
	x, busy, trimmed := []float64{50, 99, 100}, trips[1], trips[2]
	micros := func(t switchtest.Trips) []float64 {
		return []float64{float64(t.P50) / us, float64(t.P99) / us, float64(t.Max) / us}
	}
	l.plot(comparison.Plot{Name: "fig-13", Title: "Round trips to a busy machine", X: "% of pings", Y: "us",
		Series: []comparison.Series{
			{Name: "drop tail", X: x, Y: micros(busy)}, {Name: "trimming", X: x, Y: micros(trimmed)},
			{Name: "idle", X: x, Y: micros(trips[0])}}})
	return nil
}

// slowest returns the duration of a benchmark's last client in seconds, NaN if a client did not finish.
func (p *point) slowest() float64 {
	last := math.NaN()
	for i := range p.Flows.Flows {
		f := &p.Flows.Flows[i]
		switch {
		case f.Kind != workload.Loop:
		case !f.Finished:
			return math.NaN()
		case math.IsNaN(last) || float64(f.FCTNS)/1e9 > last:
			last = float64(f.FCTNS) / 1e9
		}
	}
	return last
}

// timeouts returns the number of timeouts of a benchmark's clients and their server.
func (p *point) timeouts() float64 {
	sum := 0.0
	for i := range p.Flows.Flows {
		if f := &p.Flows.Flows[i]; f.Kind == workload.Loop {
			sum += float64(f.Timeouts)
		}
	}
	return sum
}

// T16's ratio depends on what an idle second consists of: the server's own time, or round trips of many clients in
// turn. A server time of short leaves far less than the idle second of the source, so its rows are not judged.
const short = 50 * clock.Microsecond

func t16(ctx context.Context, l *lab) error {
	const id = "T16"
	idle, err := l.measure(ctx, "t16-idle.yml")
	if err != nil {
		return err
	}
	tail, err := l.measure(ctx, "t16-droptail.yml")
	if err != nil {
		return err
	}
	trimmed, err := l.measure(ctx, "t16-trimming.yml")
	if err != nil {
		return err
	}
	var server, slow, fast []float64
	for i, p := range idle {
		service := p.Test.Workload[0].Values.Duration("service-us")
		base, a, b := p.slowest(), tail[i].slowest(), trimmed[i].slowest()
		server, slow, fast = append(server, service.Microseconds()), append(slow, a/base), append(fast, b/base)
		what := fmt.Sprintf("server takes %.0f us, ", service.Microseconds())
		busy, chosen := follows, comparison.FromChoice("service-us, which the source does not give")
		increase := comparison.FromChoice("bound ours: the source says much smaller")
		if service == short {
			busy = comparison.Unjudged("an idle machine takes another time than the source's")
			chosen, increase = busy, busy
		}
		l.row(chosen, comparison.NewRow(id, what+"idle: 1000 requests of a client", "s", 1, 2, 0, base))
		l.row(busy, comparison.NewBound(id, what+"busy, drop tail: time beside idle", "times", comparison.AtLeast, 10, 0,
			a/base).Noted(fmt.Sprintf("%.3g s longer; %.0f timeouts", a-base, tail[i].timeouts())))
		l.row(increase, comparison.NewBound(id, what+"busy, trimming: increase beside that of drop tail", "%",
			comparison.AtMost, 25, 0, 100*(b-base)/(a-base)).Noted(fmt.Sprintf("%.2f times idle", b/base)))
	}
	l.plot(comparison.Plot{Name: "fig-14", Title: "Time of the benchmark beside an idle machine", X: "us of server time",
		Y:      "times",
		Series: []comparison.Series{{Name: "drop tail", X: server, Y: slow}, {Name: "trimming", X: server, Y: fast}}})
	return nil
}
