package hcsfq

import (
	"context"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// other is what a queue is to do to the flows of an experiment.
type other struct {
	queue
	groups []share // what max-min fairness, or the specification, gives; of a queue that is not judged, for comparison
	judged bool
}

// others measures an experiment with other queues, with one seed.
func (l *lab) others(ctx context.Context, id, file string, from, to clock.Duration, tolerance float64,
	list ...other) error {
	plot := comparison.Plot{Name: "queues-" + file[:len(file)-len(".yml")], Title: id + ": what queues give each flow",
		X: "flow", Y: "Gb/s"}
	for _, o := range list {
		points, err := l.measureQueue(ctx, file, o.queue, 1)
		if err != nil {
			return err
		}
		origin := comparison.Unjudged("the source does not have this queue in the experiment; the value is the max-min " +
			"share").
			Of(comparison.SpecCalibration)
		if o.judged {
			origin = comparison.FromMechanism("").Of(comparison.SpecCalibration)
		}
		line := comparison.Series{Name: o.name}
		for _, g := range o.groups {
			rates := points[0].course.rates(g.flows, from, to)
			l.Row(origin, comparison.NewRow(id, o.name+": "+g.String()+", mean", "Gb/s", g.want, g.want, tolerance,
				mean(rates)))
			for i, r := range rates {
				line.X, line.Y = append(line.X, float64(g.first+i)), append(line.Y, r)
			}
		}
		plot.Series = append(plot.Series, line)
	}
	l.Plot(plot)
	return nil
}

// offered are the shares of flows in proportion to what they send, and equal ones.
func offered(first, last float64) []share {
	return []share{{flows{1, 24}, first}, {flows{25, 32}, last}}
}

// e1 shows what other queues give the flows of Q1. FIFO gives in proportion to what arrives: 2 and 5 Gb/s.
func e1(ctx context.Context, l *lab) error {
	sum, fair := 24*2.+8*5, bottleneck/32.
	return l.others(ctx, "E1", "e1.yml", settled, 100*ms, 0.03,
		other{fifo(), offered(2*bottleneck/sum, 5*bottleneck/sum), true}, other{csfq(""), offered(phi*fair, phi*fair), true},
		other{hpifo(), offered(fair, fair), true}, other{afq(), offered(fair, fair), false},
		other{spPIFO(), offered(fair, fair), false})
}

// e5 shows what they give those of Q5: without a tree, all the same.
func e5(ctx context.Context, l *lab) error {
	const from, to = 20 * ms, 100 * ms
	fair := bottleneck / 32.
	return l.others(ctx, "E5", "e5.yml", from, to, 0.03, other{fifo(), offered(fair, fair), true},
		other{csfq(""), offered(phi*fair, phi*fair), true}, other{hpifo(), offered(20./24, 20./8), true},
		other{afq(), offered(fair, fair), false}, other{spPIFO(), offered(fair, fair), false})
}

// e6 shows what they give those of Q6. Queues without a tree know the weights of flows: 2 for 8 flows, 1 for 16, 4
// for 8.
func e6(ctx context.Context, l *lab) error {
	const from, to = 20 * ms, 100 * ms
	fair, unit := bottleneck/32., bottleneck/(8*2+16+8*4.)
	three := func(a, b, c float64) []share {
		return []share{{flows{1, 8}, a}, {flows{9, 24}, b}, {flows{25, 32}, c}}
	}
	return l.others(ctx, "E6", "e6.yml", from, to, 0.03, other{fifo(), three(fair, fair, fair), true},
		other{csfq(""), three(2*phi*unit, phi*unit, 4*phi*unit), true},
		other{hpifo(), three(1.25, 0.625, 2.5), true}, other{afq(), three(2*unit, unit, 4*unit), false},
		other{spPIFO(), three(2*unit, unit, 4*unit), false})
}

// listTCP are the queues for flows of TCP, none of which is judged.
func listTCP(dctcpToo bool) (list []other) {
	fair := bottleneck / 32.
	queues := []queue{fifo(), csfq(", bypass-bytes: 125"), hpifo(), afq(), spPIFO()}
	if dctcpToo {
		queues = append(queues, dctcp())
	}
	for _, q := range queues {
		want := fair
		if q.name == "CSFQ" {
			want *= phi
		}
		list = append(list, other{q, offered(want, want), false})
	}
	return list
}

// e9 and e11 show what they give the flows of Q11 and of Q9.
func e9(ctx context.Context, l *lab) error {
	return l.others(ctx, "E9", "e9.yml", fromTCP, toTCP, toleranceTCP, listTCP(true)...)
}

func e11(ctx context.Context, l *lab) error {
	return l.others(ctx, "E11", "e11.yml", fromTCP, toTCP, toleranceTCP, listTCP(true)...)
}
