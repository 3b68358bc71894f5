package config

import (
	"fmt"
	"slices"
	"strings"
)

// didYouMean returns ` (did you mean "x"?)` for the candidate that got is probably a misspelling of, or "".
func didYouMean(got string, candidates []string) string { return asked(closest(got, candidates)) }

// asked returns ` (did you mean "x"?)` for a guess, or "".
func asked(guess string) string {
	if guess == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", guess)
}

// closest returns the candidate that got is probably a misspelling of, or "".
func closest(got string, candidates []string) string {
	best, bestDistance := "", 1+min(3, max(1, len(got)/3))
	for _, c := range candidates {
		if d := editDistance(normalise(got), normalise(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best == "" {
		best = onlyOneWith(got, candidates)
	}
	return best
}

// onlyOneWith returns the only candidate that contains got as a word, or "".
func onlyOneWith(got string, candidates []string) string {
	found := ""
	for _, c := range candidates {
		if slices.Contains(strings.Split(c, "-"), normalise(got)) {
			if found != "" {
				return ""
			}
			found = c
		}
	}
	return found
}

// normalise removes variations that people do not notice: case and separators.
func normalise(s string) string {
	return strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(s))
}

// editDistance counts insertions, deletions, substitutions and swaps of neighbours between a and b (optimal string
// alignment). For very long strings it returns the length: they are not misspellings.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// oneOf lists alternatives as in "a, b or c".
func oneOf(names []string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
