package dumper

import "fmt"

// maxTurns bounds a slot table: the injector's mirror_slot table has that many entries.
const maxTurns = 1024

// Turns spreads mirror copies over dumpers by weight: it returns the index of the dumper for each turn of one round, every
// dumper as often as its weight (weights are first divided by their common divisor), evenly interleaved. With a smooth
// schedule no dumper sees a burst longer than its share demands.
func Turns(weights []int) ([]int, error) {
	total, divisor := 0, 0
	for i, w := range weights {
		if w < 0 || w > maxTurns*maxTurns {
			return nil, fmt.Errorf("weight %d of dumper %d is out of range (0 to %d)", w, i+1, maxTurns*maxTurns)
		}
		divisor = gcd(divisor, w)
		total += w
	}
	if total == 0 {
		return nil, fmt.Errorf("no dumper has a weight above 0")
	}
	total /= divisor
	if total > maxTurns {
		return nil, fmt.Errorf("weights %v need %d turns, above the table's %d", weights, total, maxTurns)
	}
	turns, credit := make([]int, total), make([]int, len(weights))
	for t := range turns {
		best := -1
		for i, w := range weights {
			credit[i] += w / divisor
			if w > 0 && (best < 0 || credit[i] > credit[best]) {
				best = i
			}
		}
		credit[best] -= total
		turns[t] = best
	}
	return turns, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
