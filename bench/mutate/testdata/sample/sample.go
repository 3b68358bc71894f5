// Package sample has mutants of every operator, whose fate its tests decide. See TestEveryMutantOfTheSampleMeetsItsFate.
package sample

import "errors"

// Level is an enumeration; its names are not changed by one.
type Level int

// Levels.
const (
	Low Level = iota
	High
)

const big = 5000

// ErrNone says that there is nothing.
var ErrNone = errors.New("none")

// Grade is tested on both sides of its bound.
func Grade(n int) Level {
	if n > 10 {
		return High
	}
	return Low
}

// Between is tested far away from its bound only.
func Between(n int) bool { return n < big }

// Both is tested with two of four cases.
func Both(a, b bool) bool { return a && b }

// Sum leaves out what is negative, which no test shows.
func Sum(list []uint8, skip int) (total uint8, err error) {
	for i, v := range list {
		if i == skip {
			continue
		}
		total += v
	}
	if total == 0 {
		return 0, ErrNone
	}
	return total, nil
}

// Name has a switch with a tag.
func Name(l Level) string {
	switch l {
	case High:
		return "high"
	case Low:
		log("low")
	}
	return "low"
}

// Shift mixes types: mutants that do not compile must be left out.
func Shift(n uint, bits [4]int) uint32 {
	const mask = 1<<8 - 1
	return uint32(n)<<3&mask + uint32(len(bits))
}

// Unused is not reached by any test.
func Unused(n int) int { return n + 1 }

// Endless ends only if it counts.
func Endless(n int) int {
	i := 0
	for i < n {
		i++
	}
	return i
}

// Receive takes what comes; the communications of a select cannot be removed.
func Receive(c chan int) (n int) {
	select {
	case n = <-c:
		n *= 2
	default:
	}
	return n
}

func log(string) {}
