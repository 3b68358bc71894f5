package afd

import (
	"context"
	"slices"

	"candela.dev/candela/reproduce/comparison"
)

// a9 follows dynamic packet prioritization packet by packet.
func a9(ctx context.Context, l *lab) error {
	const id, mice, packets = "A-9", 1, 125
	runs, err := l.measure(ctx, "a-9.yml", 1, nil)
	if err != nil {
		return err
	}
	p := runs[0][0]
	first := func(flow int) float64 {
		return float64(1 + slices.IndexFunc(p.of(flow), func(d decision) bool { return d.queue != mice }))
	}
	most := comparison.FromConstant("dpp-max-packets; one sentence of the source says \"less than\"").
		Of(comparison.PaperStatement)
	age := constant("dpp-age-period-us")
	l.row(most, comparison.NewRow(id, "packets without gaps: the first of group 0", "", 121, 121, 0, first(1)).
		Noted("the model's queue of mice has the number behind the queues of data, not 7"))
	l.row(age, comparison.NewRow(id, "packets 5000 us apart: the first of group 0", "", 121, 121, 0, first(2)))
	l.row(age, comparison.NewRow(id, "packets 5001 us apart: packets of group 0", "", 0, 0, 0, p.outside(3, mice)))
	l.row(most, comparison.NewRow(id, "packets 121 to 125 without gaps: packets of group 0", "", packets-120, packets-120,
		0, p.outside(1, mice)))
	l.judged(id, "the groups of these flows", runs)
	return nil
}

// outside counts the packets of a flow that are not in a queue.
func (p *point) outside(flow, queue int) float64 {
	n := 0.0
	for _, d := range p.of(flow) {
		if d.queue != queue {
			n++
		}
	}
	return n
}
