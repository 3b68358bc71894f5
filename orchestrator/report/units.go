package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
)

// instant prints an instant as `candela trace show` does, in microseconds with nanosecond digits, relative to the
// report's origin.
func (r *Report) instant(ns int64) string {
	us := (ns - r.OriginNS) / 1000
	rest := (ns - r.OriginNS) % 1000
	sign := ""
	if us < 0 || rest < 0 {
		sign, us, rest = "-", -us, -rest
	}
	return fmt.Sprintf("%s%d.%03dus", sign, us, rest)
}

// tick labels an instant on a time axis in the unit that keeps it short, with no more digits than it has: "67.115 ms".
func (r *Report) tick(ns int64) string {
	ns -= r.OriginNS
	unit, name, digits := float64(clock.Microsecond/clock.Nanosecond), "us", 1e3
	switch {
	case ns == 0:
		return "0"
	case max(ns, -ns) >= int64(clock.Second/clock.Nanosecond):
		unit, name, digits = float64(clock.Second/clock.Nanosecond), "s", 1e6
	case max(ns, -ns) >= int64(clock.Millisecond/clock.Nanosecond):
		unit, name = float64(clock.Millisecond/clock.Nanosecond), "ms"
	}
	return strconv.FormatFloat(math.Round(float64(ns)/unit*digits)/digits, 'f', -1, 64) + " " + name
}

// Span prints a duration of ns in the unit that keeps it short: "1.995us".
func Span(ns int64) string { return span(ns) }

// span prints a duration of ns in the unit that keeps it short.
func span(ns int64) string {
	const (
		us = int64(clock.Microsecond / clock.Nanosecond)
		ms = int64(clock.Millisecond / clock.Nanosecond)
		s  = int64(clock.Second / clock.Nanosecond)
	)
	v := float64(ns)
	switch n := max(ns, -ns); {
	case n < us:
		return fmt.Sprintf("%dns", ns)
	case n < ms:
		return fmt.Sprintf("%.3fus", v/float64(us))
	case n < s:
		return fmt.Sprintf("%.3fms", v/float64(ms))
	}
	return fmt.Sprintf("%.3fs", v/float64(s))
}

// Quantity prints a value of a metric with its unit.
func Quantity(v int64, unit string) string { return quantity(v, unit) }

// quantity prints a value of a metric with its unit.
func quantity(v int64, unit string) string {
	switch unit {
	case analyzers.UnitNS:
		return span(v)
	case analyzers.UnitBytes:
		return grouped(v) + " B"
	case analyzers.UnitBPS:
		return fmt.Sprintf("%.3f Gb/s", float64(v)/float64(clock.Gbps))
	case analyzers.UnitCount, "":
		return grouped(v)
	}
	return grouped(v) + " " + clean(unit)
}

// Grouped prints n as reports print counts: with a comma between groups of three digits from 10,000 on.
func Grouped(n int64) string { return grouped(n) }

// grouped prints n with a comma between groups of three digits from 10,000 on.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	if len(digits) < 5 {
		return sign + digits
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// plural prints n with its noun: "1 packet", "20,000 packets".
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// moreOf prints n more things: "1 more finding", "12 more findings".
func moreOf(n int, noun string) string {
	if n == 1 {
		return "1 more " + noun
	}
	return grouped(int64(n)) + " more " + noun + "s"
}

// metricTitle is a metric's name in words, without its analyzer: "nack generation".
func metricTitle(m *analyzers.Metric) string {
	_, title, ok := strings.Cut(m.Name, ".")
	if !ok {
		title = m.Name
	}
	return clean(strings.NewReplacer("-", " ", ".", " ").Replace(title))
}
