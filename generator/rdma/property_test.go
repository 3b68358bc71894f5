package rdma

import (
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// anyTraffic draws a workload over all verbs, sizes and depths.
func anyTraffic(t *rapid.T) generator.WorkloadConfig {
	verb := rapid.SampledFrom(allVerbs)
	return generator.WorkloadConfig{
		Traffic: generator.Traffic{
			Verbs:       rapid.SliceOfN(verb, 1, 4).Draw(t, "verbs"),
			Messages:    rapid.IntRange(1, 6).Draw(t, "messages"),
			MessageSize: rapid.SampledFrom([]int{0, 1, 255, 256, 257, 1024, 2600, 5000}).Draw(t, "size"),
			TxDepth:     rapid.IntRange(1, 6).Draw(t, "txDepth"),
		},
		Bidirectional: rapid.Bool().Draw(t, "bidirectional"),
		BarrierSync:   rapid.Bool().Draw(t, "barrier"),
		ReceiveDepth:  rapid.IntRange(1, 6).Draw(t, "receiveDepth"),
	}
}

// anySetup draws queue pairs, many of them near the PSN wrap.
func anySetup(t *rapid.T) setup {
	qp := reliable()
	qp.MTU = rapid.SampledFrom([]int{256, 1024}).Draw(t, "mtu")
	qp.MaxReads = rapid.SampledFrom([]int{1, 2, 16}).Draw(t, "maxReads")
	qp.FixIPSN = rapid.Bool().Draw(t, "fixIPSN")
	qp.IPSN = packet.NewPSN(-int64(rapid.IntRange(0, 12).Draw(t, "beforeWrap")))
	profile := rapid.SampledFrom(Profiles()).Draw(t, "profile")
	pipeline := rapid.SampledFrom([]int{0, profile.PipelineDepth, 3}).Draw(t, "pipeline")
	coalescing, adaptive := rapid.Bool().Draw(t, "coalescing"), rapid.Bool().Draw(t, "adaptive")
	return setup{seed: rapid.Uint64().Draw(t, "seed"), qps: rapid.IntRange(1, 2).Draw(t, "qps"), qp: qp, record: true,
		ipv6: rapid.Bool().Draw(t, "ipv6"),
		nic: func(_ generator.Side, c *Config) {
			c.Profile = profile
			c.Profile.PipelineDepth, c.Profile.AckCoalescing = pipeline, coalescing
			c.AdaptiveRetrans = adaptive && len(profile.AdaptiveSchedule) > 0
		}}
}

// Seven losses cost at most seven retries, so everything must complete.
func TestAnyFewLossesAreRepaired(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := anySetup(rt)
		cfg := anyTraffic(rt)
		w := newWire(t, s)
		w.tb = fatalTB{t, rt}
		delays := []clock.Duration{0, clock.Microsecond, 50 * clock.Microsecond, 600 * clock.Microsecond}
		w.delay = rapid.SampledFrom(delays).Draw(rt, "delay")
		most := 7
		if 2*w.delay > clock.Millisecond {
			most = 3 // RTT > timeout, which costs additional retries
		}
		lost := rapid.SliceOfN(rapid.IntRange(1, 80), 0, most).Draw(rt, "lost")
		harm := rapid.SampledFrom([]verdict{drop, corrupt}).Draw(rt, "harm")
		w.filter = func(*seen) verdict {
			for _, n := range lost {
				if n == w.packets {
					return harm
				}
			}
			return pass
		}
		w.start(cfg)
		w.run(20000)
		w.checkAllDone()
	})
}

// With any loss rate a run ends, every posted message gets exactly one status, and no wrong data is accepted.
func TestHeavyLossEndsInSuccessOrRetryExceeded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := anySetup(rt)
		cfg := anyTraffic(rt)
		w := newWire(t, s)
		w.tb = fatalTB{t, rt}
		lossPercent := rapid.IntRange(5, 95).Draw(rt, "loss")
		rng := w.nics[0].cfg.Rand
		w.filter = func(*seen) verdict {
			if rng.IntN(100) < lossPercent {
				return drop
			}
			return pass
		}
		w.start(cfg)
		w.run(100000)
		if !w.workload.Done() {
			rt.Fatalf("not done\n%s", w.tail())
		}
		for _, r := range w.workload.Report().Streams {
			for i, m := range r.Messages {
				switch m.Status {
				case generator.Success, generator.RetryExceeded, generator.WorkRequestFlushed:
				default:
					rt.Fatalf("connection %d %s message %d: %s\n%s", r.Connection, r.Side, i+1, m.Status, w.tail())
				}
			}
		}
		for _, n := range w.nics {
			if c := n.Counters(); c.DataErrors > 0 || c.BadResponse > 0 {
				rt.Fatalf("%d data errors, %d bad responses", c.DataErrors, c.BadResponse)
			}
		}
	})
}

// fatalTB passes failures to rapid, so that it can shrink them.
type fatalTB struct {
	testing.TB
	rt *rapid.T
}

func (f fatalTB) Errorf(format string, args ...any) { f.rt.Helper(); f.rt.Fatalf(format, args...) }
func (f fatalTB) Fatalf(format string, args ...any) { f.rt.Helper(); f.rt.Fatalf(format, args...) }
func (f fatalTB) Fatal(args ...any)                 { f.rt.Helper(); f.rt.Fatal(args...) }
