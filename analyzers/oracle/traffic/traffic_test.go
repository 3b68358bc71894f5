package traffic_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/traffic"
)

// TestTheOracleAcceptsCompliantEndpoints compares two independent implementations of the standard.
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
		for e := oracle.Requester; e < oracle.Endpoints; e++ {
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

// TestTheOracleAcceptsWhatADisturbedNetworkMakesOfThem draws connections over a switch that reorders and duplicates
// frames, with two taps beside it and captures at the hosts.
func TestTheOracleAcceptsWhatADisturbedNetworkMakesOfThem(t *testing.T) {
	n := 4000
	if testing.Short() {
		n = 500
	}
	rng := rand.New(rand.NewPCG(3, 3))
	overtaken, copied := 0, 0
	for range n {
		sc := traffic.Small(rng)
		sc.Held, sc.Doubled, sc.HeldMax = 0.2, 0.1, 1+rng.Int64N(2*sc.TimeoutNS)
		frames, settled := traffic.Run(sc)
		if !settled {
			continue
		}
		for _, hosts := range []bool{false, true} {
			tr := traffic.Mirror(sc, frames)
			at := traffic.Crossings(frames, hosts)
			for i := range at {
				if at[i].Copy > 0 {
					copied++
				}
				if i > 0 && at[i].Second < at[i-1].Second && frames[i].Back == frames[i-1].Back {
					overtaken++
				}
			}
			tr.Packets = traffic.Cross(tr.Packets, at, hosts, 0)
			tr.View.Closed = true
			for e := oracle.Requester; e < oracle.Endpoints; e++ {
				if d := oracle.Decide(tr, e); d.Verdict != oracle.Possible {
					t.Fatalf("seed %d, hosts %t: %v: %v at %d\n%v", sc.Seed, hosts, e, d.Verdict, d.At, tr)
				}
			}
		}
	}
	if overtaken < n/10 || copied < n/10 {
		t.Errorf("%d frames overtaken and %d copied in %d traces", overtaken, copied, n)
	}
}

// TestTheOracleAcceptsLongConnections draws connections of a few hundred packets with the losses of sessions.
func TestTheOracleAcceptsLongConnections(t *testing.T) {
	n := 60
	if testing.Short() {
		n = 10
	}
	rng := rand.New(rand.NewPCG(2, 2))
	packets := 0
	for range n {
		sc := traffic.Small(rng)
		sc.Messages, sc.Packets, sc.Window, sc.Loss, sc.NotReady, sc.Refused = 40, 1+rng.IntN(12), 1+rng.IntN(24), 0.03, 0.01,
			0
		sc.Retry, sc.RNRRetry = 7, 7
		frames, settled := traffic.Run(sc)
		if !settled {
			continue
		}
		tr := traffic.Mirror(sc, frames)
		tr.View.Closed = true
		packets += len(tr.Packets)
		for e := oracle.Requester; e < oracle.Endpoints; e++ {
			if d := oracle.Decide(tr, e); d.Verdict != oracle.Possible {
				t.Fatalf("seed %d: %v: %v at %d of %d\n%v", sc.Seed, e, d.Verdict, d.At, len(tr.Packets), tr)
			}
		}
	}
	if packets < 100*n {
		t.Errorf("only %d packets in %d traces", packets, n)
	}
}

// TestSessionsRepeat makes the same captures of the same seed.
func TestSessionsRepeat(t *testing.T) {
	o := traffic.Options{Connections: 3, Packets: 300, Scenario: traffic.Scenario{
		Packets: 6, Window: 12, Reads: 2, Verbs: traffic.All, Loss: 0.02, DelayMin: 300, DelayMax: 900, Transit: 500,
		ProcessMax: 900,
		TimeoutNS:  4096 << 8, Retry: 7, RNRRetry: 7,
	}}
	tap := traffic.Tap{Place: traffic.AtResponder, OffsetNS: -12345, DriftPPM: 40, Missing: 0.1, Doubled: true,
		Routed: true}
	var files [2]bytes.Buffer
	for i := range files {
		if err := traffic.NewSession(7, o).Write(&files[i], 1, tap); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) || files[0].Len() < 50_000 {
		t.Errorf("captures of %d and %d bytes differ or are too short", files[0].Len(), files[1].Len())
	}
}
