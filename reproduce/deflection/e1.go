package deflection

import (
	"context"
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// Quick sizes. Of E1 and E2 a network of 80 hosts, whose queries ask 75 servers instead of 100: what switches carry is
// shared by as many hosts as in the source, and leaf switches have as many neighbours (E1). Of E3 k = 6.
const (
	quickE1 = 60 * clock.Millisecond
	quickE2 = 30 * clock.Millisecond
	quickE3 = 40 * clock.Millisecond
)

func smallE1() []edit {
	return []edit{{"leaves: 8, spines: 4, hosts-per-leaf: 40", "leaves: 4, spines: 4, hosts-per-leaf: 20"},
		{"trunk: {gbps: 40", "trunk: {gbps: 20"}, {"servers: 100", "servers: 75"},
		{"[2000, 6000, 10000, 14000, 18000]", "[667, 2000, 3333, 4667, 6000]"}}
}

func smallE2() []edit {
	return []edit{{"leaves: 8, spines: 4, hosts-per-leaf: 40", "leaves: 4, spines: 2, hosts-per-leaf: 20"},
		{"servers: 100", "servers: 75"}, {"[5000, 15000, 25000, 35000, 45000]", "[1667, 5000, 8333, 11667, 15000]"}}
}

func smallE3() []edit {
	return []edit{{"k: 8", "k: 6"}, {"servers: 100", "servers: 50"},
		{"[2000, 6000, 10000, 14000, 18000]", "[1688, 5063, 8438, 11813, 15188]"}}
}

// of1 returns a scheme of E1 at some loads, of2 and of3 of E2 and E3.
func of1(name, file string, at ...int) *series {
	return &series{name: name, file: "e1-" + file + ".yml", loads: at, quick: quickE1, small: smallE1()}
}

func of2(name, file string, at ...int) *series {
	return &series{name: name, file: "e2-" + file + ".yml", loads: at, quick: quickE2, small: smallE2()}
}

func of3(name, file string, at ...int) *series {
	return &series{name: name, file: "e3-" + file + ".yml", loads: at, quick: quickE3, small: smallE3()}
}

// table1 is §11.2: 99th percentiles of QCT.
func table1() []published {
	of := func(name, file string, seconds ...float64) published {
		p := published{series: *of1(name, file)}
		for i, s := range seconds {
			p.p99[i] = 1000 * s
		}
		return p
	}
	return []published{
		of("ECMP", "ecmp", .033, .042, .044, .072, .113), of("DIBS", "dibs", .013, .034, .076, .164, .281),
		of("AIFO", "aifo", .151, .161, .311, .342, .641), of("Vertigo", "vertigo", .014, .018, .018, .021, .023),
		of("PD", "pd", .014, .019, .036, .047, .086), of("PD-LAS", "pd-las", .016, .034, .044, .055, .076),
	}
}

// e1 compares with table 1.
func e1(ctx context.Context, l *lab) error {
	const id = "E1"
	list := table1()
	for i := range list {
		if err := l.measure(ctx, &list[i].series); err != nil {
			return err
		}
	}
	for i, load := range loads() {
		for k := range list {
			if p := l.of(&list[k].series, i); p != nil {
				want := list[k].p99[i]
				l.Row(l.magnitude(comparison.PaperStatement), comparison.NewRow(id, at(load)+list[k].name+
					": QCT, 99th percentile", "ms", want, want, ratioP99, p.QCT.P99).Noted(fmt.Sprintf("mean %.3g ms; %s",
					p.QCT.Mean, p.note())))
			}
		}
	}
	l.shapeE1(id, list)
	l.plotLoads("table-1", "Table 1", named(list))
	l.plotPorts("table-1", "Table 1", named(list))
	return nil
}

// shapeE1 adds the shape checks of §11.2.
func (l *lab) shapeE1(id string, list []published) {
	const ecmp, dibs, aifo, vertigo, pd, las = 0, 1, 2, 3, 4, 5
	of := func(scheme, i int) *point { return l.of(&list[scheme].series, i) }
	above := func(i int, what string, a, b int) {
		l.above(id, at(loads()[i])+what, p99QCT, of(a, i), of(b, i), comparison.PaperStatement)
	}
	for k := range list {
		if k != dibs && k != aifo { // AIFO is worst at every load
			above(0, list[k].name+" beside DIBS", k, dibs)
		}
	}
	above(1, "before they cross, ECMP beside DIBS", ecmp, dibs)
	above(2, "after they cross, DIBS beside ECMP", dibs, ecmp)
	for i := range loads() {
		for k := range list {
			if k != aifo {
				above(i, "AIFO beside "+list[k].name, aifo, k)
			}
		}
		above(i, "PD beside Vertigo", pd, vertigo)
		above(i, "ECMP beside PD", ecmp, pd)
		if loads()[i] == 95 {
			above(i, "PD beside PD-LAS", pd, las)
		} else {
			above(i, "PD-LAS beside PD", las, pd)
		}
	}
	least, most := math.Inf(1), 0.0
	for i := range loads() {
		if p := of(vertigo, i); p != nil && p.QCT.P99 > 0 {
			least, most = min(least, p.QCT.P99), max(most, p.QCT.P99)
		}
	}
	if most > 0 {
		l.Row(l.shape(comparison.PaperStatement), comparison.NewBound(id, "Vertigo, largest beside smallest of the loads: "+
			p99QCT.name, "times", comparison.AtMost, 1.7, 0, most/least))
	}
}

// claim is a ratio that the text states.
type claim struct {
	load   int
	a, b   *series
	metric metric
	want   float64
}

// claims measures what is compared, shows each ratio, and judges which of the two is larger.
func (l *lab) claims(ctx context.Context, id string, list []claim) error {
	for _, c := range list {
		for _, s := range []*series{c.a, c.b} {
			if err := l.measure(ctx, s); err != nil {
				return err
			}
		}
	}
	for _, c := range list {
		i := slices.Index(loads(), c.load)
		a, b := l.of(c.a, i), l.of(c.b, i)
		if a == nil || b == nil {
			continue
		}
		what := at(c.load) + c.a.name + " beside " + c.b.name
		tolerance := ratioMean
		if c.metric.name == p99QCT.name || c.metric.name == p99FCT.name {
			tolerance = ratioP99
		}
		l.Row(l.magnitude(comparison.PaperStatement), comparison.NewRow(id, what+": "+c.metric.name, "times", c.want, c.want,
			tolerance, c.metric.ratio(a, b)))
		switch {
		case c.want > 1+tie:
			l.above(id, what, c.metric, a, b, comparison.PaperStatement)
		case c.want < 1-tie:
			l.above(id, at(c.load)+c.b.name+" beside "+c.a.name, c.metric, b, a, comparison.PaperStatement)
		}
	}
	return nil
}

// More metrics.
var (
	goodputLarge = metric{"goodput of flows from 10 MB on", func(p *point) float64 { return p.Large }}
	reordering   = metric{"data out of order", func(p *point) float64 { return share(p.Reordered, p.Data) }}
	drops        = metric{"drops (none as one)", func(p *point) float64 { return share(max(1, p.Dropped), p.Sent) }}
)

// f6 compares schemes with Reno, DCTCP, Swift and Bolt.
func f6(ctx context.Context, l *lab) error {
	const id = "F6"
	ends := []int{55, 95}
	ecmp, dibs, sd := of1("ECMP", "ecmp", ends...), of1("DIBS", "dibs", ends...), of1("SD", "sd", ends...)
	vertigo, pd := of1("Vertigo", "vertigo", ends...), of1("PD", "pd", ends...)
	reno := func(name, file string) *series { return of1("Reno, "+name, "reno-"+file, 55) }
	swift := func(name, file string) *series { return of1("Swift, "+name, "swift-"+file, ends...) }
	bolt := func(name, file string) *series { return of1("Bolt, "+name, "bolt-"+file, 95) }
	return l.claims(ctx, id, []claim{
		{55, ecmp, sd, meanQCT, 1 / 0.29}, {55, ecmp, dibs, meanQCT, 1 / 0.29}, {55, ecmp, sd, p99QCT, 2.4},
		{55, sd, vertigo, meanQCT, 1 - 0.0525}, {55, sd, vertigo, p99QCT, 1 - 0.0354},
		{55, reno("ECMP", "ecmp"), reno("SD", "sd"), meanQCT, 1 / 0.49},
		{95, sd, ecmp, meanFCT, 1.57}, {95, sd, ecmp, meanQCT, 2},
		{95, pd, ecmp, meanQCT, 0.69}, {95, pd, sd, meanQCT, 0.31}, {95, pd, ecmp, p99QCT, 0.76},
		{95, pd, sd, p99QCT, 0.31},
		{95, pd, vertigo, meanQCT, 2.35},
		{95, swift("ECMP", "ecmp"), swift("PD", "pd"), meanQCT, 2},
		{95, swift("ECMP", "ecmp"), swift("PD", "pd"), p99QCT, 2.5},
		{95, swift("AIFO", "aifo"), swift("PD", "pd"), meanQCT, 9},
		{95, swift("DIBS", "dibs"), swift("PD", "pd"), meanQCT, 3},
		{95, swift("PD", "pd"), swift("Vertigo", "vertigo"), p99QCT, 0.96},
		{55, swift("ECMP", "ecmp"), swift("SD", "sd"), p99QCT, 1 / 0.64},
		{95, pd, swift("PD", "pd"), drops, 52}, {95, pd, swift("PD", "pd"), meanQCT, 3.5},
		{95, swift("PD", "pd"), swift("ECMP", "ecmp"), p99FCT, 0.48},
		{95, swift("Dist-PD", "pd-dist"), swift("PD", "pd"), meanQCT, 1},
		{95, bolt("ECMP", "ecmp"), bolt("PD", "pd"), p99QCT, 2.5}, {95, bolt("DIBS", "dibs"), bolt("PD", "pd"), p99QCT, 2},
		{95, pd, bolt("PD", "pd"), drops, 153}, {95, pd, bolt("PD", "pd"), meanQCT, 6},
		{95, bolt("PD", "pd"), bolt("ECMP", "ecmp"), p99FCT, 0.65},
		{95, bolt("Dist-PD", "pd-dist"), bolt("PD", "pd"), meanQCT, 1},
	})
}

// f7 compares goodput, and f8 reordering.
func f7(ctx context.Context, l *lab) error {
	return l.claims(ctx, "F7", []claim{
		{95, of1("PD", "pd", 95), of1("Vertigo", "vertigo", 95), goodputLarge, 1.2},
		{95, of1("SD", "sd", 95), of1("DIBS", "dibs", 95), goodputLarge, 1},
	})
}

func f8(ctx context.Context, l *lab) error {
	ecmp := of1("ECMP", "ecmp", 95)
	return l.claims(ctx, "F8", []claim{
		{95, of1("Vertigo", "vertigo", 95), ecmp, reordering, 3.3}, {95, of1("PD", "pd", 95), ecmp, reordering, 2.4},
		{95, of1("Vertigo", "vertigo", 95), ecmp, meanQCT, 0.30}, {95, of1("PD", "pd", 95), ecmp, meanQCT, 0.69},
	})
}

// f9 varies how much each server sends, figure 9b, and how many send, figure 9a.
func f9(ctx context.Context, l *lab) error {
	const id = "F9"
	sized := func(name, file string, kb int) *series {
		s := of1(fmt.Sprintf("%s, %d KB", name, kb), file, 65)
		s.tag = fmt.Sprint(kb, "kb")
		s.edits = []edit{{"size-bytes: 40000", fmt.Sprintf("size-bytes: %d", 1000*kb)}}
		return s
	}
	if err := l.claims(ctx, id, []claim{
		{65, sized("PD", "pd", 100), sized("ECMP", "ecmp", 100), p99QCT, 0.72},
		{65, sized("PD", "pd", 100), sized("DIBS", "dibs", 100), p99QCT, 0.76},
	}); err != nil {
		return err
	}
	return l.f9a(ctx, id)
}

// smallF9a is the quick size of figure 9a: that of E1, with three quarters of the servers.
func smallF9a() []edit {
	return []edit{{"leaves: 8, spines: 4, hosts-per-leaf: 40", "leaves: 4, spines: 4, hosts-per-leaf: 20"},
		{"trunk: {gbps: 40", "trunk: {gbps: 20"}, {"queries-per-s: 4000", "queries-per-s: 1333"},
		{"[50, 150, 250, 350, 450]", "[38, 112, 188, 262, 338]"}}
}

// f9a varies how many servers a query asks: 50 at 55 % to 450 at 95 %.
func (l *lab) f9a(ctx context.Context, id string) error {
	of := func(name, file string, load int) *series {
		servers := 50 + 10*(load-55)
		return &series{name: fmt.Sprintf("%s, %d servers", name, servers), file: "fig-9a-" + file + ".yml",
			loads: []int{load}, quick: quickE1, small: smallF9a()}
	}
	pd := of("PD", "pd", 95)
	if err := l.claims(ctx, id, []claim{
		{95, of("ECMP", "ecmp", 95), pd, p99FCT, 2}, {95, of("DIBS", "dibs", 95), pd, p99FCT, 4},
		{95, pd, of("Dist-PD", "pd-dist", 95), meanQCT, 0.66},
	}); err != nil {
		return err
	}
	breaks := comparison.Unjudged("figure 9a: SD breaks beyond 150 servers, without a value").
		Of(comparison.PaperStatement)
	for i, load := range loads()[:3] {
		sd, ecmp := of("SD", "sd", load), of("ECMP", "ecmp", load)
		if err := l.measure(ctx, sd, ecmp); err != nil {
			return err
		}
		if a, b := l.of(sd, i), l.of(ecmp, i); a != nil && b != nil {
			l.Row(breaks, comparison.NewRow(id, at(load)+sd.name+" beside ECMP: "+meanQCT.name, "times", 0, 0, 0,
				meanQCT.ratio(a, b)).Noted(fmt.Sprintf("%.3g ms; %s", a.QCT.Mean, a.note())))
		}
	}
	return nil
}

// f10 has a fat-tree.
func f10(ctx context.Context, l *lab) error {
	ends := []int{55, 95}
	ecmp, aifo, sd := of3("ECMP", "ecmp", ends...), of3("AIFO", "aifo", ends...), of3("SD", "sd", ends...)
	pd := of3("PD", "pd", ends...)
	return l.claims(ctx, "F10", []claim{
		{55, aifo, ecmp, meanQCT, 3}, {55, aifo, sd, meanQCT, 10}, {55, aifo, pd, meanQCT, 10},
		{95, ecmp, sd, p99QCT, 2}, {95, pd, sd, meanQCT, 0.67}, {95, pd, sd, p99QCT, 0.58},
	})
}

// f11 has links of 100 Gb/s, and f17 compares transports there.
func f11(ctx context.Context, l *lab) error {
	swift := func(name, file string) *series { return of2(name, "swift-"+file, 85) }
	return l.claims(ctx, "F11", []claim{
		{85, swift("ECMP", "ecmp"), swift("PD", "pd"), meanQCT, 6},
		{85, swift("AIFO", "aifo"), swift("PD", "pd"), meanQCT, 18},
		{85, swift("SD", "sd"), swift("PD", "pd"), meanQCT, 7},
	})
}

func f17(ctx context.Context, l *lab) error {
	return l.claims(ctx, "F17", []claim{
		{75, of1("PD", "pd", 75), of1("Vertigo", "vertigo", 75), meanQCT, 1.68},
		{75, of1("Swift, PD", "swift-pd", 75), of1("Swift, ECMP", "swift-ecmp", 75), p99QCT, 0.66},
		{75, of1("Swift, PD", "swift-pd", 75), of1("Swift, Vertigo", "swift-vertigo", 75), p99QCT, 0.91},
		{85, of2("100 Gb/s, Swift, PD", "swift-pd", 85), of2("100 Gb/s, PD", "pd", 85), meanQCT, 0.83},
		{85, of2("100 Gb/s, Swift, PD", "swift-pd", 85), of2("100 Gb/s, PD", "pd", 85), p99QCT, 0.70},
	})
}

// f13 compares PD with PD at random.
func f13(ctx context.Context, l *lab) error {
	random, pd := of1("PD at random", "pd-probabilistic", 55, 95), of1("PD", "pd", 55, 95)
	return l.claims(ctx, "F13", []claim{
		{95, random, pd, meanQCT, 2.7}, {95, random, pd, p99QCT, 2.3}, {55, random, pd, meanQCT, 1},
	})
}
