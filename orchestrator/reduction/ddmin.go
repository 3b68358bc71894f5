package reduction

// ddmin returns a subset of items, in their order, for which fails is still true and that is 1-minimal: without any one
// of its items fails is false (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, 2002).
// fails(items) must be true; fails is called O(n²) times in the worst case. If fails stops and always returns false,
// the subset is the smallest known until then.
func ddmin[T any](items []T, fails func([]T) bool) []T {
	if len(items) > 0 && fails(nil) {
		return nil
	}
	for n := 2; len(items) > 1; {
		if smaller, ok := reduceTo(items, n, fails); ok {
			items, n = smaller, 2
			continue
		}
		if smaller, ok := reduceBy(items, n, fails); ok {
			items, n = smaller, max(n-1, 2)
			continue
		}
		if n >= len(items) {
			break
		}
		n = min(2*n, len(items))
	}
	return items
}

// reduceTo looks for one of n parts that fails alone.
func reduceTo[T any](items []T, n int, fails func([]T) bool) ([]T, bool) {
	for i := range n {
		from, to := bounds(len(items), n, i)
		if part := items[from:to:to]; len(part) < len(items) && fails(part) {
			return part, true
		}
	}
	return nil, false
}

// reduceBy looks for one of n parts that is not needed.
func reduceBy[T any](items []T, n int, fails func([]T) bool) ([]T, bool) {
	for i := range n {
		from, to := bounds(len(items), n, i)
		rest := append(append(make([]T, 0, len(items)), items[:from]...), items[to:]...)
		if len(rest) > 0 && fails(rest) {
			return rest, true
		}
	}
	return nil, false
}

// bounds returns where the i-th of n parts of a list begins and ends.
func bounds(length, n, i int) (from, to int) { return i * length / n, (i + 1) * length / n }
