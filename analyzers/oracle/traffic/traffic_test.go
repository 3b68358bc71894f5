package traffic_test

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/traffic"
)

// TestTheOracleAcceptsCompliantEndpoints holds the two independent readings of the standard against each other.
func TestTheOracleAcceptsCompliantEndpoints(t *testing.T) {
	n := 20000
	if testing.Short() {
		n = 2000
	}
	rng := rand.New(rand.NewPCG(1, 1))
	packets, states := 0, 0
	for range n {
		sc := traffic.Small(rng)
		frames, settled := traffic.Run(sc)
		if !settled {
			continue
		}
		tr := traffic.Mirror(sc, frames)
		tr.View.Closed = true
		packets += len(tr.Packets)
		for e := oracle.Requester; e <= oracle.Responder; e++ {
			d := oracle.Decide(tr, e)
			states += d.States
			if d.Verdict != oracle.Possible {
				t.Fatalf("seed %d: %v: %v at %d\n%v", sc.Seed, e, d.Verdict, d.At, tr)
			}
		}
	}
	if packets < 5*n {
		t.Errorf("only %d packets in %d traces", packets, n)
	}
	t.Logf("%d packets, %d states", packets, states)
}
