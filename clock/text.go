package clock

import (
	"math"
	"strconv"
)

// significant is how many digits of a time people are shown; files hold all of them.
const significant = 3

// String prints an instant for people, as a span from the origin.
func (t Time) String() string { return Duration(t).Text() }

// String prints d for people.
func (d Duration) String() string { return d.Text() }

// Text prints d for people: three significant digits in the unit that suits it, such as 600 ms and 2.17 us.
func (d Duration) Text() string { return text(float64(d)/float64(Nanosecond), significant) }

// TextNS is Text of a number of nanoseconds, which need not fit a Duration: captures count from 1970.
func TextNS(ns int64) string { return text(float64(ns), significant) }

// TextApart prints two times that differ, with as many digits as it takes to see that they do: a limit and what broke
// it. Equal times have three.
func TextApart(a, b Duration) (string, string) {
	return textApart(float64(a)/float64(Nanosecond), float64(b)/float64(Nanosecond))
}

// TextApartNS is TextApart of numbers of nanoseconds.
func TextApartNS(a, b int64) (string, string) { return textApart(float64(a), float64(b)) }

func textApart(a, b float64) (first, second string) {
	both := TextsNS([]float64{a, b})
	return both[0], both[1]
}

// TextsNS prints numbers of nanoseconds, such as those along an axis, with as many digits as tell them apart.
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

// text prints ns nanoseconds. What rounds up to 1000 of a unit is 1 of the next.
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

// rounded returns v with a number of significant digits. Seconds from 1000 on keep all digits before the point.
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
