package hcsfq

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// shares is what tenants got.
type shares struct {
	Gbps     []float64 `json:"gbps"` // payload of each, the first at 0
	Timeouts [2]int64  `json:"timeouts"`
	Excess   int64     `json:"excess"` // packets that the drop test dropped, at all switches
	Tail     int64     `json:"tail"`   // packets that found a FIFO full
}

// tenantsS5 is the number of tenants, the first half of which have one flow for each host.
const tenantsS5 = 50

// quickS5 is the simulated time of a quick reproduction.
const quickS5 = 4 * ms

// tenants measures a scheme.
func (l *lab) tenants(ctx context.Context, s scheme) (*shares, error) {
	tests, err := l.Tests(s.file)
	if err != nil {
		return nil, err
	}
	t := tests[0]
	if l.Config.Quick {
		experiments.Shorten(t, quickS5)
	}
	got := &shares{Gbps: make([]float64, tenantsS5)}
	return got, l.Batch(ctx, 1, func(int) error {
		run := experiments.NewRun(t, 1)
		if known, err := l.Recall(s.file, &run, got); known || err != nil {
			return err
		}
		err := l.Do(ctx, &run, nil, func(out *orchestrator.Outcome) error {
			for name, n := range run.Counts {
				switch {
				case strings.HasSuffix(name, ".excess"):
					got.Excess += n
				case strings.HasSuffix(name, ".tail"):
					got.Tail += n
				}
			}
			return got.read(filepath.Join(out.Dir, "flows.csv"), float64(t.Duration)/float64(ms))
		})
		if err != nil {
			return err
		}
		return l.Keep(s.file, &run, got)
	})
}

// read takes shares from a table of flows of a test of so many ms.
func (s *shares) read(path string, took float64) error {
	return experiments.ReadTable(path, []string{"tenant", "payload", "timeouts"}, func(fields []string) error {
		tenant, err := strconv.Atoi(fields[0])
		if err != nil || tenant < 1 || tenant > tenantsS5 {
			return fmt.Errorf("tenant %q: %w", fields[0], err)
		}
		bytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return err
		}
		timeouts, err := strconv.ParseInt(fields[2], 10, 64)
		s.Gbps[tenant-1] += float64(8*bytes) / 1e6 / took
		s.Timeouts[(tenant-1)/(tenantsS5/2)] += timeouts
		return err
	})
}

// s5 has 50 tenants with endless flows: Q16.
func (h setting) s5(ctx context.Context, l *lab) error {
	const set = "Q16: "
	id, why := "S5"+h.mark, h.because("pairs of VMs, the time (20 ms, from the start on) and what is about are ours")
	origin := comparison.FromChoice(why).Of(comparison.PaperStatement)
	calibrated := comparison.FromChoice(why).Of(comparison.SpecCalibration)
	if l.Config.Quick {
		origin = comparison.Unjudged("4 ms are a start, not a steady state").Of(comparison.PaperStatement)
		calibrated = origin
	}
	p := comparison.Plot{Name: "fig-3-19" + h.suffix, Title: "Figure 3-19: throughput of tenants", X: "tenant", Y: "Gb/s"}
	for _, s := range h.schemes("s5") {
		got, err := l.tenants(ctx, s)
		if err != nil {
			return err
		}
		one, two := experiments.Mean(got.Gbps[:tenantsS5/2]), experiments.Mean(got.Gbps[tenantsS5/2:])
		note := fmt.Sprintf("tenants 1 to 25: %.3g Gb/s and %d timeouts; 26 to 50: %.3g and %d; drops of the test %d, of "+
			"full FIFOs %d", one, got.Timeouts[0], two, got.Timeouts[1], got.Excess, got.Tail)
		jain, ratio := waterfill.Jain(got.Gbps), two/one
		ratioRow := func(want float64) {
			l.Row(origin, comparison.NewRow(id, set+s.name+": tenants with two VMs a host beside those with one", "times", want,
				want, 0.1, ratio))
		}
		if s.name == "HCSFQ" {
			l.Row(calibrated, comparison.NewBound(id, set+s.name+": Jain's index of tenants", "", comparison.AtLeast, 0.98, 0,
				jain).Noted(note))
			ratioRow(1)
		} else {
			l.Row(calibrated, comparison.NewRow(id, set+s.name+": Jain's index of tenants", "", 0.9, 0.9, 0.03, jain).
				Noted(note))
			ratioRow(2)
		}
		line := comparison.Series{Name: s.name, Style: comparison.Dots}
		for i, gbps := range got.Gbps {
			line.X, line.Y = append(line.X, float64(i+1)), append(line.Y, gbps)
		}
		p.Series = append(p.Series, line)
	}
	l.Plot(p)
	return nil
}
