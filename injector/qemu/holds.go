package qemu

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Holds counts how long the host at a port held frames, in either direction, measured by echoes through the same queues
// (package link/echo). It has four classes for each power of two of time.
type Holds struct {
	counts [holdClasses]uint64
	// Waiting is for how long the oldest echo has not been answered.
	Waiting time.Duration
	// Answers reports whether the host has ever answered.
	Answers bool
}

const holdClasses = 160

func (h *Holds) add(took time.Duration) {
	h.counts[classOf(took)]++
	h.Answers = true
}

// classOf returns the class of a time: its binary exponent and two more bits.
func classOf(d time.Duration) int {
	n := uint64(max(8, d)) - 1 // a class includes its upper edge
	e := bits.Len64(n)
	return min(holdClasses-1, 4*e+int(n>>(e-3)&3))
}

// upperEdge is the longest time of a class.
func upperEdge(class int) time.Duration {
	e := class / 4
	return time.Duration(uint64(4+class%4+1) << max(0, e-3))
}

// Since returns what was counted after before was taken.
func (h Holds) Since(before Holds) Holds {
	for i := range h.counts {
		h.counts[i] -= before.counts[i]
	}
	return h
}

// Longest returns a bound of the longest hold, at most a quarter above it. Without an answer it is unknown.
func (h Holds) Longest() (bound time.Duration, known bool) {
	for i := range h.counts {
		if h.counts[i] > 0 {
			bound = upperEdge(i)
		}
	}
	return max(bound, h.Waiting), h.Answers
}

// Echoes is how many were counted.
func (h Holds) Echoes() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// String lists the counts as [ParseHolds] reads them; "" for a host that never answered.
func (h Holds) String() string {
	if !h.Answers {
		return ""
	}
	list := []string{strconv.FormatInt(h.Waiting.Nanoseconds(), 10)}
	for i, n := range h.counts {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d:%d", i, n))
		}
	}
	return strings.Join(list, " ")
}

// ParseHolds reads what String wrote.
func ParseHolds(text string) (h Holds, err error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return h, nil
	}
	h.Answers = true
	waiting, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || waiting < 0 {
		return Holds{}, fmt.Errorf("holds: waiting time %q", fields[0])
	}
	h.Waiting = time.Duration(waiting)
	for _, f := range fields[1:] {
		class, count, found := strings.Cut(f, ":")
		i, e := strconv.Atoi(class)
		n, e2 := strconv.ParseUint(count, 10, 64)
		if !found || e != nil || e2 != nil || i < 0 || i >= holdClasses {
			return Holds{}, fmt.Errorf("holds: %q, want class:count with a class below %d", f, holdClasses)
		}
		h.counts[i] = n
	}
	return h, nil
}
