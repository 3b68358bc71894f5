// Package mutant switches the mutants that bench/mutate writes into a package under test. A process runs at most one
// mutant, which the environment names. No package imports it on disk; the overlay of a build does.
package mutant

import (
	"cmp"
	"os"
	"strconv"
)

const (
	// Active names the mutant that this process runs; without it, the program is the original.
	Active = "CANDELA_MUTANT"
	// Hits names a file with one byte for each mutant; the byte is set when the program reaches the mutant.
	Hits = "CANDELA_MUTANT_HITS"
	// CPU is how many seconds of processor time the process may use. Without a wall clock, a busy machine kills no mutant.
	CPU = "CANDELA_MUTANT_CPU"
)

var (
	active = number(Active, -1)
	hits   = open(os.Getenv(Hits))
	_      = limit(number(CPU, 0))
)

func number(name string, unset int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return unset
	}
	return n
}

// On reports whether mutant id is the one to run.
func On(id int) bool {
	if id < len(hits) {
		hits[id] = 1
	}
	return id == active
}

type integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type numeric interface {
	integer | ~float32 | ~float64
}

// Less is a < b; the mutant is a <= b.
func Less[T cmp.Ordered](id int, a, b T) bool { return a < b || On(id) && a == b }

// AtMost is a <= b; the mutant is a < b.
func AtMost[T cmp.Ordered](id int, a, b T) bool { return a < b || !On(id) && a == b }

// Greater is a > b; the mutant is a >= b.
func Greater[T cmp.Ordered](id int, a, b T) bool { return a > b || On(id) && a == b }

// AtLeast is a >= b; the mutant is a > b.
func AtLeast[T cmp.Ordered](id int, a, b T) bool { return a > b || !On(id) && a == b }

// Plus is a + b; the mutant is a - b.
func Plus[T numeric](id int, a, b T) T {
	if On(id) {
		return a - b
	}
	return a + b
}

// Minus is a - b; the mutant is a + b.
func Minus[T numeric](id int, a, b T) T {
	if On(id) {
		return a + b
	}
	return a - b
}

// Times is a * b; the mutant is a / b.
func Times[T numeric](id int, a, b T) T {
	if On(id) {
		return a / b
	}
	return a * b
}

// Over is a / b; the mutant is a * b.
func Over[T numeric](id int, a, b T) T {
	if On(id) {
		return a * b
	}
	return a / b
}

// Rem is a % b; the mutant is a / b.
func Rem[T integer](id int, a, b T) T {
	if On(id) {
		return a / b
	}
	return a % b
}

// And is a & b; the mutant is a | b.
func And[T integer](id int, a, b T) T {
	if On(id) {
		return a | b
	}
	return a & b
}

// Or is a | b; the mutant is a & b.
func Or[T integer](id int, a, b T) T {
	if On(id) {
		return a & b
	}
	return a | b
}

// Left is a << n; the mutant is a >> n.
func Left[T, S integer](id int, a T, n S) T {
	if On(id) {
		return a >> n
	}
	return a << n
}

// Right is a >> n; the mutant is a << n.
func Right[T, S integer](id int, a T, n S) T {
	if On(id) {
		return a << n
	}
	return a >> n
}

// Negative is v; the mutant is -v.
func Negative[T numeric](id int, v T) T {
	if On(id) {
		return -v
	}
	return v
}

// Zero is v; the mutant is the zero value.
func Zero[T any](id int, v T) T {
	if On(id) {
		var zero T
		return zero
	}
	return v
}

// More is v; the mutant is v + 1.
func More[T numeric](id int, v T) T {
	if On(id) {
		return v + 1
	}
	return v
}

// Fewer is v; the mutant is v - 1.
func Fewer[T numeric](id int, v T) T {
	if On(id) {
		return v - 1
	}
	return v
}

// Twice is v; the mutant is 2 * v.
func Twice[T numeric](id int, v T) T {
	if On(id) {
		return 2 * v
	}
	return v
}
