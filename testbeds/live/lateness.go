package live

import (
	"fmt"
	"math/bits"
	"time"
)

// Lateness is a distribution of delays.
type Lateness struct {
	Count uint64
	Sum   time.Duration
	Most  time.Duration
	bins  [40]uint64 // of less than 1 us, 2 us, 4 us, …
}

func (l *Lateness) add(d time.Duration) {
	l.Count++
	l.Sum += d
	l.Most = max(l.Most, d)
	l.bins[min(bits.Len64(uint64(d.Microseconds())), len(l.bins)-1)]++
}

// Mean returns the mean.
func (l *Lateness) Mean() time.Duration { return l.Sum / time.Duration(max(l.Count, 1)) }

// Within returns a bound below which at least a share of the delays are: a power of two microseconds.
func (l *Lateness) Within(share float64) time.Duration {
	var n uint64
	for i, count := range l.bins {
		if n += count; float64(n) >= share*float64(l.Count) {
			return min(l.Most, time.Microsecond<<i)
		}
	}
	return l.Most
}

func (l *Lateness) text(what string) string {
	const unit = time.Microsecond
	return fmt.Sprintf("%s %v late on average, 99 %% within %v, at most %v", what, l.Mean().Round(unit),
		l.Within(0.99).Round(unit), l.Most.Round(unit))
}
