package trimming

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
)

const (
	gbps    = clock.Gbps
	us      = clock.Microsecond
	ns      = clock.Nanosecond
	fullMTU = 1500
)

func TestAMeterPassesItsBurstAndThenItsRate(t *testing.T) {
	tests := []struct {
		name    string
		rate    clock.BitRate
		burst   int
		spacing clock.Duration
		packets int
		want    int // green
	}{
		{"a link at its own rate is never red", 100 * gbps, fullMTU, 120 * ns, 1000, 1000},
		{"a quarter of line rate lets every fourth packet pass after the burst", 25 * gbps, fullMTU, 120 * ns, 400, 100},
		{"half of line rate lets every second packet pass", 50 * gbps, fullMTU, 120 * ns, 400, 200},
		{"a burst of ten packets passes before the rate holds", 25 * gbps, 10 * fullMTU, 120 * ns, 400, 109},
		{"all at one instant: the burst alone", 100 * gbps, 12 * fullMTU, 0, 100, 12},
		{"a bucket below the packet's size is always red", 100 * gbps, fullMTU - 1, 120 * ns, 100, 0},
		{"four senders into one meter share it", 100 * gbps, fullMTU, 30 * ns, 400, 100},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := NewMeter(test.rate, test.burst)
			green := 0
			for i := range test.packets {
				if m.Execute(clock.Time(0).Add(clock.Duration(i)*test.spacing), fullMTU) == Green {
					green++
				}
			}
			if green != test.want {
				t.Errorf("%d of %d green, want %d", green, test.packets, test.want)
			}
		})
	}
}

func TestATwoRateMeterTellsThreeColours(t *testing.T) {
	m := NewTwoRateMeter(100*gbps, 50*gbps, fullMTU)
	count := map[Colour]int{}
	for i := range 4000 { // 200 Gb/s
		count[m.Execute(clock.Time(0).Add(clock.Duration(i)*60*ns), fullMTU)]++
	}
	if count[Green] != 1000 || count[Yellow] != 1000 || count[Red] != 2000 {
		t.Errorf("got %v, want a quarter green, a quarter yellow, half red", count)
	}
}

func TestAMeterIsFullAfterALongPause(t *testing.T) {
	m := NewMeter(100*gbps, MaxBurst)
	for range MaxBurst / fullMTU {
		m.Execute(0, fullMTU)
	}
	if c := m.Execute(0, fullMTU); c != Red {
		t.Fatalf("an empty bucket says %v", c)
	}
	after := clock.Time(90 * 24 * 3600 * clock.Second) // far beyond the range of rate × time
	for i := range MaxBurst / fullMTU {
		if c := m.Execute(after, fullMTU); c != Green {
			t.Fatalf("packet %d after the pause is %v", i, c)
		}
	}
	if c := m.Execute(after, fullMTU); c != Red {
		t.Errorf("more than the burst passes after a pause: %v", c)
	}
}

// TestAMeterNeverPassesMoreThanBurstPlusRate checks the definition of a token bucket over every window that starts at
// 0, with exact arithmetic.
func TestAMeterNeverPassesMoreThanBurstPlusRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := clock.BitRate(rapid.Int64Range(1_000_000, 1_600_000_000_000).Draw(t, "rate"))
		burst := rapid.IntRange(64, MaxBurst).Draw(t, "burst")
		m := NewMeter(rate, burst)
		now, passed := clock.Time(0), int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "packets") {
			now = now.Add(clock.Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "gap")))
			size := rapid.IntRange(1, 9000).Draw(t, "size")
			before := m
			if m.Execute(now, size) == Green {
				passed += int64(size) * 8
			} else if before.committed.fill(now); before.committed.level >= int64(size)*8*bucketUnit {
				t.Fatal("red although there were tokens")
			}
			allowed := new(big.Int).Mul(big.NewInt(int64(rate)), big.NewInt(int64(now)))
			allowed.Add(allowed, new(big.Int).Mul(big.NewInt(int64(burst)*8), big.NewInt(bucketUnit)))
			got := new(big.Int).Mul(big.NewInt(passed), big.NewInt(bucketUnit))
			if got.Cmp(allowed) > 0 {
				t.Fatalf("passed %v units, allowed %v", got, allowed)
			}
		}
	})
}
