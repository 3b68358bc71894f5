package deflection

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// quickT2 is the simulated time of a workload of table 2 in a quick reproduction.
const quickT2 = 20 * clock.Millisecond

// cells is the number of intervals of the histogram that densities are compared with.
const cells = 100

// t2 fits distributions to the priority values of packets that arrive at switch ports under Vertigo: table 2, of which
// the ranking is compared.
func t2(ctx context.Context, l *lab) error {
	const id = "T2"
	for _, w := range []struct {
		name       string
		background float64
		queries    string // a second, of the full network and of the quick one
		small      string
		published  [4]float64 // times 1e-15: uniform, normal, exponential, Pareto
	}{
		{"25+10", 0.25, "4000", "1333", [4]float64{135.9, 112.02, 73.15, 93.76}},
		{"25+30", 0.25, "12000", "4000", [4]float64{553.0, 514.4, 366.1, 453.0}},
		{"25+60", 0.25, "24000", "8000", [4]float64{810.8, 758.0, 483.1, 687.8}},
	} {
		s := of1("Vertigo", "vertigo")
		s.tag = "t2-" + strings.ReplaceAll(w.name, "+", "-")
		s.edits = []edit{{"load: 0.5,", fmt.Sprintf("load: %g,", w.background)}}
		list := "[2000, 6000, 10000, 14000, 18000]"
		if l.Config.Quick {
			s.small[3] = edit{list, "[" + w.small + "]"}
			s.edits = append(s.edits, s.small...)
		} else {
			s.edits = append(s.edits, edit{list, "[" + w.queries + "]"})
		}
		values, err := l.priorities(ctx, s)
		if err != nil {
			return err
		}
		errs := fits(values)
		lowest := 0
		for i := range errs {
			if errs[i] < errs[lowest] {
				lowest = i
			}
			l.Row(comparison.Unjudged("errors depend on the histogram, which the source does not describe").
				Of(comparison.PaperStatement), comparison.NewRow(id, w.name+", "+distributions[i]+": sum of squared errors",
				"1e-15", w.published[i], w.published[i], ratioMean, errs[i]/1e-15))
		}
		for _, other := range []int{0, 1, 3} {
			l.Row(comparison.FromChoice(fmt.Sprintf("a histogram of %d equal intervals; Pareto's of type I, with the least "+
				"value and the maximum likelihood", cells)).Of(comparison.PaperStatement), comparison.NewBound(id, w.name+", "+
				distributions[other]+" beside exponential, order: sum of squared errors", "times", comparison.AtLeast, 1, 0,
				errs[other]/errs[2]))
		}
	}
	return nil
}

var distributions = [...]string{"uniform", "normal", "exponential", "Pareto"}

// priorities returns the priority values of one of 20 data packets that arrive at switches.
func (l *lab) priorities(ctx context.Context, s *series) (values []float64, err error) {
	tests, err := l.TestsOf(edited{l.files, s.edits}, s.file)
	if err != nil {
		return nil, err
	}
	t := tests[0]
	t.Name += "-" + s.tag
	if l.Config.Quick {
		experiments.Shorten(t, quickT2)
	}
	run := experiments.NewRun(t, 1)
	if known, err := l.Recall(s.file, &run, &values); known || err != nil {
		return values, err
	}
	arrived := 0
	err = l.Batch(ctx, 1, func(int) error {
		return l.Do(ctx, &run, func(net *fabric.Network) {
			for i := range net.Switches() {
				net.Switch(i).Watch(func(at fabric.Point, _ clock.Time, p *fabric.Packet) {
					if at.Stage != fabric.Ingress || deflect.MarkOf(p.Rank).Control {
						return
					}
					if arrived++; arrived%20 == 0 {
						values = append(values, float64(deflect.Priority(p.Rank)))
					}
				})
			}
		}, func(*orchestrator.Outcome) error { return nil })
	})
	if err != nil {
		return nil, err
	}
	return values, l.Keep(s.file, &run, values)
}

// fits returns the sums of squared differences between a histogram of values and the densities of fitted distributions.
func fits(values []float64) (errs [len(distributions)]float64) {
	if len(values) == 0 {
		return [...]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	}
	low, high := slices.Min(values), slices.Max(values)
	width := (high - low) / cells
	var counts [cells]float64
	mean, square, logs := 0.0, 0.0, 0.0
	for _, v := range values {
		counts[min(cells-1, int((v-low)/width))]++
		mean += v
		logs += math.Log(v / low)
	}
	n := float64(len(values))
	mean /= n
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	deviation, shape := math.Sqrt(square/n), n/logs
	densities := [...]func(x float64) float64{
		func(float64) float64 { return 1 / (high - low) },
		func(x float64) float64 {
			z := (x - mean) / deviation
			return math.Exp(-z*z/2) / (deviation * math.Sqrt(2*math.Pi))
		},
		func(x float64) float64 { return math.Exp(-(x-low)/(mean-low)) / (mean - low) },
		func(x float64) float64 { return shape / x * math.Pow(low/x, shape) },
	}
	for i, density := range densities {
		for k, c := range counts {
			d := density(low+(float64(k)+0.5)*width) - c/(n*width)
			errs[i] += d * d
		}
	}
	return errs
}
