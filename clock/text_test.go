package clock_test

import (
	"testing"

	"candela.dev/candela/clock"
)

func TestSpansForPeopleHaveTheUnitThatSuitsThem(t *testing.T) {
	for d, want := range map[clock.Duration]string{
		600 * clock.Millisecond:            "600 ms",
		2170 * clock.Nanosecond:            "2.17 us",
		0:                                  "0 ns",
		-3 * clock.Second / 2:              "-1.5 s",
		25_178_735 * clock.Nanosecond:      "25.2 ms",
		20_982_900 * clock.Nanosecond:      "21 ms",
		253_941 * clock.Nanosecond:         "254 us",
		999_499 * clock.Picosecond:         "999 ns",
		999_500 * clock.Picosecond:         "1 us",
		clock.Second - clock.Nanosecond:    "1 s",
		13_107_200 * clock.Microsecond / 1: "13.1 s",
		86_400 * clock.Second:              "86400 s",
		-1 * clock.Nanosecond:              "-1 ns",
		1 * clock.Picosecond:               "0.001 ns",
		500 * clock.Picosecond:             "0.5 ns",
	} {
		if got := d.Text(); got != want {
			t.Errorf("%d ps: %q, want %q", int64(d), got, want)
		}
	}
}

func TestSpansHaveThreeDigits(t *testing.T) {
	for d, want := range map[clock.Duration]string{
		600 * clock.Millisecond:                   "600 ms",
		2400 * clock.Nanosecond:                   "2.4 us",
		0:                                         "0 ns",
		-3 * clock.Second / 2:                     "-1.5 s",
		253_941 * clock.Nanosecond:                "254 us",
		clock.Second - clock.Nanosecond:           "1 s",
		999_499 * clock.Nanosecond:                "999 us",
		999_500 * clock.Nanosecond:                "1 ms",
		67_108_864 * clock.Nanosecond:             "67.1 ms",
		1234 * clock.Second:                       "1234 s",
		4*clock.Nanosecond + 240*clock.Picosecond: "4.24 ns",
		-1234 * clock.Second:                      "-1234 s",
		500 * clock.Picosecond:                    "0.5 ns",
		clock.Picosecond:                          "0.001 ns",
	} {
		if got := d.Text(); got != want {
			t.Errorf("%d ps: %q, want %q", int64(d), got, want)
		}
	}
}

func TestNanosecondsOfCapturesReadLikeSpans(t *testing.T) {
	for ns, want := range map[int64]string{
		0: "0 ns", 6371: "6.37 us", -25_178_735: "-25.2 ms", 1_700_000_000_123_456_789: "1700000000 s",
	} {
		if got := clock.TextNS(ns); got != want {
			t.Errorf("%d ns: %q, want %q", ns, got, want)
		}
	}
}

func TestALimitAndWhatBrokeItReadApart(t *testing.T) {
	for _, c := range []struct {
		a, b          clock.Duration
		first, second string
	}{
		{400 * clock.Millisecond, 600 * clock.Millisecond, "400 ms", "600 ms"},
		{67_108_864 * clock.Nanosecond, 67_100_000 * clock.Nanosecond, "67.11 ms", "67.1 ms"},
		{clock.Second, clock.Second - clock.Nanosecond, "1 s", "999.999999 ms"},
		{clock.Second, clock.Second, "1 s", "1 s"},
	} {
		if first, second := clock.TextApart(c.a, c.b); first != c.first || second != c.second {
			t.Errorf("%q and %q, want %q and %q", first, second, c.first, c.second)
		}
		if first, second := clock.TextApartNS(c.a.Nanoseconds(), c.b.Nanoseconds()); first != c.first || second != c.second {
			t.Errorf("of nanoseconds %q and %q, want %q and %q", first, second, c.first, c.second)
		}
	}
}
