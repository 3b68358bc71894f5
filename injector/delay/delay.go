// Package delay counts how long frames took through a switch, or waited for it.
package delay

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Counts counts frames by the binary logarithm of a delay in nanoseconds.
type Counts [40]uint64

// Add counts a frame.
func (d *Counts) Add(took time.Duration) {
	d[min(len(d)-1, bits.Len64(uint64(max(0, took))))]++
}

// Frames is how many were counted.
func (d Counts) Frames() (n uint64) {
	for _, frames := range d {
		n += frames
	}
	return n
}

// Median returns the upper edge of the median's bucket, a power of two in nanoseconds; 0 without frames.
func (d Counts) Median() time.Duration {
	all, seen := d.Frames(), uint64(0)
	for i, n := range d {
		if seen += n; n > 0 && 2*seen >= all {
			return time.Duration(1) << i
		}
	}
	return 0
}

// Longest returns the lower edge of the longest delay's bucket: at least one frame took that long; 0 without frames.
func (d Counts) Longest() time.Duration {
	for i := len(d) - 1; i > 0; i-- {
		if d[i] > 0 {
			return time.Duration(1) << (i - 1)
		}
	}
	return 0
}

// Since returns what was counted after before was taken.
func (d Counts) Since(before Counts) Counts {
	for i := range d {
		d[i] -= before[i]
	}
	return d
}

// String lists the counts, smallest delays first, as [Parse] reads them.
func (d Counts) String() string { return strings.Trim(fmt.Sprint([len(d)]uint64(d)), "[]") }

// Parse reads what String wrote.
func Parse(text string) (d Counts, err error) {
	fields := strings.Fields(text)
	if len(fields) != len(d) {
		return d, fmt.Errorf("delays: %d numbers, want %d", len(fields), len(d))
	}
	for i, f := range fields {
		if d[i], err = strconv.ParseUint(f, 10, 64); err != nil {
			return d, fmt.Errorf("delays: %w", err)
		}
	}
	return d, nil
}
