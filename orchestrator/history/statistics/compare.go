// Package statistics says whether what a lab measured has changed: between two nights, over many nights, and as a rate
// of failures. It is pure: samples in, statements out.
package statistics

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"
)

// Significance is the probability of a difference between equal samples from which on it is not called one. A choice,
// that of benchstat.
const Significance = 0.05

// exactUpTo is the size of both samples together up to which Mann-Whitney's distribution is counted.
const exactUpTo = 24

// Test is the result of a Mann-Whitney test.
type Test struct {
	P float64 `json:"p"` // two-sided
	// TooFew is set if no arrangement of so few values would be significant.
	TooFew bool `json:"too_few,omitempty"`
}

// Different reports whether the samples differ.
func (t Test) Different() bool { return !t.TooFew && t.P < Significance }

// MannWhitney tests whether one sample tends to greater values than the other.
func MannWhitney(x, y []float64) Test {
	n, m := len(x), len(y)
	if n == 0 || m == 0 || n+m <= exactUpTo && 2/float64(combin.Binomial(n+m, n)) >= Significance {
		return Test{P: 1, TooFew: true}
	}
	ranks, ties := doubledRanks(x, y)
	sum := 0
	for _, r := range ranks[:n] {
		sum += r
	}
	p := normal(n, m, sum, ties)
	// The exact distribution matters where a decision may hang on it.
	const far = 0.3
	if n+m <= exactUpTo && p < far {
		p = exact(ranks, n, sum)
	}
	return Test{P: p}
}

// normal returns the probability by the normal approximation, of doubled ranks.
func normal(n, m, sum int, ties float64) float64 {
	total := float64(n + m)
	mean := float64(n) * (total + 1)
	variance := float64(n*m) / 12 * (total + 1 - ties/(total*(total-1))) * 4
	if variance <= 0 {
		return 1
	}
	const continuity = 1 // half a rank, doubled
	z := max(math.Abs(float64(sum)-mean)-continuity, 0) / math.Sqrt(variance)
	return min(2*distuv.UnitNormal.Survival(z), 1)
}

// doubledRanks returns twice the ranks of x, then y, with the mean rank for ties, and the sum of t³-t over ties.
func doubledRanks(x, y []float64) (ranks []int, ties float64) {
	all := slices.Concat(x, y)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case all[a] < all[b]:
			return -1
		case all[a] > all[b]:
			return 1
		}
		return 0
	})
	ranks = make([]int, len(all))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && all[order[j]] == all[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			ranks[at] = i + j + 1
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return ranks, ties
}

// exact counts the choices of n ranks whose sum is at least as far from its mean.
func exact(ranks []int, n, sum int) float64 {
	most := 0
	for _, r := range ranks {
		most += r
	}
	ways := make([][]float64, n+1) // by how many and their sum
	for i := range ways {
		ways[i] = make([]float64, most+1)
	}
	ways[0][0] = 1
	for _, r := range ranks {
		for k := n; k >= 1; k-- {
			for s := most; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	mean := float64(n) * float64(most) / float64(len(ranks))
	far := math.Abs(float64(sum) - mean)
	var all, beyond float64
	for s, w := range ways[n] {
		all += w
		if math.Abs(float64(s)-mean) >= far-1e-9 {
			beyond += w
		}
	}
	return min(beyond/all, 1)
}

// Median returns the median; 0 of nothing.
func Median(values []float64) float64 { return quantile(values, 0.5) }

func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if q == 0.5 && len(sorted)%2 == 0 {
		return (sorted[len(sorted)/2-1] + sorted[len(sorted)/2]) / 2
	}
	return stat.Quantile(q, stat.Empirical, sorted, nil)
}

// Quartiles returns the first and the third quartile.
func Quartiles(values []float64) (first, third float64) {
	return quantile(values, 0.25), quantile(values, 0.75)
}

// fewestChanges is from how many changes between nights on their quartiles say what is usual. A choice.
const fewestChanges = 8

// fence is how many interquartile ranges beyond the third quartile a change is no longer usual. A choice, that of
// rustc-perf.
const fence = 3

// Noise returns the greatest relative change between two nights that is usual for a metric, from its own nights: the
// third quartile of the changes and three interquartile ranges. Not ok: there are too few nights.
func Noise(nights []float64) (greatest float64, ok bool) {
	var changes []float64
	for i := 1; i < len(nights); i++ {
		if nights[i-1] != 0 {
			changes = append(changes, math.Abs(nights[i]/nights[i-1]-1))
		}
	}
	if len(changes) < fewestChanges {
		return 0, false
	}
	first, third := Quartiles(changes)
	return third + fence*(third-first), true
}

// Center returns the Hodges-Lehmann estimate: the median of the means of all pairs. A few outliers do not move it, and
// of normal values it is nearly as exact as the mean.
func Center(values []float64) float64 {
	if len(values) > maxPairs {
		return Median(values)
	}
	pairs := make([]float64, 0, len(values)*(len(values)+1)/2)
	for i, x := range values {
		for _, y := range values[i:] {
			pairs = append(pairs, (x+y)/2)
		}
	}
	return Median(pairs)
}

// maxPairs bounds the sample of which all pairs are formed.
const maxPairs = 100

// Spread returns the standard deviation; 0 of fewer than two values.
func Spread(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	return stat.StdDev(values, nil)
}

// Percentile returns the value that the share q of all does not exceed; 0 of nothing.
func Percentile(values []float64, q float64) float64 { return quantile(values, q) }
