package fabric_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

var update = flag.Bool("update", false, "rewrite golden files")

// run makes a new network for each call; the name describes the traffic.
type run struct {
	name string
	make func() *fabric.Network
}

func runs(t *testing.T) []run {
	t.Helper()
	pfc := fabric.PFCSpec{Classes: 0b101, XOff: 20_000, Headroom: 40_000}
	long := fabric.LinkSpec{Rate: 100 * clock.Gbps, Delay: 3 * clock.Millisecond} // beyond the calendar
	odd := fabric.LinkSpec{Rate: 3 * clock.Gbps, Delay: 77, Framing: 24}          // no integer picoseconds per byte
	spray := fabric.TopologySpec{Kind: fabric.FatTree, K: 4, Balance: fabric.SprayRandom}
	return []run{
		{"NDP incast", func() *fabric.Network { return ndpIncast(t, 60) }},
		{"NDP permutation, fat tree", func() *fabric.Network { return ndpPermutation(t, 4, 40, 200) }},
		{"NDP permutation, 432 hosts", func() *fabric.Network { return ndpPermutation(t, 12, 12, 12) }},
		{"everything, one switch", func() *fabric.Network {
			return meddled(t, 1, fabric.TopologySpec{Hosts: 9},
				fabric.PFCSpec{})
		}},
		{"everything, fat tree", func() *fabric.Network { return meddled(t, 2, spray, fabric.PFCSpec{}) }},
		{"everything, lossless classes", func() *fabric.Network { return meddled(t, 3, spray, pfc) }},
		{"everything, links of 3 ms", func() *fabric.Network {
			return meddled(t, 4, fabric.TopologySpec{Kind: fabric.Dumbbell, Hosts: 6, Link: long}, pfc)
		}},
		{"everything, odd rate", func() *fabric.Network {
			return meddled(t, 5, fabric.TopologySpec{Kind: fabric.LeafSpine, Hosts: 8, Leaves: 4, Spines: 3, Link: odd},
				fabric.PFCSpec{})
		}},
	}
}

// TestRunsAreWhatTheyWere compares digests of whole runs with recorded ones: everything a tap sees, in order, and the
// final counters. An optimisation must not change them; a change of the model updates them and gives the reason.
func TestRunsAreWhatTheyWere(t *testing.T) {
	runtimetest.SkipRace(t)
	const golden = "testdata/runs.golden"
	var got strings.Builder
	for _, run := range runs(t) {
		fmt.Fprintf(&got, "%s: %s\n", run.name, digest(t, run.make()))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// TestLookingAheadChangesNothing checks that looking ahead affects only the processor's caches.
func TestLookingAheadChangesNothing(t *testing.T) {
	runtimetest.SkipRace(t)
	for _, run := range runs(t) {
		var digests [2]string
		for i := range digests {
			n := run.make()
			n.LookAhead(i == 1)
			digests[i] = digest(t, n)
		}
		if digests[0] != digests[1] {
			t.Errorf("%s: %s, looking ahead %s", run.name, digests[0], digests[1])
		}
	}
}

// meddled is a network of hosts that exchange packets of all kinds through switches that copy, trim, recirculate,
// deflect and drop.
func meddled(t *testing.T, seed uint64, topology fabric.TopologySpec, pfc fabric.PFCSpec) *fabric.Network {
	t.Helper()
	n, err := network(&fabric.Spec{Seed: seed, Topology: topology, Switch: fabric.SwitchSpec{
		Latency: 33 * clock.Nanosecond, PortsPerPipeline: 3, PFC: pfc, Buffer: fabric.BufferSpec{Bytes: 120_000},
		Queues: []fabric.QueueSpec{
			{MaxPackets: 20, Mark: fabric.MarkSpec{MinBytes: 3000, MaxBytes: 20_000, Probability: 0.5}},
			{MaxBytes: 40_000, Order: fabric.ByRank}, {Alpha: 0.5}, {Private: true, MaxPackets: 12},
		},
		Scheduler:     fabric.SchedulerSpec{Kind: fabric.DWRR, Weights: []int{1, 3, 2, 0}, Quantum: 700},
		Recirculation: fabric.RecirculationSpec{Rate: 100 * clock.Gbps, Latency: 200 * clock.Nanosecond},
	}}, busy)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for id := range n.Hosts() {
		s := &talker{}
		for i := range 150 {
			s.out = append(s.out, fabric.Header{
				Dst: fabric.HostID(rng.IntN(n.Hosts())), Size: int32(60 + rng.IntN(8940)), Protocol: fabric.Protocol(1 + i%5),
				Class: uint8(rng.IntN(8)), Rank: uint64(rng.IntN(20)), Flow: uint32(rng.IntN(4)), Flags: fabric.Ranked,
				Entropy: uint16(rng.IntN(4)),
				ECN:     packet.ECN(i % 4),
			})
		}
		n.Host(fabric.HostID(id)).Attach(s)
	}
	return n
}

// digest runs n to its end and returns a digest of all events and counters.
func digest(t *testing.T, n *fabric.Network) string {
	t.Helper()
	h := fnv.New64a()
	var b []byte
	seen := 0
	n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		seen++
		b = fmt.Appendln(b[:0], at, int64(now), p.ID, p.Src, p.Dst, p.Size, p.Original, p.Flags&^fabric.Ranked, p.Class,
			p.ECN, p.TTL, p.Hops, p.Ingress, p.Egress)
		b = p.NDP.AppendTo(b)
		h.Write(b)
	})
	if err := n.Run(clock.Never); err != nil {
		t.Fatal(err)
	}
	tapped := h.Sum64()
	h.Reset()
	counters := func(v any) { fmt.Fprintf(h, "%+v\n", v) }
	for id := range n.Hosts() {
		counters(*n.Host(fabric.HostID(id)).Port().Counters())
	}
	for i := range n.Switches() {
		sw := n.Switch(i)
		for port := range sw.Ports() {
			counters(*sw.Port(port).Counters())
			for q := range sw.Port(port).Queues() {
				counters(sw.Port(port).Queue(q).Counters())
			}
		}
	}
	return fmt.Sprintf("%d sights, digest %016x; %d hops until %d, %+v, counters %016x", seen, tapped, n.Hops(), n.Now(),
		n.Total(), h.Sum64())
}
