package reproduce

import (
	"candela.dev/candela/reproduce/comparison"
	"context"
	"slices"
)

// curve is the result of a sweep over message sizes.
type curve struct {
	sizes        []float64 // KB
	latency      []float64 // us, of the retransmission of the fifth packet
	actual, free []float64 // us, mean completion time with and without the loss
}

// pipeline measures L5: the fifth packet is dropped in messages of growing size.
func pipeline(ctx context.Context, l *lab) error {
	lossy, err := l.runAll(ctx, "fig-5-10.yml")
	if err != nil {
		return err
	}
	ideal, err := l.runAll(ctx, "fig-5-10-ideal.yml")
	if err != nil {
		return err
	}
	for _, n := range []nic{cx6, cx5} {
		c := newCurve(of(lossy, n.profile), of(ideal, n.profile))
		curveRows(l, n, c)
		if n == cx6 {
			curvePlots(l, c)
		}
	}
	return nil
}

func newCurve(lossy, ideal []*result) curve {
	var c curve
	for i, r := range lossy {
		c.sizes = append(c.sizes, float64(r.test.Traffic.MessageSize)/1024)
		c.latency = append(c.latency, mean(r.micros(retransmission)))
		c.actual = append(c.actual, r.meanMCT())
		c.free = append(c.free, ideal[i].meanMCT())
	}
	return c
}

// knees returns the last size whose latency equals that of the smallest size, and the first size from which the latency
// is constant.
func (c *curve) knees() (grows, flat float64) {
	const same = 0.05 // of the level
	first, last := c.latency[0], c.latency[len(c.latency)-1]
	up := slices.IndexFunc(c.latency, func(v float64) bool { return v > first*(1+same) })
	if up < 1 {
		up = len(c.latency)
	}
	at := len(c.latency) - 1
	for at > 0 && c.latency[at-1] >= last*(1-same) && c.latency[at-1] <= last*(1+same) {
		at--
	}
	return c.sizes[up-1], c.sizes[at]
}

// slope returns the growth of y between two sizes, per KB.
func (c *curve) slope(y []float64, from, to float64) float64 {
	i, j := slices.Index(c.sizes, from), slices.Index(c.sizes, to)
	if i < 0 || j <= i {
		return 0
	}
	return (y[j] - y[i]) / (to - from)
}

func curveRows(l *lab, n nic, c curve) {
	const id, step, tolerance = "L5", 10.0, 0.15
	grows, flat := c.knees()
	note := "tolerance: one step of the sweep, 10 KB"
	l.row(comparison.FromMechanism("NACK latencies (L3, L4) and the path say when the pipeline is no longer empty"),
		comparison.NewRow(id, n.name+" retransmission latency starts to grow at", "KB", 50, 50,
			step/50, grows).Noted(note))
	l.row(comparison.FromConstant("PipelineDepth, fitted to this value"),
		comparison.NewRow(id, n.name+" retransmission latency is constant from", "KB", 120, 120,
			step/120, flat).Noted(note))
	l.row(comparison.FromConstant("NackGeneration, NackReaction and the path"),
		comparison.NewRow(id, n.name+" completion time, loss minus no loss, 10 KB", "us", 4.5, 4.5,
			tolerance, c.actual[0]-c.free[0]))
	faster := c.slope(c.actual, 50, 120) / c.slope(c.free, 50, 120)
	l.row(comparison.FromMechanism(""), comparison.NewBound(id, n.name+" growth of the completion time, loss over no "+
		"loss, 50 to 120 KB", "", comparison.AtLeast, 1, 0, faster).Noted("the source says \"faster\""))
}

func curvePlots(l *lab, c curve) {
	const constant = 4.5 // us, the paper's fixed latency of an ideal retransmission
	ideal := make([]float64, len(c.free))
	for i, v := range c.free {
		ideal[i] = v + constant
	}
	l.plot(comparison.Plot{Name: "fig-5-10a", Title: "CX6, fifth packet dropped: retransmission latency",
		X: "message size, KB", Y: "us",
		Series: []comparison.Series{{Name: "retransmission", X: c.sizes, Y: c.latency}}})
	l.plot(comparison.Plot{Name: "fig-5-10b", Title: "CX6, fifth packet dropped: completion time", X: "message size, KB",
		Y: "us",
		Series: []comparison.Series{
			{Name: "actual", X: c.sizes, Y: c.actual}, {Name: "ideal (no loss + 4.5 us)", X: c.sizes, Y: ideal}}})
}
