package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/analyzers/oracle/traffic"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
)

// A source makes traffic of compliant endpoints. Where the run that it comes from was judged with all that is known of it, that is
// returned, too.
type source interface {
	draw(rng *rand.Rand, seed uint64, equalIPSN bool) (*traffic.Recording, *orchestrator.Outcome, error)
	close() error
}

var sources = map[string]func(packets int, configs string) source{
	"endpoints": func(packets int, _ string) source { return endpoints{packets} },
	"scenarios": func(_ int, configs string) source { return &scenarios{newBed(configs)} },
}

// endpoints are those of package traffic; a session has about so many packets at most.
type endpoints struct{ packets int }

func (e endpoints) draw(rng *rand.Rand, _ uint64, equalIPSN bool) (*traffic.Recording, *orchestrator.Outcome, error) {
	return &session(rng, e.packets, equalIPSN).Recording, nil, nil
}

func (e endpoints) close() error { return nil }

// scenarios are the random tests of candela detect, on NIC models without bugs.
type scenarios struct{ *bed }

func (s *scenarios) draw(rng *rand.Rand, seed uint64, equalIPSN bool) (*traffic.Recording, *orchestrator.Outcome, error) {
	profiles := rdma.Profiles()
	t, err := s.bench.ScenarioTest(seed, profiles[rng.IntN(len(profiles))].Name)
	if err != nil {
		return nil, nil, err
	}
	t = uncut(t)
	if equalIPSN {
		t = zeroPSN(t)
	}
	recording, outcome, err := s.run(context.Background(), t)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	return recording, outcome, nil
}

// session draws the traffic of compliant endpoints until every message completes.
func session(rng *rand.Rand, packets int, equalIPSN bool) *traffic.Session {
	for {
		sc := traffic.Scenario{
			Packets: 1 + rng.IntN(12), Window: 1 + rng.IntN(32), Reads: 1 + rng.IntN(4), Verbs: traffic.Verbs(1 + rng.IntN(int(traffic.All))),
			DelayMin: 300, DelayMax: 300 + rng.Int64N(5000), Transit: 300 + rng.Int64N(2000), ProcessMax: 100 + rng.Int64N(4000),
			TimeoutNS: 4096 << (8 + rng.IntN(7)), Retry: 7, RNRRetry: 7,
		}
		if rng.IntN(4) > 0 {
			sc.Loss = 0.03 * rng.Float64()
		}
		if rng.IntN(4) == 0 {
			sc.NotReady = 0.02 * rng.Float64()
		}
		s := traffic.NewSession(rng.Uint64(), traffic.Options{
			Connections: 1 + rng.IntN(8), Packets: 40 + rng.IntN(max(1, packets-40)), EqualIPSN: equalIPSN, Scenario: sc,
		})
		if s.Settled {
			return s
		}
	}
}
