package trace

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTheClockOfASecondCaptureIsFoundWithinItsUncertainty draws true offsets and drifts, and the bounds that frames
// with random transit times and answers make.
func TestTheClockOfASecondCaptureIsFoundWithinItsUncertainty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(-1e9, 1e9).Draw(t, "offset")
		drift := rapid.Float64Range(-100e-6, 100e-6).Draw(t, "drift")
		span := rapid.Int64Range(1e6, 60e9).Draw(t, "span")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		trueCorrection := func(second int64) int64 { return offset + int64(drift*float64(second-offset)) }
		var c clockBounds
		earliest, last := int64(math.MaxInt64), int64(math.MinInt64)
		for range 400 {
			second := rng.Int64N(span)
			first := second + trueCorrection(second)
			earliest, last = min(earliest, second), max(last, second)
			c.lower(first-rng.Int64N(20_000)-500, second)   // sent before it passed
			c.upper(first+rng.Int64N(200_000)+3000, second) // answered after it passed
		}
		e, err := c.estimate(true)
		if err != nil || e.report.Discarded != 0 {
			t.Fatalf("%v, %+v", err, e)
		}
		for _, at := range []int64{earliest, (earliest + last) / 2, last} {
			late := at + trueCorrection(at) - e.correct(at)
			if late < -2 || late > e.report.UncertaintyNS+2 {
				t.Fatalf("at %d the frame passed %d ns later than estimated, the uncertainty is %d", at, late,
					e.report.UncertaintyNS)
			}
		}
		if e.report.UncertaintyNS > 230_000+int64(float64(span)*50e-6) {
			t.Fatalf("uncertainty %d ns", e.report.UncertaintyNS)
		}
	})
}

// TestADriftThatNothingBoundsIsUncertain has answers at the start only, as of a connection that retransmits much later.
func TestADriftThatNothingBoundsIsUncertain(t *testing.T) {
	for _, drift := range []float64{-100e-6, 0, 100e-6} {
		const late = 75_000_000
		theta := func(second int64) int64 { return int64(drift * float64(second)) }
		var c clockBounds
		for i := range int64(100) {
			at := i * 1000
			c.lower(at+theta(at)-1000, at)
			c.upper(at+theta(at)+5000, at)
		}
		c.lower(late+theta(late)-1000, late)
		e, err := c.estimate(true)
		if err != nil {
			t.Fatal(err)
		}
		if by := late + theta(late) - e.correct(late); by < 0 || by > e.report.UncertaintyNS {
			t.Errorf("drift %v: the late frame passed %d ns after its stamp, the uncertainty is %d", drift, by,
				e.report.UncertaintyNS)
		}
	}
}

func TestAnOrderThatNoOffsetExplainsIsAnError(t *testing.T) {
	var c clockBounds
	for i := range int64(100) {
		c.lower(i*1000, i*1000)      // passed at 0 or later
		c.upper(i*1000-50, i*1000+0) // and was answered 50 ns before
	}
	_, err := c.estimate(true)
	var none *noOffsetError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "precede") {
		t.Fatal(err)
	}
}

func TestAFewContradictionsAreDiscarded(t *testing.T) {
	var c clockBounds
	for i := range int64(200) {
		c.lower(i*1000, i*1000+700)
		c.upper(i*1000+5000, i*1000)
	}
	c.lower(90_000, 1000) // a frame matched with its retransmission
	e, err := c.estimate(true)
	if err != nil || e.report.Discarded != 1 || e.report.OffsetNS != -700 {
		t.Fatalf("%v, %+v", err, e)
	}
}

// TestDriftIsNotTakenForADistanceBetweenTheTaps has frames of both directions, close in time or one direction after the
// other. Only frames close in time show a distance.
func TestDriftIsNotTakenForADistanceBetweenTheTaps(t *testing.T) {
	for _, c := range []struct {
		name        string
		distanceNS  int64
		drift       float64
		interleaved bool
		want        bool
	}{
		{"one place, no drift", 0, 0, true, false},
		{"one place, drift", 0, 200e-6, true, false},
		{"one place, drift, one direction after the other", 0, 200e-6, false, false},
		{"two hosts", 5000, 0, true, true},
		{"two hosts, drift", 5000, 80e-6, true, true},
		{"two hosts, drift the other way", 5000, -80e-6, true, true},
		{"two hosts, one direction after the other", 5000, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b clockBounds
			for i := range int64(50) {
				lower, upper := i*10_000_000, i*10_000_000+4000
				if !c.interleaved {
					upper += 500_000_000
				}
				b.add(lower+int64(c.drift*float64(lower))-c.distanceNS/2, lower, false)
				b.add(upper+int64(c.drift*float64(upper))+c.distanceNS/2, upper, true)
			}
			if got := b.apart(); got != c.want {
				t.Errorf("apart %t, want %t", got, c.want)
			}
		})
	}
}
