package reproduce

import (
	"candela.dev/candela/reproduce/comparison"
	"context"
	"fmt"
	"math"
	"slices"
)

// Metrics of analyzers/retrans.
const (
	generation     = "retrans.nack-generation"
	reaction       = "retrans.nack-reaction"
	retransmission = "retrans.retransmission"
	timeout        = "retrans.timeout"
)

// nic is a NIC of the paper and its profile.
type nic struct{ name, profile string }

var (
	cx4 = nic{"CX4", "cx4-lx"}
	cx5 = nic{"CX5", "cx5"}
	cx6 = nic{"CX6", "cx6-dx"}
)

// losses are the runs of figures 5-8 and 5-9 for one message size.
type losses struct {
	size    string
	results []*result
}

// places returns the mean of a metric for each dropped PSN of a message; element 0 is PSN 1.
func (s losses) places(n nic, metric string) []float64 {
	return byPlace(of(s.results, n.profile), metric)
}

// lossFiles maps message sizes to test files, without suffix.
var lossFiles = map[string]string{"20 KB": "fig-5-8-9", "100 KB": "fig-5-8-9-100kb"}

// fastRetransmission measures L3 and L4: NACK generation and reaction for each dropped PSN.
func fastRetransmission(ctx context.Context, l *lab) error {
	return singleLosses(ctx, l, "20 KB", "100 KB")
}

// singleLosses measures L3 and L4 for messages of the given sizes.
func singleLosses(ctx context.Context, l *lab, sizes ...string) error {
	var all []losses
	for _, size := range sizes {
		results, err := l.runAll(ctx, lossFiles[size]+".yml", lossFiles[size]+"-cx4.yml")
		if err != nil {
			return err
		}
		all = append(all, losses{size, results})
	}
	for _, s := range all {
		generationRows(l, s)
	}
	for _, s := range all {
		reactionRows(l, s)
	}
	for _, s := range all {
		suffix := map[string]string{"20 KB": "a", "100 KB": "b"}[s.size]
		l.plot(placePlot(s, "fig-5-8"+suffix, "NACK generation, "+s.size+" messages", generation))
		l.plot(placePlot(s, "fig-5-9"+suffix, "NACK reaction, "+s.size+" messages", reaction))
	}
	for _, n := range []nic{cx4, cx5, cx6} {
		l.plot(reactionCDF(all, n))
	}
	return nil
}

// reactionCDF returns the distribution of the NACK reaction to single losses.
func reactionCDF(all []losses, n nic) comparison.Plot {
	p := comparison.Plot{Name: "fig-5-9-" + n.profile + "-cdf", Title: n.name + ", NACK reaction to single losses",
		X: "us", Y: "share of losses"}
	for _, s := range all {
		var single []float64
		for _, r := range of(s.results, n.profile) {
			single = append(single, r.micros(reaction)...)
		}
		slices.Sort(single)
		share := upTo(len(single))
		for i := range share {
			share[i] /= float64(len(single))
		}
		p.Series = append(p.Series, comparison.Series{Name: s.size, X: single, Y: share})
	}
	return p
}

func placePlot(s losses, name, title, metric string) comparison.Plot {
	p := comparison.Plot{Name: name, Title: title, X: "dropped packet of the message", Y: "us"}
	for _, n := range []nic{cx4, cx5, cx6} {
		y := s.places(n, metric)
		p.Series = append(p.Series, comparison.Series{Name: n.name, X: upTo(len(y)), Y: y})
	}
	return p
}

// tail is the number of last packets of a message that cx4 treats differently; the loss of the very last causes no
// NACK.
const tail = 2

func generationRows(l *lab, s losses) {
	const id, usual, tolerance = "L3", 1.1, 0.1
	one := comparison.FromConstant("NackGeneration")
	batch := comparison.FromConstant("NackGeneration after a batch of NackBatch packets")
	for _, n := range []nic{cx5, cx6} {
		v := s.places(n, generation)
		l.row(one, comparison.NewRow(id, fmt.Sprintf("%s NACK generation, %s, every dropped PSN (farthest)", n.name, s.size),
			"us", usual, usual, tolerance, farthest(v, usual)))
	}
	v := s.places(cx4, generation)
	middle, end := v[:max(0, len(v)-tail)], v[max(0, len(v)-tail):]
	l.row(batch, comparison.NewRow(id, fmt.Sprintf("CX4 NACK generation, %s, all but the last packets (farthest)", s.size),
		"us", usual, usual, tolerance, farthest(middle, usual)))
	l.row(comparison.FromConstant("NackBatchTimeout"), comparison.NewRow(id,
		fmt.Sprintf("CX4 NACK generation, %s, one of the last packets (mean)", s.size), "us",
		1, 13, tolerance, mean(end)).Noted("the source says \"13-1 us\""))
}

func reactionRows(l *lab, s losses) {
	const id, tolerance = "L4", 0.15
	slow := comparison.FromConstant("NackReaction and NackReactionSpread")
	v := s.places(cx4, reaction)
	l.row(slow, comparison.NewRow(id, "CX4 NACK reaction, "+s.size+" (mean)", "us", 150, 200, tolerance, mean(v)))
	var single []float64
	for _, r := range of(s.results, cx4.profile) {
		single = append(single, r.micros(reaction)...)
	}
	l.row(slow, comparison.NewRow(id, "CX4 NACK reaction, "+s.size+", single losses (farthest from 175)", "us", 150, 200,
		tolerance, farthest(single, 175)))
	for _, n := range []nic{cx5, cx6} {
		v := s.places(n, reaction)
		if s.size == "20 KB" {
			l.row(comparison.FromConstant("NackReaction"), comparison.NewRow(id,
				n.name+" NACK reaction, 20 KB, every dropped PSN (farthest)", "us", 3, 6, tolerance, farthest(v, 3)))
			continue
		}
		stepRows(l, n, v, id, tolerance)
	}
}

// ramp explains why single values deviate more than the levels. A reaction to the loss of a packet with n packets after
// it waits for those n packets in the pipeline. The reaction therefore falls with the position of the loss at the slope
// at which L5's latency rises with the message size.
const ramp = "the source describes a step; a pipeline makes a ramp, the same as in L5"

// stepRows compares the two levels of the reaction in 100 KB messages.
func stepRows(l *lab, n nic, v []float64, id string, tolerance float64) {
	const first = 20
	queued := comparison.FromMechanism("retransmissions wait in the pipeline that L5 shows")
	other := comparison.Unjudged("another statistic of the same statement")
	if len(v) <= first {
		l.row(queued, comparison.NewRow(id, n.name+" NACK reaction, 100 KB", "us", 3, 6, tolerance, math.NaN()))
		return
	}
	l.row(queued, comparison.NewRow(id, n.name+" NACK reaction, 100 KB, one of the first 20 dropped (mean)", "us", 6, 6,
		tolerance, mean(v[:first])))
	l.row(queued, comparison.NewRow(id, n.name+" NACK reaction, 100 KB, a later one dropped (mean)", "us", 3, 3, tolerance,
		mean(v[first:])).Noted(ramp))
	l.row(other, comparison.NewRow(id, n.name+" NACK reaction, 100 KB, one of the first 20 dropped (farthest)", "us", 6, 6,
		tolerance, farthest(v[:first], 6)).Noted(ramp))
	l.row(other, comparison.NewRow(id, n.name+" NACK reaction, 100 KB, a later one dropped (median)", "us", 3, 3,
		tolerance, median(v[first:])))
	const flat = 1.05
	base := slices.Min(v)
	end := slices.IndexFunc(v, func(x float64) bool { return x <= base*flat })
	l.row(queued, comparison.NewRow(id, n.name+" NACK reaction, 100 KB, last packet whose repair queues", "psn", first,
		first, tolerance, float64(end)).Noted(ramp))
}
