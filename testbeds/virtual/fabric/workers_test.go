package fabric_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// workers is the number of workers for the networks of these tests; 0: undivided; negative: partitions are joined and
// divided all the time.
var workers int

// network makes a network that is divided among workers.
func network(s *fabric.Spec, mechanism func(*fabric.Switch) fabric.Mechanism) (*fabric.Network, error) {
	switch {
	case workers < 0:
		fabric.Flap(s, -workers)
	case workers > 0:
		fabric.Force(s, workers)
	}
	return fabric.New(s, mechanism)
}

// withWorkers calls f with networks divided among count workers.
func withWorkers(count int, f func()) {
	workers = count
	defer func() { workers = 0 }()
	f()
}

// tcpLeafSpine is TCP with losses, between hosts of four leaves.
func tcpLeafSpine(t *testing.T) *fabric.Network {
	t.Helper()
	n, err := network(&fabric.Spec{Seed: 9, Topology: fabric.TopologySpec{
		Kind: fabric.LeafSpine, Leaves: 4, Spines: 2, Hosts: 12, Link: fabric.LinkSpec{Rate: 25 * clock.Gbps},
		Uplink: fabric.LinkSpec{Rate: 40 * clock.Gbps, Delay: 2 * clock.Microsecond}},
		Switch: fabric.SwitchSpec{Queues: []fabric.QueueSpec{{MaxPackets: 20}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range fabric.HostID(n.Hosts()) {
		h, err := n.AttachTCP(i, fabric.TCPConfig{Control: tcp.Cubic, MinRTO: clock.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Core().Write(tcp.Endpoint((i+7)%5), uint32(i), 300_000, 0); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestWorkersChangeNothing checks that taps in order, counters, hops and end equal those of one worker. The topologies,
// models and transports cut links of all kinds.
func TestWorkersChangeNothing(t *testing.T) {
	all := append(runs(t), run{"TCP, leaf-spine", func() *fabric.Network { return tcpLeafSpine(t) }})
	for _, run := range all {
		counts := []int{1, 2, 3, 7, -3}
		if runtimetest.Race && strings.Contains(run.name, "432 hosts") {
			continue // the same code as with the smaller fat tree
		} else if strings.HasPrefix(run.name, "NDP") { // longer than the others
			counts = []int{-2, 7}
		} else if runtimetest.Race {
			counts = []int{2, 7, -3}
		}
		want := digest(t, run.make())
		for _, count := range counts {
			withWorkers(count, func() {
				n := run.make()
				if got := digest(t, n); got != want {
					t.Errorf("%s, %d workers: %s, want %s", run.name, count, got, want)
				}
				if p := n.Parallelism(); count != 1 && (p.Partitions < 2 || p.Windows == 0 || p.Alone > 0 != (count < 0)) {
					t.Errorf("%s, %d workers: %+v", run.name, count, p)
				}
			})
		}
	}
}

// TestWorkersSeeChangesAtTheirInstant stops and starts switches between spans of a run, like changes of tests.
func TestWorkersSeeChangesAtTheirInstant(t *testing.T) {
	outage := func() string {
		pfc := fabric.PFCSpec{Classes: 0b101, XOff: 20_000, Headroom: 40_000}
		n := meddled(t, 6, fabric.TopologySpec{Kind: fabric.FatTree, K: 4, Balance: fabric.SprayRandom}, pfc)
		var b strings.Builder
		n.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) { fmt.Fprintln(&b, at, now, p.ID, p.Size) })
		for i := range 10 {
			if err := n.Run(clock.Time(i) * clock.Time(7*clock.Microsecond)); err != nil {
				t.Fatal(err)
			}
			at, some := n.Next()
			fmt.Fprintln(&b, n.Now(), at, some, n.Hops(), n.InFlight(), n.Total())
			sw := n.Switch(i % n.Switches())
			if i < 5 {
				sw.Stop(n.Now())
			} else {
				n.Switch(i-5).Start(n.Now(), busybody{})
			}
		}
		if err := n.Run(clock.Never); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	want := outage()
	for _, count := range []int{2, 3, 7, -2} {
		withWorkers(count, func() {
			if got := outage(); got != want {
				t.Errorf("%d workers: another run", count)
			}
		})
	}
}

// TestWorkersChangeNoRandomNetwork draws topologies, queues, rates, delays and packets.
func TestWorkersChangeNoRandomNetwork(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := fabric.Spec{
			Seed: rapid.Uint64().Draw(rt, "seed"), Topology: topologies(rt),
			Switch: fabric.SwitchSpec{
				Queues: queueSpecs(rt, true), PortsPerPipeline: rapid.IntRange(0, 2).Draw(rt, "pipeline"),
				Latency:       clock.Duration(rapid.Int64Range(0, int64(clock.Microsecond)).Draw(rt, "latency")),
				Recirculation: fabric.RecirculationSpec{Rate: 100 * clock.Gbps, Latency: clock.Microsecond},
			},
		}
		spec.Topology.Uplink = spec.Topology.Link
		spec.Topology.Uplink.Delay *= clock.Duration(rapid.IntRange(1, 3).Draw(rt, "longer"))
		headers, flap := make(map[fabric.HostID][]fabric.Header), false
		seen := func(count int) string {
			s := spec
			s.Switch.Queues = append([]fabric.QueueSpec(nil), spec.Switch.Queues...)
			if count > 0 {
				fabric.Force(&s, count)
			}
			if count > 0 && flap {
				fabric.Flap(&s, count)
			}
			n, err := fabric.New(&s, busy)
			if err != nil {
				rt.Fatal(err)
			}
			if len(headers) == 0 {
				chatter(rt, n)
				for id := range fabric.HostID(n.Hosts()) {
					headers[id] = n.Host(id).Stack().(*talker).out
				}
			}
			for id := range fabric.HostID(n.Hosts()) {
				n.Host(id).Attach(&talker{out: headers[id]})
			}
			return digest(t, n)
		}
		want := seen(0)
		flap = rapid.Bool().Draw(rt, "join")
		if got := seen(rapid.IntRange(2, 7).Draw(rt, "workers")); got != want {
			rt.Fatalf("%s, one worker %s", got, want)
		}
	})
}

// halting is a mechanism that ends the run: it drops its n-th packet for a non-existent reason.
type halting struct {
	fabric.TailDrop
	left *int
}

func (h halting) Ingress(_ clock.Time, _ *fabric.Switch, _ *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if *h.left--; *h.left == 0 {
		return v.Drop(fabric.Reasons)
	}
	return v
}

// TestWorkersReportTheFirstFault checks that the earliest of several failures ends the run.
func TestWorkersReportTheFirstFault(t *testing.T) {
	failure := func() error {
		n, err := network(&fabric.Spec{Topology: fabric.TopologySpec{Kind: fabric.FatTree, K: 4}},
			func(sw *fabric.Switch) fabric.Mechanism {
				left := 40 + sw.ID()%3
				return halting{left: &left}
			})
		if err != nil {
			t.Fatal(err)
		}
		flood(n, permutation(n.Hosts()))
		seen := 0
		n.SetTap(func(fabric.Point, clock.Time, *fabric.Packet) { seen++ })
		err = n.Run(clock.Never)
		if again := n.Run(clock.Never); !errors.Is(again, err) || err == nil {
			t.Errorf("%v, then %v", err, again)
		}
		return fmt.Errorf("%w; %d sights", err, seen)
	}
	want := failure().Error()
	for _, count := range []int{2, 3, 7, -2} {
		withWorkers(count, func() {
			if got := failure().Error(); got != want {
				t.Errorf("%d workers: %s, want %s", count, got, want)
			}
		})
	}
}

// TestFewHopsHaveOneWorker checks links of 20 ns and idle links, whose windows hold too few hops for several workers.
func TestFewHopsHaveOneWorker(t *testing.T) {
	spec := fabric.Spec{Workers: 2, Topology: fabric.TopologySpec{Kind: fabric.FatTree, K: 8}}
	spec.Topology.Link = fabric.LinkSpec{Rate: 100 * clock.Gbps, Delay: 20 * clock.Nanosecond}
	short, err := fabric.New(&spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := short.Parallelism(); p.Partitions != 1 || p.Workers != 2 {
		t.Errorf("links of 20 ns: %+v", p)
	}
	spec.Topology.Link.Delay = clock.Microsecond
	for _, busy := range []bool{false, true} {
		n, err := fabric.New(&spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		to := permutation(n.Hosts())
		if !busy {
			to = func(h fabric.HostID) fabric.HostID { return max(h, 1) } // to the first host only
		}
		flood(n, to)
		if err := n.Run(clock.Time(50 * clock.Microsecond)); err != nil {
			t.Fatal(err)
		}
		p := n.Parallelism()
		if p.Partitions != 2 || p.Windows < 40 || busy != (p.Alone < p.Windows/2) || !busy && p.Alone != p.Windows {
			t.Errorf("busy %v: %+v", busy, p)
		}
	}
}
