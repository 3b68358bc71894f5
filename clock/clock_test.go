package clock_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
)

func TestSerialisationDelaysOfKnownFrames(t *testing.T) {
	tests := []struct {
		name  string
		rate  clock.BitRate
		bytes int
		want  clock.Duration
	}{
		{"nothing", 100 * clock.Gbps, 0, 0},
		{"a byte at 800 Gb/s lasts 10 ps", 800 * clock.Gbps, 1, 10},
		{"a full frame at 100 Gb/s", 100 * clock.Gbps, 1098, 87_840},
		{"a full frame at 10 Gb/s", 10 * clock.Gbps, 1098, 878_400},
		{"a byte at 3 b/s is rounded up", 3, 1, 2_666_666_666_667},
		{"a gigabyte at 100 Gb/s", 100 * clock.Gbps, 1_000_000_000, 80 * clock.Millisecond},
		{"a terabyte at 400 Gb/s", 400 * clock.Gbps, 1_000_000_000_000, 20 * clock.Second},
	}
	for _, test := range tests {
		if got := test.rate.Serialise(test.bytes); got != test.want {
			t.Errorf("%s: %d ps, want %d", test.name, got, test.want)
		}
	}
}

func TestSerialiseRoundsUpExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := clock.BitRate(rapid.Int64Range(1_000_000, 1_600_000_000_000).Draw(t, "rate"))
		bytes := rapid.IntRange(0, 1<<30).Draw(t, "bytes")
		ps := new(big.Int).Mul(big.NewInt(int64(bytes)*8), big.NewInt(int64(clock.Second)))
		want, rest := new(big.Int).QuoRem(ps, big.NewInt(int64(rate)), new(big.Int))
		if rest.Sign() > 0 {
			want.Add(want, big.NewInt(1))
		}
		if got := rate.Serialise(bytes); int64(got) != want.Int64() {
			t.Fatalf("%d bytes at %d b/s: %d ps, want %v", bytes, rate, got, want)
		}
	})
}

func TestLinkRatesMustBePositive(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a link without a rate serialises")
		}
	}()
	clock.BitRate(0).Serialise(1)
}

func TestInstantsAndSpans(t *testing.T) {
	start := clock.Time(0).Add(3 * clock.Microsecond)
	end := start.Add(1500 * clock.Nanosecond)
	if span := end.Sub(start); span != 1500*clock.Nanosecond || span.Nanoseconds() != 1500 || span.Microseconds() != 1.5 {
		t.Errorf("span %v", span)
	}
	if end.String() != "4.5 us" || end.Nanoseconds() != 4500 {
		t.Errorf("%v, %d ns", end, end.Nanoseconds())
	}
	if d := clock.FromStd(7 * time.Millisecond); d != 7*clock.Millisecond || d.Std() != 7*time.Millisecond {
		t.Errorf("7 ms became %v", d)
	}
	if end >= clock.Never {
		t.Error("never comes before an instant")
	}
}

func BenchmarkSerialise(b *testing.B) {
	b.ReportAllocs()
	rate := 100 * clock.Gbps
	for b.Loop() {
		_ = rate.Serialise(1098)
	}
}
