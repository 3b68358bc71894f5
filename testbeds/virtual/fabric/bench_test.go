package fabric_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// flood gives every host except the receivers an endless source.
func flood(n *fabric.Network, to func(fabric.HostID) fabric.HostID) {
	for id := range fabric.HostID(n.Hosts()) {
		n.Host(id).Attach(&source{to: to(id), size: 1500, left: 1 << 60, idle: to(id) == id})
	}
}

// permutation returns a random permutation without fixed points.
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

// complete runs n to its end b.N times and reports hops per second of CPU time.
func complete(b *testing.B, build func() *fabric.Network) {
	b.Helper()
	var hops uint64
	var cpu float64
	for b.Loop() {
		n := build()
		start := cpuSeconds()
		if err := n.Run(clock.Never); err != nil {
			b.Fatal(err)
		}
		cpu += cpuSeconds() - start
		hops += n.Hops()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapSys-memory.HeapReleased)/1e6, "heap-MB")
	b.ReportMetric(cpu/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(hops)/float64(b.N), "hops/op")
	b.ReportMetric(float64(hops)/cpu/1e6, "Mhops/cpu-s")
}

// BenchmarkNDPIncast is the first figure of issue 5: 64 senders of 10 000 packets of 1500 B each, initial window 1000,
// headers that don't fit returned to their sender. csg-htsim takes 0.94 s of CPU time, 4.2 M hops/s.
func BenchmarkNDPIncast(b *testing.B) {
	complete(b, func() *fabric.Network { return ndpIncast(b, 10_000) })
}

// BenchmarkNDPPermutation is the second and third figure, 10 MB flows on 128 hosts and 3 MB on 432, and those of issue
// 17: shorter flows on more hosts. Under -short (make bench-once) flows have a twentieth.
func BenchmarkNDPPermutation(b *testing.B) {
	for _, test := range []struct {
		k     int
		bytes int64
	}{{4, 10_000_000}, {8, 10_000_000}, {12, 3_000_000}, {16, 1_000_000}, {24, 300_000}} {
		if testing.Short() {
			test.bytes /= 20
		}
		b.Run(fmt.Sprintf("hosts=%d", test.k*test.k*test.k/4), func(b *testing.B) {
			complete(b, func() *fabric.Network { return ndpPermutation(b, test.k, 130, test.bytes/1500) })
		})
	}
}

// BenchmarkSweep runs the independent points of a sweep one after the other and two at a time. On two idle cores, the
// speed-up is the ratio of the times; otherwise twice the ratio of cpu-s/op estimates it.
func BenchmarkSweep(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
			start := cpuSeconds()
			for b.Loop() {
				sweep(b, 4, workers)
			}
			b.ReportMetric((cpuSeconds()-start)/float64(b.N), "cpu-s/op")
		})
	}
}

// sweep runs fat trees with permutations on that many workers.
func sweep(b *testing.B, points, workers int) {
	b.Helper()
	next := make(chan *fabric.Network, points)
	for range points {
		next <- ndpPermutation(b, 8, 60, 300)
	}
	close(next)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := range next {
				if err := n.Run(clock.Never); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
}
