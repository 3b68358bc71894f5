package injector

import "fmt"

// maxTurns is the size of table mirror_slot.
const maxTurns = 1024

// Turns spreads mirrors over a round by weight and returns the clone session (mirror index + 1) of each turn. It is
// smooth weighted round robin: copies for one dumper are as far apart as its weight allows, so that no dumper gets a
// burst.
func Turns(mirrors []Mirror) ([]uint16, error) {
	if len(mirrors) >= maxTurns {
		return nil, fmt.Errorf("%d mirrors, at most %d are possible", len(mirrors), maxTurns-1)
	}
	divisor, total := 0, 0
	for i, m := range mirrors {
		if m.Weight < 1 || m.Weight > 1<<20 {
			return nil, fmt.Errorf("mirror %d (port %d): weight %d is not in 1…%d", i+1, m.Port, m.Weight, 1<<20)
		}
		divisor = gcd(divisor, m.Weight)
		total += m.Weight
	}
	if total == 0 {
		return nil, nil
	}
	total /= divisor
	if total > maxTurns {
		return nil, fmt.Errorf("mirror weights make a round of %d turns, at most %d are possible: choose smaller weights",
			total, maxTurns)
	}
	credit := make([]int, len(mirrors))
	turns := make([]uint16, total)
	for t := range turns {
		best := 0
		for i, m := range mirrors {
			credit[i] += m.Weight / divisor
			if credit[i] > credit[best] {
				best = i
			}
		}
		credit[best] -= total
		turns[t] = uint16(best + 1)
	}
	return turns, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
