package aifo

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// ranksS5 is how many ranks S5 has; at a load of 2 the first half of them, of equal rates, take all the capacity.
const ranksS5 = 10

// outcomeS5 is what a queue of S5 did.
type outcomeS5 struct {
	gap, queue float64 // gap to PIFO; packets that wait on average
	came, left [ranksS5 + 1]float64
}

// abstract runs a test of S5 with settings of its model.
func (l *lab) abstract(ctx context.Context, file string, settings ...string) (*outcomeS5, error) {
	tests, err := l.Tests(file)
	if err != nil {
		return nil, err
	}
	if err := switchtest.Change(tests[0], settings); err != nil {
		return nil, err
	}
	o := &outcomeS5{gap: math.NaN(), queue: math.NaN()}
	run := experiments.NewRun(tests[0], 1)
	return o, l.Batch(ctx, 1, func(int) error {
		return l.Do(ctx, &run, func(net *fabric.Network) {
			net.Switch(0).Watch(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
				switch {
				case at.Stage == fabric.Ingress && p.Rank <= ranksS5:
					o.came[p.Rank]++
				case at.Stage == fabric.Egress && p.Rank <= ranksS5:
					o.left[p.Rank]++
				}
			})
		}, func(out *orchestrator.Outcome) error { return o.read(out) })
	})
}

// read takes the gap from the judge and the queue from the statistics.
func (o *outcomeS5) read(out *orchestrator.Outcome) error {
	for _, m := range out.Analysis.Metrics {
		if m.Name == "rank.gap" && len(m.Values) == 1 {
			o.gap = float64(m.Values[0]) / 1e6
		}
	}
	data, err := os.ReadFile(filepath.Join(out.Dir, "queues.json"))
	if err != nil {
		return err
	}
	var queues struct {
		Queues []struct {
			Port int     `json:"port"`
			Mean float64 `json:"mean_packets"`
		} `json:"queues"`
	}
	if err := json.Unmarshal(data, &queues); err != nil {
		return fmt.Errorf("queues.json: %w", err)
	}
	for _, q := range queues.Queues {
		if q.Port == ranksS5 {
			o.queue = q.Mean
		}
	}
	return nil
}

// s5 measures the gap to PIFO of 400,000 packets without a transport.
func s5(ctx context.Context, l *lab) error {
	const id = "S5"
	from := comparison.FromMechanism("").Of(comparison.SpecCalibration)
	bound := comparison.FromMechanism("theorem 3").Of(comparison.PaperStatement)
	for _, r := range []struct {
		rates                    string
		size, sample             int // C = n, s
		aifo, spPIFO, fifo, mean float64
	}{
		{"equal", 20, 15, 0.100, 0.078, 0.493, 12.4},
		{"equal", 100, 1, 0.056, 0.031, 0.497, 60.6},
		{"equal", 1000, 1, 0.013, 0.007, 0.498, 593},
		{"rising", 1000, 1, 0.028, 0.133, 0.493, 644},
		{"falling", 1000, 1, 0.039, 0.036, 0.492, 592},
	} {
		set := []string{fmt.Sprint("aifo.target-packets=", r.size), fmt.Sprint("aifo.window=", r.size),
			fmt.Sprint("aifo.sample=", r.sample)}
		aifo, err := l.abstract(ctx, "s5-"+r.rates+".yml", set...)
		if err != nil {
			return err
		}
		// With a headroom of nearly all of the queue AIFO admits whatever fits: FIFO.
		fifo, err := l.abstract(ctx, "s5-"+r.rates+".yml", append(set, "aifo.headroom=0.9999")...)
		if err != nil {
			return err
		}
		strict, err := l.abstract(ctx, "s5-"+r.rates+"-sp-pifo.yml",
			fmt.Sprint("sp-pifo.packets-per-queue=", (r.size+7)/8))
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s rates, C = n = %d, s = %d: ", r.rates, r.size, r.sample)
		gap := func(scheme string, want, got float64) {
			l.Row(from, comparison.NewRow(id, what+"gap to PIFO, "+scheme, "", want, want, 0.15, got))
		}
		gap("AIFO", r.aifo, aifo.gap)
		gap("SP-PIFO", r.spPIFO, strict.gap)
		gap("FIFO", r.fifo, fifo.gap)
		five := 0.05 * float64(r.size)
		l.Row(from, comparison.NewRow(id, what+"packets that wait, AIFO", "", r.mean-five, r.mean+five, 0, aifo.queue))
		if r.size < 100 || r.rates != "equal" {
			continue
		}
		least, most := 1.0, 0.0
		for rank := 1; rank <= ranksS5; rank++ {
			share := aifo.left[rank] / aifo.came[rank]
			if rank < ranksS5/2 {
				least = min(least, share)
			}
			if rank >= ranksS5/2+2 {
				most = max(most, share)
			}
		}
		l.Row(bound, comparison.NewBound(id, what+"least share of ranks 1 to 4 that AIFO sends", "%",
			comparison.AtLeast, 95, 0,
			100*least))
		l.Row(bound, comparison.NewBound(id, what+"greatest share of ranks 7 to 10 that AIFO sends", "%",
			comparison.AtMost, 5,
			0, 100*most))
	}
	return nil
}
