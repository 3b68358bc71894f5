package netlock

import (
	"context"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// e1 has shared locks: R1, R2.
func e1(ctx context.Context, l *lab) error {
	return l.flat(ctx, "E1", "e1.yml", "2-8a", "shared locks")
}

// e2 has exclusive locks without contention: R1.
func e2(ctx context.Context, l *lab) error {
	return l.flat(ctx, "E2", "e2.yml", "2-8b", "exclusive locks without contention")
}

// flat compares the time until a grant at growing loads.
func (l *lab) flat(ctx context.Context, id, file, number, what string) error {
	points, err := l.measure(ctx, file, func(i int) bool { return !l.Config.Quick || i == 0 || i == 5 }, nil)
	if err != nil {
		return err
	}
	plot := comparison.Plot{Name: "fig-" + number, Title: "Figure " + number + ": time until the grant, " + what,
		X: "grants, MRPS", Y: "time, us", FromZero: true}
	quantiles := []struct {
		name string
		of   func(p *point) float64
		want float64
	}{
		{"median", func(p *point) float64 { return p.quantile(0.5) }, 8},
		{"mean", func(p *point) float64 { return p.mean / 1000 }, 7.1},
		{"99th percentile", func(p *point) float64 { return p.quantile(0.99) }, 12},
		{"99.9th percentile", func(p *point) float64 { return p.quantile(0.999) }, 14},
	}
	for _, q := range quantiles {
		line := comparison.Series{Name: q.name}
		for _, p := range points {
			line.X = append(line.X, p.grants(p.Test.Duration/4, p.Test.Duration))
			line.Y = append(line.Y, q.of(p))
		}
		plot.Series = append(plot.Series, line)
	}
	l.Plot(plot)
	first, last := points[0], points[len(points)-1]
	for i, q := range quantiles {
		from := hardware("hosts of the source")
		if i == 1 {
			from = comparison.FromConstant("*chosen*: the delay of hosts").Of(comparison.Hardware)
		}
		l.Row(from, comparison.NewRow(id, "R1, HW: time until the grant, "+q.name, "us", q.want, q.want, 0.05, q.of(first)))
	}
	least, most := plot.Series[2].Y[0], plot.Series[2].Y[0]
	for _, y := range plot.Series[2].Y {
		least, most = min(least, y), max(most, y)
	}
	l.Row(stated, comparison.NewBound(id, "R1, SIM: 99th percentile, largest beside smallest", "%", comparison.AtMost, 5,
		0, 100*(most/least-1)).Noted(fmt.Sprintf("at %.1f to %.1f MRPS; %s", plot.Series[0].X[0],
		plot.Series[0].X[len(points)-1], last.note())))
	if id == "E1" {
		c := cycleOf(first.Test, 0)
		outside := c.Host + c.Link - first.Test.Hosts.Values.Duration("host-jitter-ns")
		l.Row(comparison.FromConstant("latency-ns of the model").Of(comparison.Hardware), comparison.NewBound(id,
			"R2, HW: shortest time until the grant without hosts and links", "us", comparison.AtMost, 1, 0,
			first.quantile(0)-us(outside)).Noted("more than 4 billion packets/s are not simulated"))
	}
	l.judged(id, "", points...)
	return nil
}

// e4 compares a lock server of 8 cores and a switch: R4.
func e4(ctx context.Context, l *lab) error {
	const id, cores = "E4", 4
	plot := comparison.Plot{Name: "fig-2-9", Title: "Figure 2-9: grants by cores of a lock server, and of a switch",
		X: "cores of the server", Y: "grants, MRPS"}
	var all []*point
	for _, w := range []struct {
		file, what, short string
		points            int // of lock servers, before as many of the switch
	}{{"e4-shared.yml", "shared", "shared", 1}, {"e4.yml", "exclusive without contention", "exclusive", cores},
		{"e4-contended.yml", "exclusive, 5000 locks", "contended", 1}} {
		last := 2*w.points - 1
		points, err := l.measure(ctx, w.file, func(i int) bool {
			return i == last || i < w.points && (!l.Config.Quick || i == w.points-1)
		}, nil)
		if err != nil {
			return err
		}
		all = append(all, points...)
		half := func(p *point) float64 { return p.grants(p.Test.Duration/2, p.Test.Duration) }
		n := len(points)
		server, both := points[n-2], points[n-1]
		l.Row(stated, comparison.NewRow(id, "R4, SIM: "+w.what+": switch beside server of 8 cores", "times", 7, 7, 0.1,
			half(both)/half(server)).Noted(fmt.Sprintf("switch: %s; server: %s", both.note(), server.note())))
		l.Row(comparison.FromConstant("server-ns and server-cores").Of(comparison.PaperStatement),
			comparison.NewBound(id, "R4, SIM: "+w.what+": packets that the server takes", "MRPS", comparison.AtMost, 18, 0.001,
				mrps(server.sum("lock-server.packets"), server.Test.Duration)))
		line, of := comparison.Series{Name: "server, " + w.short}, comparison.Series{Name: "switch, " + w.short}
		for _, p := range points[:n-1] {
			k := float64(p.Test.Hosts.Values.Int("server-cores"))
			line.X, line.Y = append(line.X, k), append(line.Y, half(p))
			of.X, of.Y = append(of.X, k), append(of.Y, half(both))
		}
		plot.Series = append(plot.Series, line, of)
	}
	l.Plot(plot)
	l.judged(id, "", all...)
	return nil
}

// e7 has tenants with priorities and with quotas: R14, R15.
func e7(ctx context.Context, l *lab) error {
	const id = "E7"
	points, err := l.measure(ctx, "e7-priorities.yml", nil, nil)
	if err != nil {
		return err
	}
	all := points
	const settled = 500 * clock.Microsecond // after the second tenant has joined
	for i, p := range points {
		end := p.Test.Duration
		c := p.between(end/2+settled, end)
		low, high := float64(c.tenants[1]), float64(c.tenants[2])
		note := fmt.Sprintf("the second tenant joins after %g ms; %.2f and %.2f MRPS", us(end/2)/1000,
			mrps(c.tenants[1], end/2-settled), mrps(c.tenants[2], end/2-settled))
		name := "fig-2-12a-without"
		if i == 0 {
			l.Row(stated, comparison.NewBound(id, "R14, SIM: without priorities: Jain's index of tenants", "",
				comparison.AtLeast, 0.98, 0, (low+high)*(low+high)/2/(low*low+high*high)).Noted(note))
		} else {
			l.Row(stated, comparison.NewBound(id, "R14, SIM: with priorities: high beside low", "times", comparison.AtLeast, 2,
				0, high/max(1, low)).Noted(note))
			name = "fig-2-12a-with"
		}
		title := "Figure 2-12a: grants of tenants, " + []string{"without", "with"}[i] + " priorities; tenant 2 joins at 2 ms"
		// A lock has few grants in a bin of 20 us.
		l.Plot(p.ofTenants(name, title, 5, [2][tenants]string{{}, {", low priority", ", high priority"}}[i]))
	}
	if points, err = l.measure(ctx, "e7-quota.yml", nil, nil); err != nil {
		return err
	}
	all = append(all, points...)
	for i, p := range points {
		c := p.between(0, p.Test.Duration)
		share := 100 * float64(c.tenants[1]) / float64(max(1, c.all()))
		note := "the period of a second is divided by 50; " + p.note()
		if i == 0 {
			l.Row(stated, comparison.NewRow(id, "R15, SIM: without isolation: share of tenant 1", "%", 70, 70, 0.1, share).
				Noted(note))
		} else {
			l.Row(stated, comparison.NewRow(id, "R15, SIM: with isolation: share of tenant 1", "%", 50, 50, 0.03, share).
				Noted(note))
		}
		l.Plot(p.ofTenants([]string{"fig-2-12b-without", "fig-2-12b-with"}[i], "Figure 2-12b: grants of tenants, "+
			[]string{"without", "with"}[i]+" quotas", 1, [tenants]string{", 7 clients", ", 3 clients"}))
	}
	l.judged(id, "", all...)
	return nil
}

// ofTenants draws the grants of tenants over time, in so many bins together, and says what they are.
func (p *point) ofTenants(name, title string, together int, are [tenants]string) comparison.Plot {
	plot := comparison.Plot{Name: name, Title: title, X: "time, ms", Y: "grants, MRPS"}
	for tenant := 1; tenant <= tenants; tenant++ {
		plot.Series = append(plot.Series, p.line(fmt.Sprint("tenant ", tenant, are[tenant-1]), together,
			func(c *counts) int64 { return c.tenants[tenant] }))
	}
	return plot
}

// e10 stops the switch: R16.
func e10(ctx context.Context, l *lab) error {
	const id, stop, start = "E10", 200 * clock.Millisecond, 300 * clock.Millisecond
	points, err := l.measure(ctx, "e10.yml", nil, nil)
	if err != nil {
		return err
	}
	p := points[0]
	// The source's second, divided by 50, after the lease.
	back := start + p.Test.Switch.Values.Duration("lease-us") + clock.Second/50
	note := "the outage of 5 s is divided by 50, and so is the second after the lease; " + p.note()
	outage := p.between(stop, start)
	l.Row(stated, comparison.NewRow(id, "R16, SIM: grants in the outage", "", 0, 0, 0, float64(outage.all())).Noted(note))
	l.Row(stated, comparison.NewBound(id, "R16, SIM: grants after T_lease and a second beside before", "%",
		comparison.AtLeast, 95, 0, 100*p.grants(back, p.Test.Duration)/p.grants(stop/2, stop)).Noted(note))
	l.Plot(comparison.Plot{Name: "fig-2-15", Title: "Figure 2-15: the switch stops and returns", X: "time, ms",
		Y: "grants, MRPS",
		Series: []comparison.Series{
			p.line("by the switch", 1, func(c *counts) int64 { return c.bySwitch }),
			p.line("by servers", 1, func(c *counts) int64 { return c.byServer })}})
	l.judged(id, "", p)
	return failover(ctx, l)
}

// failover stops a switch that has a backup.
func failover(ctx context.Context, l *lab) error {
	const id = "E10"
	points, err := l.measure(ctx, "failover.yml", nil, nil)
	if err != nil {
		return err
	}
	p := points[0]
	taken := p.Test.Changes[0].At + p.Test.Topology.Reroute()
	early := p.between(taken, taken+p.Test.Switch.Values.Duration("lease-us"))
	l.Row(law, comparison.NewRow(id, "N13, SIM: grants by the backup in T_lease after it took over", "", 0, 0, 0,
		float64(early.byBackup)).Noted(p.note()))
	l.Plot(comparison.Plot{Name: "failover", Title: "A switch with a backup stops and returns", X: "time, ms",
		Y: "grants, MRPS",
		Series: []comparison.Series{
			p.line("by the original", 1, func(c *counts) int64 { return c.bySwitch - c.byBackup }),
			p.line("by the backup", 1, func(c *counts) int64 { return c.byBackup }),
			p.line("by servers", 1, func(c *counts) int64 { return c.byServer })}})
	l.judged(id, "with a backup: ", p)
	return nil
}
