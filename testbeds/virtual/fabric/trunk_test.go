package fabric_test

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// laterTrunks are links that tests make of trunks.
var laterTrunks = []fabric.LinkSpec{
	{Rate: 100 * clock.Gbps, Delay: 500 * clock.Nanosecond}, {Rate: 100 * clock.Gbps, Delay: 500 * clock.Nanosecond},
	{Rate: 7 * clock.Gbps, Delay: 100 * clock.Nanosecond}, {Rate: 3 * clock.Gbps, Delay: 3 * clock.Microsecond},
	{Rate: 400 * clock.Gbps, Delay: 900 * clock.Nanosecond, Framing: 24},
	{Rate: 100 * clock.Gbps, Delay: 500 * clock.Nanosecond, Failed: true},
}

// trunkChaos runs a network whose trunks change at random and returns a digest of what taps see and counters say, and
// how many packets ended for each reason.
func trunkChaos(t *testing.T, seed uint64, topology fabric.TopologySpec) (digest string, ended [fabric.Reasons]int) {
	t.Helper()
	topology.LaterTrunk = func(string, string) []fabric.LinkSpec { return laterTrunks }
	var pfc fabric.PFCSpec
	if seed%2 == 1 {
		pfc = fabric.PFCSpec{Classes: 0b101, XOff: 20_000, Headroom: 40_000}
	}
	n := meddled(t, seed, topology, pfc)
	h := fnv.New64a()
	var b []byte
	n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		b = binary.AppendVarint(b[:0], int64(now))
		b = append(b, byte(at.Stage), byte(at.Reason), byte(at.Node), byte(at.Port), byte(p.Size), byte(p.Hops))
		h.Write(binary.AppendUvarint(b, p.ID))
		ended[at.Reason]++
	})
	rng := rand.New(rand.NewPCG(seed, 2))
	trunks := topology.Trunks()
	failed := make(map[fabric.Trunk]bool)
	set := func(of fabric.Trunk, l *fabric.LinkSpec) {
		if err := n.SetTrunk(n.Now(), of.A, of.B, l); err != nil {
			t.Fatal(err)
		}
		failed[of] = l.Failed
	}
	reroute := func() {
		n.Reroute(func(a, b string) bool { return failed[fabric.Trunk{A: a, B: b}] || failed[fabric.Trunk{A: b, B: a}] })
	}
	for i := range 40 {
		if err := n.Run(clock.Time(i) * clock.Time(2*clock.Microsecond)); err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(3) {
			set(trunks[rng.IntN(len(trunks))], &laterTrunks[rng.IntN(len(laterTrunks))])
		}
		if rng.IntN(3) > 0 {
			reroute()
		}
		checkTallies(t, n)
		fmt.Fprintln(h, n.Now(), n.Hops(), n.InFlight(), n.Total())
	}
	for _, of := range trunks {
		set(of, &laterTrunks[0])
	}
	reroute()
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	checkTallies(t, n)
	if n.InFlight() != 0 {
		t.Errorf("seed %d: %d packets are left when nothing happens any more", seed, n.InFlight())
	}
	return fmt.Sprint(h.Sum64(), n.Now()), ended
}

// checkTallies compares what came into each switch, and what exists, with what became of it.
func checkTallies(t *testing.T, n *fabric.Network) {
	t.Helper()
	for i := range n.Switches() {
		if tally := n.Switch(i).Tally(); tally.Missing() != 0 {
			t.Fatalf("%s at %v: %+v", n.Switch(i).Name(), n.Now(), tally)
		}
	}
	c := n.Total()
	if flight := int(c.Sent + c.Copied - c.Delivered - c.Dropped); flight > n.InFlight() || n.Placed() != n.InFlight() {
		t.Fatalf("%+v leave %d in flight, %d are, %d are somewhere", c, flight, n.InFlight(), n.Placed())
	}
}

// Every packet ends once though trunks fail, degrade and come back at random, and with several workers each ends as it
// does with one.
func TestTrunksThatChangeLoseNoPacketUncounted(t *testing.T) {
	failed, unreachable := 0, 0
	for seed := range uint64(6) {
		topology := []fabric.TopologySpec{{Kind: fabric.Dumbbell, Hosts: 6}, {Kind: fabric.FatTree, K: 4},
			{Kind: fabric.LeafSpine, Hosts: 8, Leaves: 4, Spines: 3}}[seed%3]
		balances := []fabric.Balance{fabric.ECMP, fabric.SprayRoundRobin, fabric.SprayRandom, fabric.SourcePath}
		topology.Balance = balances[seed%4]
		want, ended := trunkChaos(t, seed, topology)
		failed += ended[fabric.ReasonTrunkFailed] + ended[fabric.ReasonTrunkDown]
		unreachable += ended[fabric.ReasonUnreachable]
		for _, count := range []int{3, -2} {
			withWorkers(count, func() {
				if got, _ := trunkChaos(t, seed, topology); got != want {
					t.Errorf("seed %d, %d workers: another run", seed, count)
				}
			})
		}
	}
	if failed == 0 || unreachable == 0 {
		t.Errorf("%d packets lost on or before trunks, %d had no path", failed, unreachable)
	}
}

// Which packets an outage costs follows from the link: those that wait for it and those on it. Rate and delay change
// when packets arrive as they should, and a shorter link lets none overtake another.
func TestATrunkLosesWhatIsOnIt(t *testing.T) {
	const us = clock.Time(clock.Microsecond)
	link := fabric.LinkSpec{Rate: 12 * clock.Gbps, Delay: 10 * clock.Microsecond} // 1500 bytes take 1 us
	type change struct {
		at   clock.Time
		link fabric.LinkSpec
	}
	failed, slow, near := link, link, link
	failed.Failed, slow.Rate, near.Delay = true, 6*clock.Gbps, 4*clock.Microsecond
	for _, c := range []struct {
		name    string
		changes []change
		// instants of arrival in us, of 8 packets that begin to cross at 11, 12, …
		want []int
	}{
		{"no change", nil, []int{32, 33, 34, 35, 36, 37, 38, 39}},
		// at 14.5 packets 1 to 4 are on the link; 5 and 6 reach the switch before 16.5
		{"an outage", []change{{29 * us / 2, failed}, {33 * us / 2, link}}, []int{38, 39}},
		{"half the rate", []change{{29 * us / 2, slow}}, []int{32, 33, 34, 35, 37, 39, 41, 43}},
		// the next packet begins at 15 + 6, when the last bit of the fourth is 4 us from the end
		{"a shorter link", []change{{29 * us / 2, near}}, []int{32, 33, 34, 35, 36, 37, 38, 39}},
		{"a longer link", []change{{1, near}, {29 * us / 2, link}}, []int{26, 27, 28, 29, 36, 37, 38, 39}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Kind: fabric.Dumbbell, Hosts: 2, Link: link,
				LaterTrunk: func(string, string) []fabric.LinkSpec { return []fabric.LinkSpec{failed, slow, near} }}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			n.Host(0).Attach(&source{to: 1, size: 1500, left: 8})
			n.Host(1).Attach(&source{idle: true, onPacket: func(now clock.Time, _ *fabric.Packet) {
				got = append(got, int(now/us)-1)
			}})
			for i := range c.changes {
				if err := n.Run(c.changes[i].at); err != nil {
					t.Fatal(err)
				}
				if err := n.SetTrunk(c.changes[i].at, "left", "right", &c.changes[i].link); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.Run(clock.Never); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("packets arrive at %v us, want %v", got, c.want)
			}
			checkTallies(t, n)
		})
	}
}
