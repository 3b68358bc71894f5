package packet_test

import (
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

const psnCount = 1 << 24

func drawPSN(t *rapid.T, name string) packet.PSN {
	edge := rapid.SampledFrom([]uint32{0, 1, psnCount/2 - 1, psnCount / 2, psnCount/2 + 1, psnCount - 2, psnCount - 1})
	return packet.PSN(rapid.OneOf(edge, rapid.Uint32Range(0, psnCount-1)).Draw(t, name))
}

func TestPSNSubUndoesAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPSN(t, "p")
		n := rapid.IntRange(-psnCount/2, psnCount/2-1).Draw(t, "n")
		if q := p.Add(n); q >= psnCount || q.Sub(p) != n {
			t.Fatalf("%v.Add(%d) = %v, back %d", p, n, q, q.Sub(p))
		}
	})
}

func TestPSNAddWrapsLikeIntegersModulo24Bits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPSN(t, "p")
		n := rapid.IntRange(-1<<40, 1<<40).Draw(t, "n")
		want := ((int64(p)+int64(n))%psnCount + psnCount) % psnCount
		if got := p.Add(n); int64(got) != want || got != packet.NewPSN(int64(p)+int64(n)) {
			t.Fatalf("%v.Add(%d) = %v, want %d", p, n, got, want)
		}
	})
}

func TestPSNOrderIsSerial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := drawPSN(t, "p"), drawPSN(t, "q")
		switch d := q.Sub(p); d {
		case 0:
			if p != q || p.Before(q) {
				t.Fatalf("%v and %v are at distance 0", p, q)
			}
		case -psnCount / 2: // the antipode precedes in both directions; callers keep windows below 2²³
			if !q.Before(p) || !p.Before(q) {
				t.Fatalf("antipodes %v and %v", p, q)
			}
		default:
			if p.Before(q) == q.Before(p) || p.Before(q) != (d > 0) {
				t.Fatalf("%v before %v: %v, reverse %v, distance %d", p, q, p.Before(q), q.Before(p), d)
			}
		}
	})
}

func TestPSNAcrossTheWrap(t *testing.T) {
	last := packet.PSN(psnCount - 1)
	if got := last.Next(); got != 0 {
		t.Errorf("the PSN after the last is %v", got)
	}
	if !last.Before(0) || packet.PSN(0).Before(last) {
		t.Error("the last PSN does not precede 0")
	}
	if got := packet.PSN(3).Sub(psnCount - 2); got != 5 {
		t.Errorf("from 2 before the wrap to 3 behind it is %d, want 5", got)
	}
}
