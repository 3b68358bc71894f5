package netlock

import (
	"context"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
)

// settledOf returns when all locks have moved as the first allocation says. The source moves them before it measures.
func settledOf(t *config.SwitchTest) clock.Duration {
	const reaction, margin = 100 * clock.Microsecond, 2 * clock.Millisecond
	v := t.Switch.Values
	if v.Table().Find("allocation") < 0 || v.Word("allocation") == "fixed" { // NetChain has all locks
		return 0
	}
	return v.Duration("allocation-us") + clock.Duration(v.Int("slots")/v.Int("moves"))*reaction + margin
}

// e5 has TPC-C with 10 clients and 2 servers: R5 to R8, R10.
func e5(ctx context.Context, l *lab) error {
	const id = "E5"
	for i, c := range []struct {
		name, result                   string
		tps, dslr, drtm                float64
		netlock, netchain, lDSLR, lDTM float64
	}{
		{"low", "R5", 3.5, 14.9, 28.6, 8.55, 2.16, 0.57, 0.28}, {"high", "R6", 4.4, 18.4, 33.5, 1.35, 0.27, 0.07, 0.04},
	} {
		p, base, err := l.beside(ctx, "e5", i, c.name)
		if err != nil {
			return err
		}
		what := ", SIM: " + c.name + " contention: "
		note := fmt.Sprintf("NetLock: %s; NetChain: %s, %d rejected", p.note(), base.note(), base.sum("locks.rejected"))
		l.Row(retried, comparison.NewRow(id, c.result+what+"transactions beside NetChain", "times", c.tps, c.tps, 0.4,
			p.committed()/base.committed()).Noted(note))
		for _, of := range []struct {
			name string
			want float64
		}{{"DSLR", c.dslr}, {"DrTM", c.drtm}} {
			l.Row(hardware(of.name+" needs RDMA and is not built"), comparison.NewRow(id, c.result+", HW: "+c.name+
				" contention: transactions beside "+of.name, "times", of.want, of.want, 0, math.NaN()))
		}
		l.latencies(id, "R7, ", "R8, ", c.name, p, base)
		l.Row(retried, comparison.NewBound(id, "R10"+what+"locks beside NetChain, order", "times", comparison.AtLeast, 1, 0,
			p.kept()/base.kept()))
		from := comparison.Unjudged("the order is judged").Of(comparison.PublishedData)
		l.Row(from, comparison.NewRow(id, "R10"+what+"NetLock, locks", "MRPS", c.netlock, c.netlock, 0.4,
			p.kept()))
		l.Row(from, comparison.NewRow(id, "R10"+what+"NetChain, locks", "MRPS", c.netchain, c.netchain, 0.4,
			base.kept()))
		for _, of := range []struct {
			name string
			want float64
		}{{"DSLR", c.lDSLR}, {"DrTM", c.lDTM}} {
			l.Row(hardware(of.name+" needs RDMA and is not built"), comparison.NewRow(id, "R10, HW: "+c.name+" contention: "+
				of.name+", locks", "MRPS", of.want, of.want, 0, math.NaN()))
		}
		l.judged(id, c.name+" contention: ", p, base)
	}
	for _, of := range []struct {
		name          string
		average, tail float64
	}{{"DSLR", 20.3, 18.4}, {"DrTM", 66.8, 653.9}} {
		from := hardware(of.name + " needs RDMA and is not built")
		l.Row(from, comparison.NewRow(id, "R7, HW: mean time of a transaction, "+of.name+" beside NetLock, up to", "times",
			of.average, of.average, 0, math.NaN()))
		l.Row(from, comparison.NewRow(id, "R8, HW: 99th percentile, "+of.name+" beside NetLock, up to", "times", of.tail,
			of.tail, 0, math.NaN()))
	}
	return nil
}

// e6 has TPC-C with 6 clients and 6 servers: R9.
func e6(ctx context.Context, l *lab) error {
	const id = "E6"
	for i, name := range []string{"low", "high"} {
		p, base, err := l.beside(ctx, "e6", i, name)
		if err != nil {
			return err
		}
		l.Row(retried, comparison.NewBound(id, "R9, SIM: "+name+" contention: transactions beside NetChain, sign", "times",
			comparison.AtLeast, 1, 0, p.committed()/base.committed()).Noted("the source says up to 5.5; NetLock: "+
			p.note()+"; NetChain: "+base.note()))
		l.latencies(id, "R9, ", "R9, ", name, p, base)
		l.judged(id, name+" contention: ", p, base)
	}
	for _, of := range []struct {
		name               string
		tps, average, tail float64
	}{{"DSLR", 17.5, 11.8, 10.5}, {"DrTM", 33.1, 65.6, 602.8}} {
		from := hardware(of.name + " needs RDMA and is not built")
		for _, row := range []struct {
			what string
			want float64
		}{{"transactions", of.tps}, {"mean time", of.average}, {"99th percentile", of.tail}} {
			l.Row(from, comparison.NewRow(id, "R9, HW: "+row.what+" beside "+of.name+", up to", "times", row.want, row.want, 0,
				math.NaN()))
		}
	}
	return nil
}

// beside measures NetLock and NetChain at one contention.
func (l *lab) beside(ctx context.Context, file string, i int, name string) (netlock, netchain *point, err error) {
	points, err := l.measure(ctx, file+".yml", func(n int) bool { return n == i }, l.shorter)
	if err != nil {
		return nil, nil, err
	}
	base, err := l.measure(ctx, file+"-netchain-"+name+".yml", nil, l.shorter)
	if err != nil {
		return nil, nil, err
	}
	return points[0], base[0], nil
}

// shorter ends a test of a quick reproduction early.
func (l *lab) shorter(t *config.SwitchTest) {
	if l.Config.Quick {
		t.Duration = min(t.Duration, settledOf(t)+5*clock.Millisecond)
	}
}

// latencies compares the signs of how long transactions take.
func (l *lab) latencies(id, average, tail, name string, p, base *point) {
	from := comparison.FromChoice("*chosen*: the sign is compared; a transaction of NetChain starts anew when a request " +
		"is rejected").
		Of(comparison.PaperStatement)
	l.Row(from, comparison.NewBound(id, average+"SIM: "+name+" contention: mean time, NetChain beside NetLock", "times",
		comparison.AtLeast, 1, 0, mean(base.times)/mean(p.times)).Noted(fmt.Sprintf("%.1f and %.1f us", mean(base.times),
		mean(p.times))))
	l.Row(from, comparison.NewBound(id, tail+"SIM: "+name+" contention: 99th percentile, NetChain beside NetLock", "times",
		comparison.AtLeast, 1, 0, quantile(base.times, 0.99)/quantile(p.times, 0.99)).Noted(fmt.Sprintf("%.1f and %.1f us",
		quantile(base.times, 0.99), quantile(p.times, 0.99))))
}

// e8 compares how slots are given to locks: R11.
func e8(ctx context.Context, l *lab) error {
	const id = "E8"
	points, err := l.measure(ctx, "e8.yml", nil, l.shorter)
	if err != nil {
		return err
	}
	l.Row(stated, comparison.NewRow(id, "R11, SIM: locks, knapsack beside random", "times", 2.95, 2.95, 0.25,
		points[0].kept()/points[1].kept()).Noted(fmt.Sprintf("knapsack: %s; random: %s", points[0].note(), points[1].note())))
	plot := comparison.Plot{Name: "fig-2-13b", X: "time, us", Y: "share of grants",
		Title: "Figure 2-13b: from a client's request until the grant leaves the switch"}
	for i, name := range []string{"knapsack", "random"} {
		for k, who := range []string{"switch", "server"} {
			if d := points[i].took[k]; d.Count() > 0 {
				plot.Series = append(plot.Series, cdf(name+", by "+who, d))
			}
		}
		c := points[i].measured()
		l.Row(shown, comparison.NewRow(id, "R11, SIM: "+name+": share that the switch grants", "%", 0, 0, 0,
			100*float64(c.kept[0])/float64(max(1, c.kept[0]+c.kept[1]))).Noted(fmt.Sprintf("%.2f MRPS", points[i].kept())))
	}
	l.Plot(plot)
	l.judged(id, "", points...)
	return nil
}

// cdf draws a distribution of ns in us.
func cdf(name string, d *analyzers.Distribution) comparison.Series {
	const steps = 200
	s := comparison.Series{Name: name, Style: comparison.Line}
	for i := range steps {
		q := (float64(i) + 0.5) / steps
		s.X, s.Y = append(s.X, float64(d.Quantile(q))/1000), append(s.Y, q)
	}
	return s
}

// saturated is the share of the largest rate from which on a curve counts as saturated, and level is how far apart
// rates are that count as equal.
const saturated, level = 0.95, 1.15

// e9 has more and more slots: R12, R13.
func e9(ctx context.Context, l *lab) error {
	const id = "E9"
	thinks := []int{0, 5, 10, 100}
	points, err := l.measure(ctx, "e9-think.yml", func(i int) bool {
		return !l.Config.Quick || i/4 == 10 && (i%4 == 0 || i%4 == 3)
	}, l.shorter)
	if err != nil {
		return err
	}
	plot := comparison.Plot{Name: "fig-2-14a", Title: "Figure 2-14a: locks by slots and think time", X: "slots",
		Y: "locks, MRPS"}
	most := make(map[int]float64)
	for _, think := range thinks {
		line, bound := comparison.Series{Name: fmt.Sprintf("think %d us", think)}, 0.0
		var worst *point
		for _, p := range points {
			holding := p.Test.Workload[0].Values.Duration("think-us")
			if holding != clock.Duration(think)*clock.Microsecond {
				continue
			}
			slots := p.Test.Switch.Values.Int("slots")
			line.X, line.Y = append(line.X, float64(slots)), append(line.Y, p.kept())
			most[think] = max(most[think], p.kept())
			of := mrps(p.measured().kept[0], p.Test.Duration-p.settled) * 1e6 / Capacity(slots, cycleOf(p.Test, holding).Time())
			if of >= bound {
				bound, worst = of, p
			}
		}
		if worst == nil {
			continue
		}
		plot.Series = append(plot.Series, line)
		slots := worst.Test.Switch.Values.Int("slots")
		capacity := Capacity(slots, cycleOf(worst.Test, clock.Duration(think)*clock.Microsecond).Time()) / 1e6
		what := fmt.Sprintf("R12, SIM: think %d us: grants of the switch beside S/T, largest", think)
		l.Row(law, comparison.NewBound(id, what, "%", comparison.AtMost, 100, 0, 100*bound).Noted(fmt.Sprintf(
			"with %d slots, where S/T is %.2f MRPS", slots, capacity)))
	}
	l.Plot(plot)
	l.Row(stated, comparison.NewRow(id, "R12, SIM: think 0 beside 100 us, largest", "times", 14.4, 14.4, 0.3,
		most[0]/most[100]))
	absolute := comparison.Unjudged("the ratio is judged: the speed of a client's cores is not known").
		Of(comparison.PaperStatement)
	l.Row(absolute, comparison.NewRow(id, "R12, SIM: think 0, largest", "MRPS", 8.64, 8.64, 0.3, most[0]))
	l.Row(absolute, comparison.NewRow(id, "R12, SIM: think 100 us, largest", "MRPS", 0.6, 0.6, 0.3, most[100]))
	l.judged(id, "R12: ", points...)
	return l.knee(ctx, id)
}

// knee is R13.
func (l *lab) knee(ctx context.Context, id string) error {
	points, err := l.measure(ctx, "e9-slots.yml", func(i int) bool { return !l.Config.Quick || i%8 == 0 || i%8 == 3 },
		l.shorter)
	if err != nil {
		return err
	}
	plot := comparison.Plot{Name: "fig-2-14b", Title: "Figure 2-14b: locks by slots and allocation", X: "slots",
		Y: "locks, MRPS"}
	lines := []comparison.Series{{Name: "knapsack"}, {Name: "random"}}
	for _, p := range points {
		line := &lines[0]
		if p.Test.Switch.Values.Word("allocation") == "random" {
			line = &lines[1]
		}
		line.X = append(line.X, float64(p.Test.Switch.Values.Int("slots")))
		line.Y = append(line.Y, p.kept())
	}
	plot.Series = lines
	l.Plot(plot)
	knapsack, random := lines[0].Y, lines[1].Y
	highest := slices.Max(knapsack)
	knee := lines[0].X[slices.IndexFunc(knapsack, func(y float64) bool { return y >= saturated*highest })]
	from := comparison.FromChoice("*chosen*: 95 % of the largest rate count as saturated").
		Of(comparison.PaperStatement)
	if l.Config.Quick {
		from = comparison.Unjudged("two numbers of slots say only between which of them the rate saturates").
			Of(comparison.PaperStatement)
	}
	l.Row(from, comparison.NewRow(id, "R13, SIM: knapsack saturates", "slots", 2000, 4000, 0, knee).Noted(fmt.Sprintf(
		"%.2f of %.2f MRPS there", knapsack[slices.Index(lines[0].X, knee)], highest)))
	flat := comparison.FromChoice("*chosen*: that 15 % count as flat").
		Of(comparison.PaperStatement)
	l.Row(flat, comparison.NewBound(id, "R13, SIM: random, largest beside smallest", "times", comparison.AtMost, level, 0,
		slices.Max(random)/slices.Min(random)))
	l.judged(id, "R13: ", points...)
	return nil
}
