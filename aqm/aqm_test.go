package aqm_test

import (
	"math"
	"testing"

	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

// Buffer sizes in KB for an RTT of 100 us, as the white paper's figure 11 has them; it prints the value for 2500 flows
// at 100 Gb/s.
func TestBuffersOfManyFlows(t *testing.T) {
	flows := []int{1, 4, 25, 100, 400, 2500, 10000}
	for rate, row := range map[clock.BitRate][]float64{
		10:  {125, 62.5, 25, 12.5, 6.25, 2.5, 1.25},
		25:  {312.5, 156.25, 62.5, 31.25, 15.625, 6.25, 3.125},
		40:  {500, 250, 100, 50, 25, 10, 5},
		50:  {625, 312.5, 125, 62.5, 31.25, 12.5, 6.25},
		100: {1250, 625, 250, 125, 62.5, 25, 12.5},
	} {
		for i, want := range row {
			if got := aqm.BufferBytes(rate*clock.Gbps, 100*clock.Microsecond, flows[i]); math.Abs(got-want*1000) > 1e-6 {
				t.Errorf("%d Gb/s, %d flows: %v bytes, want %v KB", rate, flows[i], got, want)
			}
		}
	}
}

// The recommended depths of table 1, and 120 us at other rates.
func TestDesiredDepths(t *testing.T) {
	for rate, want := range map[clock.BitRate]int{10: 150_000, 40: 600_000, 100: 1_500_000, 25: 375_000, 50: 750_000,
		400: 6_000_000} {
		if got := aqm.DesiredDepth(rate * clock.Gbps); got != want {
			t.Errorf("%d Gb/s: %d", rate, got)
		}
	}
	if aqm.ThresholdBytes(10*clock.Gbps) != 97_500 || aqm.ThresholdBytes(25*clock.Gbps) != 243_750 {
		t.Error("DCTCP's K is not 65 packets at 10 Gb/s")
	}
}
