package clock

import (
	"math"
	"strconv"
)

// significant is the number of digits in texts; files have all digits.
const significant = 3

// String returns the text of the time since the origin.
func (t Time) String() string { return Duration(t).Text() }

// String returns Text.
func (d Duration) String() string { return d.Text() }

// Text returns d with three significant digits in a fitting unit, such as 600 ms and 2.17 us.
func (d Duration) Text() string { return text(float64(d)/float64(Nanosecond), significant) }

// TextNS is Text of a number of nanoseconds, which may exceed a Duration: captures count from 1970.
func TextNS(ns int64) string { return text(float64(ns), significant) }

// TextApart returns the texts of two times, such as a limit and a measurement, with at least three digits and enough to
// distinguish them.
func TextApart(a, b Duration) (string, string) {
	return textApart(float64(a)/float64(Nanosecond), float64(b)/float64(Nanosecond))
}

// TextApartNS is TextApart of numbers of nanoseconds.
func TextApartNS(a, b int64) (string, string) { return textApart(float64(a), float64(b)) }

func textApart(a, b float64) (first, second string) {
	both := TextsNS([]float64{a, b})
	return both[0], both[1]
}

// TextsNS returns the texts of numbers of nanoseconds, such as axis labels, with enough digits to distinguish them.
func TextsNS(ns []float64) []string {
	const most = 18 // of an int64
	texts := make([]string, len(ns))
	for digits := significant; ; digits++ {
		of := make(map[string]float64, len(ns))
		apart := true
		for i, v := range ns {
			texts[i] = text(v, digits)
			other, ok := of[texts[i]]
			apart = apart && (!ok || other == v)
			of[texts[i]] = v
		}
		if apart || digits == most {
			return texts
		}
	}
}

// text returns the text of ns nanoseconds. A value that rounds up to 1000 uses the next unit.
func text(ns float64, digits int) string {
	units := [...]struct {
		name string
		ns   float64
	}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}
	last := len(units) - 1
	for i, u := range units {
		v := rounded(ns/u.ns, digits)
		if math.Abs(v) < 1000 || i == last {
			return strconv.FormatFloat(v, 'f', -1, 64) + " " + u.name
		}
	}
	panic("clock: the largest unit fits every time")
}

// rounded returns v with a number of significant digits. Seconds from 1000 on keep all integer digits.
func rounded(v float64, digits int) float64 {
	if v == 0 || math.Abs(v) >= math.Pow10(digits) {
		return math.Round(v) + 0 // + 0: never −0
	}
	shortest, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		panic("clock: a number that Go printed is not one")
	}
	return shortest
}
