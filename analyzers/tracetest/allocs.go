package tracetest

import "testing"

// FewestAllocs is the smallest number of allocations that one call of f made in some tries. What the runtime allocates for itself at
// a bad moment, such as for a new thread, counts in one try and not in all.
func FewestAllocs(tries int, f func()) float64 {
	fewest := testing.AllocsPerRun(1, f)
	for range tries - 1 {
		fewest = min(fewest, testing.AllocsPerRun(1, f))
	}
	return fewest
}
