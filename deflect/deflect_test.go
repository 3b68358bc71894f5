package deflect_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
)

func TestAMarkIsUnpackedAsItWasPacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := deflect.Mark{Control: rapid.Bool().Draw(t, "control"), First: rapid.Bool().Draw(t, "first"),
			Flowlet: rapid.Uint16Range(0, deflect.MaxFlowlet).Draw(t, "flowlet"),
			Ret:     rapid.Uint8Range(0, deflect.MaxRet).Draw(t, "ret"), Value: rapid.Uint32().Draw(t, "value")}
		rank := m.Pack()
		if got := deflect.MarkOf(rank); got != m {
			t.Fatalf("%+v became %+v", m, got)
		}
		if got := deflect.Priority(rank); got != m.Value>>m.Ret {
			t.Fatalf("priority %d of %+v", got, m)
		}
	})
}

// §5: 64 packets take 0.59 us, 512 some 2.9 times as long, below 2 us.
func TestControlPacketsOfManyPortsCirculateLonger(t *testing.T) {
	for _, c := range []struct {
		n    int
		want clock.Duration
	}{{1, 590_000}, {64, 590_000}, {177, 590_000}, {178, 591_362}, {512, 1_700_996}} {
		if got := deflect.PeriodOf(c.n); got != c.want*clock.Picosecond {
			t.Errorf("%d: %v", c.n, got)
		}
	}
}

// §3.7: bins (2^{i+1}, 2^{i+2}] for i from 0 to 4, at their mid-points.
func TestBinsHaveIntegerMidPoints(t *testing.T) {
	for v, want := range map[uint64]uint64{0: 0, 2: 0, 3: 3, 4: 3, 5: 6, 8: 6, 9: 12, 16: 12, 17: 24, 32: 24, 33: 48,
		64: 48, 65: 48, 1 << 40: 48} {
		if got := deflect.DistBin(v); got != want {
			t.Errorf("%d: %d, want %d", v, got, want)
		}
	}
}

func TestPortsAreDividedInBlocks(t *testing.T) {
	var got []int
	for port := range 6 {
		got = append(got, deflect.PipeOf(port, 6, 4))
	}
	if want := []int{0, 0, 1, 2, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestAWindowsHashDependsOnOrder(t *testing.T) {
	if a, b := deflect.WindowHash(slices.Values([]uint64{1, 2})), deflect.WindowHash(slices.Values([]uint64{2,
		1})); a == b {
		t.Errorf("both %d", a)
	}
	if got, empty := deflect.WindowHash(slices.Values([]uint64(nil))), uint64(14695981039346656037); uint64(got) != empty {
		t.Errorf("of nothing: %d", got)
	}
}
