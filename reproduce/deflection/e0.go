package deflection

import (
	"context"
	"fmt"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// Variants of E0.
const (
	alone, dropTail, deep, simple, preempts, distributes = "alone", "drop-tail", "12mb", "sd", "pd", "pd-dist"
)

// seedsE0 are those of figure 5b, as in the source.
const seedsE0 = 5

// f5b emulates the testbed of figure 5b with the gates of §11.1: responses of a cache.
func f5b(ctx context.Context, l *lab) error {
	const id = "F5B"
	p99 := make(map[string]float64)
	shown := comparison.Unjudged("a testbed has other response times").Of(comparison.Hardware)
	for _, v := range []string{alone, dropTail, deep, simple, preempts, distributes} {
		s := &series{name: v, file: "e0-5b-" + v + ".yml"}
		if err := l.measure(ctx, s); err != nil {
			return err
		}
		var values, late []float64
		for i := range seedsE0 {
			p := l.of(s, i)
			if p == nil { // --loads leaves out seeds
				return nil
			}
			values = append(values, p.QCT.P99)
			late = append(late, float64(p.Timeouts))
		}
		p99[v] = experiments.Mean(values)
		l.Row(shown, comparison.NewRow(id, ""+v+": response, 99th percentile", "ms", 0, 0, 0, p99[v]).Noted(fmt.Sprintf(
			"of five seeds %.3g ms; timeouts %v", values, late)))
	}
	gate := comparison.FromChoice("the background is bursts of 16 KB in place of Iperf, a server takes 300 us, and the " +
		"least RTO is 200 ms: neither bursts nor response times are in the source; gates of the specification").
		Of(comparison.Hardware)
	for _, v := range []string{preempts, distributes} {
		l.Row(gate, comparison.NewBound(id, ""+v+" beside the cache alone", "times", comparison.AtMost, 1.10, 0,
			p99[v]/p99[alone]))
	}
	l.Row(gate, comparison.NewBound(id, "drop-tail beside pd", "times", comparison.AtLeast, 50, 0,
		p99[dropTail]/p99[preempts]))
	l.Row(gate, comparison.NewBound(id, "drop-tail beside sd", "times", comparison.AtLeast, 3, 0,
		p99[dropTail]/p99[simple]))
	for _, of := range []struct {
		what string
		a, b float64
		want float64
	}{
		{"drop-tail beside pd", p99[dropTail], p99[preempts], 425}, {"sd beside pd", p99[simple], p99[preempts], 51},
		{"12mb beside pd", p99[deep], p99[preempts], 199}, {"drop-tail beside pd-dist", p99[dropTail], p99[distributes], 437},
		{"drop-tail beside sd", p99[dropTail], p99[simple], 8},
	} {
		l.Row(shown, comparison.NewRow(id, "source: "+of.what, "times", of.want, of.want, ratioP99, of.a/of.b))
	}
	return nil
}

// f5c emulates figure 5c: bursts of important packets.
func f5c(ctx context.Context, l *lab) error {
	const id = "F5C"
	gate := comparison.FromChoice("bursts at 36 Gb/s: the source gives no rate; gates of the specification").
		Of(comparison.Hardware)
	for _, v := range []string{dropTail, deep, simple, preempts, distributes} {
		tests, err := l.Tests("e0-5c-" + v + ".yml")
		if err != nil {
			return err
		}
		whole := make([]float64, len(tests))
		err = l.Batch(ctx, len(tests), func(i int) error {
			run := experiments.NewRun(tests[i], 1)
			return l.Do(ctx, &run, nil, func(*orchestrator.Outcome) error {
				sent, came := int64(0), int64(0)
				for _, f := range run.Flows.Flows {
					if f.Tenant == 2 {
						sent, came = sent+f.Sent, came+f.Whole
					}
				}
				whole[i] = share(came, sent)
				return nil
			})
		})
		if err != nil {
			return err
		}
		for i, background := range []int{50, 90} {
			what := fmt.Sprintf("background of %d %%, %s: important packets that arrived", background, v)
			row := comparison.NewBound(id, what, "%", comparison.AtMost, 90, 0, whole[i])
			if v == preempts || v == distributes {
				row = comparison.NewBound(id, what, "%", comparison.AtLeast, 99.9, 0, whole[i])
			}
			l.Row(gate, row)
		}
	}
	return nil
}
