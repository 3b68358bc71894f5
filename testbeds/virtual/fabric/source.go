package fabric

import (
	"math/bits"
	"math/rand/v2"
)

// source is a PCG that is one number ahead of its draws, so that the next draw can be predicted.
type source struct {
	pcg  rand.PCG
	next uint64
}

func (s *source) seed(seed1, seed2 uint64) {
	s.pcg.Seed(seed1, seed2)
	s.next = s.pcg.Uint64()
}

// Uint64 implements rand.Source.
func (s *source) Uint64() uint64 {
	v := s.next
	s.next = s.pcg.Uint64()
	return v
}

// below draws a number below n exactly as rand.Rand.IntN does with this source.
func (s *source) below(n uint64) uint64 {
	if n&(n-1) == 0 {
		return s.Uint64() & (n - 1)
	}
	high, low := bits.Mul64(s.Uint64(), n)
	if low < n {
		for least := -n % n; low < least; {
			high, low = bits.Mul64(s.Uint64(), n)
		}
	}
	return high
}

// peek returns the next result of below, except for the rare draws that below rejects.
func (s *source) peek(n uint64) uint64 {
	if n&(n-1) == 0 {
		return s.next & (n - 1)
	}
	high, _ := bits.Mul64(s.next, n)
	return high
}
