// Package clock has the times and durations of protocol cores and testbeds, in integer picoseconds. A virtual testbed
// counts them from the start of the simulation, a live one from the start of the run. At 800 Gb/s one byte takes 10 ps,
// so every serialisation delay is an integer.
package clock

import (
	"fmt"
	"math/bits"
	"time"
)

// Time is an instant: picoseconds since the testbed's origin. The zero Time is the origin.
type Time int64

// Duration is a signed duration in picoseconds, up to 106 days.
type Duration int64

// Units of Duration.
const (
	Picosecond  Duration = 1
	Nanosecond           = 1000 * Picosecond
	Microsecond          = 1000 * Nanosecond
	Millisecond          = 1000 * Microsecond
	Second               = 1000 * Millisecond
)

// Never is later than every time of a test. It means "no timer".
const Never = Time(1<<63 - 1)

// Add returns t + d.
func (t Time) Add(d Duration) Time { return t + Time(d) }

// Sub returns t − u.
func (t Time) Sub(u Time) Duration { return Duration(t - u) }

// Nanoseconds returns t rounded down to whole nanoseconds, the resolution of switch timestamps.
func (t Time) Nanoseconds() int64 { return int64(t) / int64(Nanosecond) }

// Nanoseconds returns d rounded towards zero.
func (d Duration) Nanoseconds() int64 { return int64(d / Nanosecond) }

// Microseconds returns d as a number of microseconds.
func (d Duration) Microseconds() float64 { return float64(d) / float64(Microsecond) }

// Std converts d to the standard library's type, rounding towards zero to whole nanoseconds.
func (d Duration) Std() time.Duration { return time.Duration(d.Nanoseconds()) }

// FromStd converts a standard library duration. It overflows above 106 days.
func FromStd(d time.Duration) Duration { return Duration(d) * Nanosecond }

// BitRate is a link rate in bits per second.
type BitRate int64

// Gbps is 10⁹ bits per second.
const Gbps BitRate = 1_000_000_000

// Serialise returns the time that n bytes take on a link of rate r, rounded up to the next picosecond. It panics if r
// is not positive: rates are validated with the configuration. Results above 106 days overflow.
func (r BitRate) Serialise(bytes int) Duration {
	if r <= 0 {
		panic(fmt.Sprintf("clock: link rate %d is not positive", r))
	}
	// The product overflows 64 bits from 1.15 MB on; 128 bits are as fast.
	high, low := bits.Mul64(uint64(bytes)*8, uint64(Second))
	low, carry := bits.Add64(low, uint64(r)-1, 0)
	ps, _ := bits.Div64(high+carry, low, uint64(r))
	return Duration(ps)
}
