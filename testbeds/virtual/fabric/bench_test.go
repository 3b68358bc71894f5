package fabric_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// flood gives every host but the receivers a source that never ends.
func flood(n *fabric.Network, to func(fabric.HostID) fabric.HostID) {
	for id := range fabric.HostID(n.Hosts()) {
		n.Host(id).Attach(&source{to: to(id), size: 1500, left: 1 << 60, idle: to(id) == id})
	}
}

// permutation is a random one without fixed points.
func permutation(hosts int) func(fabric.HostID) fabric.HostID {
	order := rand.New(rand.NewPCG(1, 2)).Perm(hosts)
	to := make([]fabric.HostID, hosts)
	for i, h := range order {
		to[h] = fabric.HostID(order[(i+1)%hosts])
	}
	return func(h fabric.HostID) fabric.HostID { return to[h] }
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()) / 1e9
}

// simulate runs n in slices of simulated time and reports hops per second of CPU time.
func simulate(b *testing.B, n *fabric.Network, slice clock.Duration) {
	b.Helper()
	at := clock.Time(0).Add(20 * clock.Microsecond)
	if err := n.Run(at); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	hops, cpu := n.Hops(), cpuSeconds()
	for b.Loop() {
		at = at.Add(slice)
		if err := n.Run(at); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n.Hops()-hops)/(cpuSeconds()-cpu)/1e6, "Mhops/cpu-s")
}

// BenchmarkIncast measures 64 senders at line rate into one port.
func BenchmarkIncast(b *testing.B) {
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 65}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	flood(n, func(fabric.HostID) fabric.HostID { return 64 })
	simulate(b, n, 100*clock.Microsecond)
}

// BenchmarkFatTree measures a permutation at line rate with packets sprayed over all paths.
func BenchmarkFatTree(b *testing.B) {
	for _, k := range []int{8, 12} {
		b.Run(fmt.Sprintf("hosts=%d", k*k*k/4), func(b *testing.B) {
			n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{
				Kind: fabric.FatTree, K: k, Balance: fabric.SprayRandom}}, nil)
			if err != nil {
				b.Fatal(err)
			}
			flood(n, permutation(n.Hosts()))
			simulate(b, n, 20*clock.Microsecond)
		})
	}
}
