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
		253_941 * clock.Nanosecond:         "253.941 us",
		clock.Second - clock.Nanosecond:    "1000 ms",
		13_107_200 * clock.Microsecond / 1: "13.1072 s",
		500 * clock.Picosecond:             "0.5 ns",
	} {
		if got := d.Text(); got != want {
			t.Errorf("%d ps: %q, want %q", int64(d), got, want)
		}
	}
}

func TestRoundedSpansHaveThreeDigits(t *testing.T) {
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
		if got := d.Rounded(); got != want {
			t.Errorf("%d ps: %q, want %q", int64(d), got, want)
		}
	}
}
