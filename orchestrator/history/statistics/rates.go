package statistics

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Nightly counts the judged runs of a test in a night.
type Nightly struct{ Failed, Runs int }

// A Segment is a run of nights with one rate of failures.
type Segment struct {
	First, Last  int // nights, as indices
	Failed, Runs int
	// Earliest and Latest bound where the segment began, with 95 % confidence.
	Earliest, Latest int
}

// Rate returns the share of failed runs.
func (s *Segment) Rate() float64 { return float64(s.Failed) / float64(max(s.Runs, 1)) }

// Interval returns the rates that fit the segment with 95 % confidence (Clopper and Pearson).
func (s *Segment) Interval() (low, high float64) { return interval(s.Failed, s.Runs) }

func interval(k, n int) (low, high float64) {
	const tail = 0.025
	high = 1
	if k > 0 {
		low = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(tail)
	}
	if k < n {
		high = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return low, high
}

// confidence is half of the 95 % quantile of chi-squared with one degree of freedom: a place of a change whose
// likelihood is less than the best by more than this is not believed.
const confidence = 1.92

// Segments divides nights into segments of one rate: the division that explains the results best, where each further
// segment must explain twice the logarithm of the number of nights more. That is twice what BIC asks for: a test that
// fails at random must not look like one that broke.
func Segments(nights []Nightly) []Segment {
	n := len(nights)
	if n == 0 {
		return nil
	}
	failed, runs := make([]int, n+1), make([]int, n+1)
	for i, v := range nights {
		failed[i+1], runs[i+1] = failed[i]+v.Failed, runs[i]+v.Runs
	}
	fit := func(from, to int) float64 { return likelihood(failed[to]-failed[from], runs[to]-runs[from]) }
	penalty := 2 * math.Log(float64(max(n, 4)))
	best, from := make([]float64, n+1), make([]int, n+1)
	best[0] = penalty
	for to := 1; to <= n; to++ {
		best[to] = math.Inf(-1)
		for at := range to {
			if v := best[at] + fit(at, to) - penalty; v > best[to] {
				best[to], from[to] = v, at
			}
		}
	}
	var cuts []int
	for at := n; at > 0; at = from[at] {
		cuts = append(cuts, from[at])
	}
	var list []Segment
	end := n
	for _, at := range cuts {
		s := Segment{First: at, Last: end - 1, Failed: failed[end] - failed[at], Runs: runs[end] - runs[at], Earliest: at,
			Latest: at}
		list = append([]Segment{s}, list...)
		end = at
	}
	for i := 1; i < len(list); i++ {
		s, low, high := &list[i], list[i-1].First, list[i].Last+1
		best := fit(low, s.First) + fit(s.First, high)
		for at := low + 1; at < high; at++ {
			if fit(low, at)+fit(at, high) >= best-confidence {
				s.Earliest, s.Latest = min(s.Earliest, at), max(s.Latest, at)
			}
		}
	}
	return list
}

// likelihood returns the logarithm of the likelihood of k failures in n runs at their own rate.
func likelihood(k, n int) float64 {
	if k == 0 || k == n {
		return 0
	}
	p := float64(k) / float64(n)
	return float64(k)*math.Log(p) + float64(n-k)*math.Log(1-p)
}

// Unlikely reports whether so many failures in b would be a surprise if it had the rate of a.
func Unlikely(a, b Nightly) bool {
	const surprise = 0.01 // a choice
	low, high := interval(a.Failed, a.Runs)
	if b.Failed == 0 {
		return math.Pow(1-low, float64(b.Runs)) < surprise
	}
	return b.Failed == b.Runs && math.Pow(high, float64(b.Runs)) < surprise
}
