package report

import (
	"fmt"
	"strconv"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
)

// instant formats an instant relative to the report's origin.
func (r *Report) instant(ns int64) string { return clock.TextNS(ns - r.OriginNS) }

func (r *Report) tick(ns int64) string {
	if ns == r.OriginNS {
		return "0"
	}
	return r.instant(ns)
}

// since formats the time from before to ns. Packets close in time would otherwise show the same instant.
func since(before, ns int64) string {
	if ns < before {
		return clock.TextNS(ns - before)
	}
	return "+" + clock.TextNS(ns-before)
}

// Span formats a duration of ns nanoseconds: "2 us".
func Span(ns int64) string { return clock.TextNS(ns) }

// Quantity formats a value of a metric with its unit.
func Quantity(v int64, unit string) string { return quantity(v, unit) }

// quantity formats a value of a metric with its unit.
func quantity(v int64, unit string) string {
	switch unit {
	case analyzers.UnitNS:
		return clock.TextNS(v)
	case analyzers.UnitBytes:
		return grouped(v) + " B"
	case analyzers.UnitBPS:
		return fmt.Sprintf("%.3f Gb/s", float64(v)/float64(clock.Gbps))
	case analyzers.UnitPPM:
		return strconv.FormatFloat(float64(v)/1e4, 'g', 3, 64) + " %"
	case analyzers.UnitCount, "":
		return grouped(v)
	}
	return grouped(v) + " " + clean(unit)
}

// Grouped formats n as counts in reports: with a comma between groups of three digits from 10,000 on.
func Grouped(n int64) string { return grouped(n) }

// grouped formats n with a comma between groups of three digits from 10,000 on.
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

// plural formats n with its noun: "1 packet", "20,000 packets".
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// moreOf formats n more things: "1 more finding", "12 more findings".
func moreOf(n int, noun string) string {
	if n == 1 {
		return "1 more " + noun
	}
	return grouped(int64(n)) + " more " + noun + "s"
}

// metricTitle returns a metric's name in words, without its analyzer: "nack generation".
func metricTitle(m *analyzers.Metric) string {
	_, title, ok := strings.Cut(m.Name, ".")
	if !ok {
		title = m.Name
	}
	return clean(strings.NewReplacer("-", " ", ".", " ").Replace(title))
}
