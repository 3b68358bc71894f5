package lock_test

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
)

// hostile draws what no correct peer sends: numbers that are far from those that were told, locks that are elsewhere.
type hostile struct{ *rand.Rand }

func (r hostile) number() uint64 {
	switch r.IntN(5) {
	case 0:
		return r.Uint64()
	case 1:
		return 1<<63 + r.Uint64N(4)
	case 2:
		return -r.Uint64N(4)
	}
	return r.Uint64N(6)
}

func (r hostile) request() lock.Request {
	return lock.Request{Lock: r.Uint32N(3), Transaction: r.Uint32N(6), Mode: netlock.Mode(r.IntN(2)),
		Client: lock.Client{Host: r.Uint32N(2)}, Priority: uint8(r.Uint32N(6)), OneRTT: r.IntN(2) == 0}
}

func (r hostile) output() *lock.Output {
	return &lock.Output{Request: r.request(), Avail: uint32(r.number()), Sent: r.number(), Index: r.number(),
		Mark: netlock.Mark(r.IntN(4))}
}

func (r hostile) answer() lock.Answer {
	return lock.Answer{Last: r.IntN(2) == 0, Received: r.number(), Index: r.number(), Sent: r.number(),
		Queue: uint8(r.number()), Mark: netlock.Mark(r.IntN(4))}
}

// Whatever packets say, neither a server nor a switch panics.
func TestHostilePeersBreakNeitherServersNorSwitches(t *testing.T) {
	for seed := range uint64(wide(t, 60)) {
		r := hostile{rand.New(rand.NewPCG(seed, 1))}
		s := lock.NewServer(r.IntN(2) == 0)
		s.Priorities, s.Lease, s.Poll = r.IntN(4), clock.Duration(r.IntN(2))*clock.Microsecond, 100*clock.Nanosecond
		cfg := lock.Config{Processing: lock.Processing(r.IntN(3)), TIDCheck: r.IntN(2) == 0, Dedup: r.IntN(2) == 0,
			PushTimeout: clock.Microsecond, Slots: 8, Track: 4}
		if cfg.Processing == lock.ChainLock {
			cfg.Priorities = 1 + r.IntN(3)
		}
		d := lock.New(cfg)
		control, err := lock.NewControl(0, lock.ControlConfig{Lease: 2 * clock.Microsecond, Poll: clock.Microsecond,
			Period: 5 * clock.Microsecond}, d)
		if err != nil {
			t.Fatal(err)
		}
		now := clock.Time(0)
		var passes []lock.Pass
		for range 500 {
			now = now.Add(clock.Duration(r.IntN(500)) * clock.Nanosecond)
			var out []lock.Output
			switch r.IntN(14) {
			case 0, 1:
				s.Acquire(now, r.request())
			case 2:
				s.Release(now, r.request())
			case 3:
				s.Keep(now, r.request(), r.number())
			case 4:
				s.Push(r.output())
			case 5:
				s.Handover(now, r.output())
			case 6:
				s.Timer(now)
			case 7, 8:
				out = d.Acquire(now, r.request())
			case 9:
				out = d.Release(now, r.request())
			case 10:
				out = d.PushBack(now, r.request(), r.answer())
			case 11:
				out = d.PushEmpty(now, r.Uint32N(3), r.answer())
			case 12:
				out = d.Yield(now, r.Uint32N(3), r.answer())
			case 13:
				out = append(d.Timer(now), control.Timer(now)...)
			}
			for _, o := range out {
				if o.Kind == lock.Recirculate {
					passes = append(passes, o.Pass)
				}
			}
			if len(passes) > 0 && r.IntN(2) == 0 {
				d.Resume(now, passes[0])
				passes = passes[1:]
			}
		}
	}
}
