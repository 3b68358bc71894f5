package rdma

import (
	"math"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

func newLimiter() *rateLimiter {
	cfg := ReactionPoint{Enable: true}
	cfg.setDefaults()
	l := new(rateLimiter)
	l.init(cfg, 100*clock.Gbps)
	return l
}

func near(got, want float64) bool { return math.Abs(got-want) <= want*1e-9 }

func TestFirstCNPHalvesTheRate(t *testing.T) {
	l := newLimiter()
	l.cut(0)
	if !near(l.current, 50e9) || !near(l.target, 100e9) {
		t.Errorf("current %g target %g, want 50 and 100 Gb/s", l.current, l.target)
	}
	l.cut(clock.Time(clock.Microsecond))
	if !near(l.current, 50e9) {
		t.Error("a CNP within the reduce interval cut again")
	}
	l.cut(clock.Time(5 * clock.Microsecond))
	if !near(l.current, 25e9) || !near(l.target, 50e9) { // alpha stays 1 with each CNP
		t.Errorf("second cut: current %g target %g, want 25 and 50 Gb/s", l.current, l.target)
	}
}

func TestFastRecoveryHalvesTheDistanceThenAdditiveIncreaseRaisesTheTarget(t *testing.T) {
	l := newLimiter()
	l.cut(0)
	l.cut(clock.Time(5 * clock.Microsecond)) // target 50, current 25
	at := clock.Time(5 * clock.Microsecond)
	want := 25e9
	for step := 1; step <= 4; step++ {
		want = (want + 50e9) / 2
		if got := l.rateAt(at.Add(clock.Duration(step)*55*clock.Microsecond + 1)); !near(got, want) {
			t.Errorf("after step %d of fast recovery: %g, want %g", step, got, want)
		}
	}
	want = (want + 50.04e9) / 2
	if got := l.rateAt(at.Add(5*55*clock.Microsecond + 1)); !near(got, want) {
		t.Errorf("after the first additive step: %g, want %g", got, want)
	}
}

func TestHyperIncreaseNeedsBothTimerAndByteCounter(t *testing.T) {
	l := newLimiter()
	for i := range 8 { // far below line rate, so that the target can rise
		l.cut(clock.Time(i) * clock.Time(5*clock.Microsecond))
	}
	now := l.lastCut.Add(6*55*clock.Microsecond + 1)
	l.catchUp(now)
	target := l.target
	for range 5 {
		l.sent(now, int(l.cfg.ByteCounter))
	}
	if got := l.target - target; !near(got, 5*40e6) {
		t.Errorf("five steps by bytes after six by time raise the target by %g, want additive 5 × 40 Mb/s", got)
	}
	target = l.target
	l.sent(now, int(l.cfg.ByteCounter))
	if got := l.target - target; !near(got, 400e6) {
		t.Errorf("the sixth step by bytes raises the target by %g, want hyper 400 Mb/s", got)
	}
}

func TestAlphaDecaysWithoutCNPs(t *testing.T) {
	l := newLimiter()
	l.cut(0)
	l.rateAt(clock.Time(5 * 55 * clock.Microsecond))
	if want := math.Pow(255.0/256, 5); !near(l.alpha, want) {
		t.Errorf("alpha %g after five timer periods, want %g", l.alpha, want)
	}
	l.rateAt(clock.Time(clock.Second))
	if l.limited || l.current != l.line {
		t.Errorf("after a second without CNPs the rate is %g", l.current)
	}
	l.cut(clock.Time(2 * clock.Second))
	if l.current < 0.99*l.line {
		t.Errorf("after two quiet seconds one CNP cuts to %g: alpha has not decayed", l.current)
	}
}

// A CNP must reduce the measured throughput.
func TestCNPsSlowTheSenderDown(t *testing.T) {
	for _, verb := range []generator.Verb{generator.Write, generator.Read} {
		elapsed := func(enable bool) clock.Time {
			w := newWire(t, setup{seed: 3, qps: 1, qp: reliable(), nic: func(_ generator.Side, c *Config) {
				c.NP = NotificationPoint{Enable: true, Mode: CNPPerPort}
				c.RP.Enable = enable
			}})
			w.filter = func(s *seen) verdict {
				if s.p.BTH.Opcode.IsData() && w.packets == 20 {
					return mark
				}
				return pass
			}
			w.start(load(1, 200<<10, 1, verb))
			w.run(1000)
			w.checkAllDone()
			handled := w.nics[0].Counters().CNPHandled + w.nics[1].Counters().CNPHandled
			if (handled == 1) != enable {
				t.Errorf("%s, enabled %t: %d CNPs handled", verb, enable, handled)
			}
			return w.workload.Report().Streams[0].Messages[0].Completed
		}
		if off, on := elapsed(false), elapsed(true); float64(on) < 1.4*float64(off) {
			t.Errorf("%s: %s with the reaction point, %s without", verb, on, off)
		}
	}
}

func TestRateIsPaced(t *testing.T) {
	l := newLimiter()
	l.cut(0)
	l.sent(0, 1226-packet.ICRCLen) // 1246 bytes on the wire, at 50 Gb/s
	if want := clock.Time(199_360); l.gate != want {
		t.Errorf("gate at %s, want %s", l.gate, want)
	}
}
