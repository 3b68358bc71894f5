package ndp

import "math/rand/v2"

// spray returns path tags: each path once in random order, then again in another order. This loads paths more evenly
// than independent draws.
type spray struct {
	rng   *rand.Rand
	order []uint16
	next  int
}

func newSpray(paths int, rng *rand.Rand) spray {
	s := spray{rng: rng, order: make([]uint16, paths), next: paths}
	for i := range s.order {
		s.order[i] = uint16(i)
	}
	return s
}

func (s *spray) tag() uint16 {
	if len(s.order) <= 1 {
		return 0
	}
	if s.next == len(s.order) {
		s.next = 0
		s.rng.Shuffle(len(s.order), func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
	}
	s.next++
	return s.order[s.next-1]
}
