package netlock

import (
	"context"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/comparison"
)

// e3 has 12 clients contend for exclusive locks: R3.
func e3(ctx context.Context, l *lab) error {
	const id, clients = "E3", 12
	points, err := l.measure(ctx, "e3.yml", func(i int) bool { return !l.Config.Quick || i < 2 || i == 11 }, nil)
	if err != nil {
		return err
	}
	figure := comparison.Plot{Name: "fig-2-8c", Title: "Figure 2-8c: grants by number of locks", X: "locks",
		Y: "grants, MRPS"}
	latency := comparison.Plot{Name: "fig-2-8d", Title: "Figure 2-8d: time at the switch until the grant, mean",
		X: "locks", Y: "time, us"}
	measured, bound := comparison.Series{Name: "measured"}, comparison.Series{Name: "min(G, L/T_cyc)"}
	mean := comparison.Series{Name: "measured"}
	for _, p := range points {
		t := p.Test
		locks := t.Switch.Values.Int("locks")
		cycle := cycleOf(t, 0)
		// each transaction is two packets
		generated := clients / (2 * seconds(t.Hosts.Values.Duration("client-ns")))
		want, got := Throughput(generated, locks, cycle)/1e6, p.grants(t.Duration/4, t.Duration)
		l.Row(law, comparison.NewRow(id, fmt.Sprintf("R3, SIM: %d locks, grants", locks), "MRPS", want, want, 0.15, got).
			Noted(fmt.Sprintf("min(%.1f, %d/%.2f us); %s", generated/1e6, locks, us(cycle.Time()), p.note())))
		waited := float64(p.waited.Sum) / 1000 / float64(max(1, p.waited.Count))
		l.Row(shown, comparison.NewRow(id, fmt.Sprintf("R3, HW: %d locks, time at the switch until the grant, mean", locks),
			"us", 0, 0, 0, waited).Noted("the source says above 100 us for few locks, and a few us for many"))
		measured.X, measured.Y = append(measured.X, float64(locks)), append(measured.Y, got)
		bound.X, bound.Y = append(bound.X, float64(locks)), append(bound.Y, want)
		mean.X, mean.Y = append(mean.X, float64(locks)), append(mean.Y, waited)
	}
	figure.Series = append(figure.Series, measured, bound)
	latency.Series = append(latency.Series, mean)
	l.Plot(figure)
	l.Plot(latency)
	l.judged(id, "", points...)
	return nil
}

func us(d clock.Duration) float64 { return float64(d) / float64(clock.Microsecond) }

func seconds(d clock.Duration) float64 { return float64(d) / float64(clock.Second) }
