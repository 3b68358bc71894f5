package qemu

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Delays counts frames by the binary logarithm of the nanoseconds between reading them from one socket and having written them
// to the next.
type Delays [40]uint64

func (d *Delays) add(took time.Duration) {
	d[min(len(d)-1, bits.Len64(uint64(max(0, took))))]++
}

// Frames is how many were counted.
func (d Delays) Frames() (n uint64) {
	for _, frames := range d {
		n += frames
	}
	return n
}

// Median returns the upper edge of the median's bucket, a power of two in nanoseconds; 0 without frames.
func (d Delays) Median() time.Duration {
	all, seen := d.Frames(), uint64(0)
	for i, n := range d {
		if seen += n; n > 0 && 2*seen >= all {
			return time.Duration(1) << i
		}
	}
	return 0
}

// Since returns what was counted after before was taken.
func (d Delays) Since(before Delays) Delays {
	for i := range d {
		d[i] -= before[i]
	}
	return d
}

// String lists the counts, smallest delays first, as [ParseDelays] reads them.
func (d Delays) String() string { return strings.Trim(fmt.Sprint([len(d)]uint64(d)), "[]") }

// ParseDelays reads what String wrote.
func ParseDelays(text string) (d Delays, err error) {
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
