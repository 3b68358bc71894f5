package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
)

// A source makes traffic of compliant endpoints. Where the run that it comes from was judged with all that is known of
// it, that is returned, too.
type source interface {
	draw(rng *rand.Rand, seed uint64, v *view) (*traffic.Recording, *orchestrator.Outcome, error)
	close() error
}

var sources = map[string]func(e endpoints, configs string) source{
	"endpoints": func(e endpoints, _ string) source { return e },
	"scenarios": func(_ endpoints, configs string) source { return &scenarios{newBed(configs)} },
}

// endpoints are those of package traffic.
type endpoints struct {
	packets int  // about so many at most
	reopen  bool // some queue pairs are used again, where no connections document comes with the captures
}

func (e endpoints) draw(rng *rand.Rand, seed uint64, v *view) (*traffic.Recording, *orchestrator.Outcome, error) {
	return &session(rng, rand.New(rand.NewPCG(seed, 0x6d6f7265)), e.packets, v, e.reopen).Recording, nil, nil
}

func (e endpoints) close() error { return nil }

// scenarios are the random tests of candela detect, on NIC models without bugs.
type scenarios struct{ *bed }

func (s *scenarios) draw(rng *rand.Rand, seed uint64, v *view) (*traffic.Recording, *orchestrator.Outcome, error) {
	profiles := rdma.Profiles()
	t, err := s.bench.ScenarioTest(seed, profiles[rng.IntN(len(profiles))].Name)
	if err != nil {
		return nil, nil, err
	}
	t = uncut(t)
	if v.equalIPSN {
		t = zeroPSN(t)
	}
	recording, outcome, err := s.run(context.Background(), t)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	return recording, outcome, nil
}

// session draws the traffic of compliant endpoints until every message completes. Every other session is more unusual,
// as more draws it.
func session(rng, more *rand.Rand, packets int, v *view, reopen bool) *traffic.Session {
	for {
		sc := traffic.Scenario{
			Packets: 1 + rng.IntN(12), Window: 1 + rng.IntN(32), Reads: 1 + rng.IntN(4),
			Verbs:    traffic.Verbs(1 + rng.IntN(int(traffic.All))),
			DelayMin: 300, DelayMax: 300 + rng.Int64N(5000), Transit: 300 + rng.Int64N(2000), ProcessMax: 100 + rng.Int64N(4000),
			TimeoutNS: 4096 << (8 + rng.IntN(7)), Retry: 7, RNRRetry: 7,
		}
		if rng.IntN(4) > 0 {
			sc.Loss = 0.03 * rng.Float64()
		}
		if rng.IntN(4) == 0 {
			sc.NotReady = 0.02 * rng.Float64()
		}
		o := traffic.Options{
			Connections: 1 + rng.IntN(8), Packets: 40 + rng.IntN(max(1, packets-40)), EqualIPSN: v.equalIPSN, Scenario: sc,
		}
		seed := rng.Uint64()
		if more.IntN(2) == 0 {
			unusual(more, &o, v, reopen)
		}
		if s := traffic.NewSession(seed, o); s.Settled {
			return s
		}
	}
}

// unusual adds rare properties to sessions: other path MTUs, odd lengths, many READs outstanding, long paths and waits,
// credits, MSNs that wrap, reused queue pairs, and frames that are delayed or copied.
func unusual(rng *rand.Rand, o *traffic.Options, v *view, reopen bool) {
	sc := &o.Scenario
	o.MTU = 256 << rng.IntN(5)
	if rng.IntN(2) == 0 {
		sc.Odd = rng.Float64()
	}
	if rng.IntN(3) == 0 {
		sc.Reads = 1 + rng.IntN(16)
	}
	switch rng.IntN(4) {
	case 0: // far away
		sc.DelayMin = 1000 << rng.IntN(8)
		sc.DelayMax = sc.DelayMin + rng.Int64N(sc.DelayMin)
		sc.TimeoutNS = 4096 << (10 + rng.IntN(9))
	case 1: // a timer that is short for the way
		for sc.TimeoutNS = 4096 << 2; sc.TimeoutNS < 4*sc.DelayMax+2*sc.Transit+int64(sc.Window)*sc.ProcessMax; {
			sc.TimeoutNS *= 2
		}
	}
	if rng.IntN(3) == 0 {
		sc.LongWaits, sc.NotReady = true, 0.02*rng.Float64()
	}
	sc.Credits = rng.IntN(2) == 0
	if v.fateShown {
		if rng.IntN(2) == 0 {
			sc.Late = 0.02 * rng.Float64()
		}
		if rng.IntN(2) == 0 {
			sc.Twice = 0.02 * rng.Float64()
		}
	}
	if v.pair {
		if rng.IntN(3) == 0 {
			// The MSN does not wrap before the first response: that would look like a responder that does not count.
			sc.MSN = 1<<24 - 40 - rng.IntN(60)
		}
		o.Reopened = reopen && rng.IntN(2) == 0
	}
	if v.pair && rng.IntN(3) == 0 {
		// Frames that the switch delays leave it later; after it frames keep their order.
		sc.Held, sc.Doubled = 0.03*rng.Float64(), 0.03*rng.Float64()
		sc.HeldMax = 1 + rng.Int64N(4*(sc.DelayMax+sc.ProcessMax))
	}
}
