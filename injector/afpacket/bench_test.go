//go:build linux

package afpacket_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/injector/afpacket"
	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

// BenchmarkMirrored forwards and mirrors 1 KiB packets of one flow of 1024, with an event on each, and reports packets
// for each second of CPU time of the switch's thread, system calls included: what one core can do.
func BenchmarkMirrored(b *testing.B) { benchmarkMirrored(b, false) }

// BenchmarkMirroredPacketSockets is the same with packet sockets for sending.
func BenchmarkMirroredPacketSockets(b *testing.B) { benchmarkMirrored(b, true) }

func benchmarkMirrored(b *testing.B, packetSockets bool) {
	linktest.Namespace(b, func() {
		datapathtest.NewWire(b)
		s, err := afpacket.Open(afpacket.Config{Ports: datapathtest.NearPorts(), Seed: 1, PacketSockets: packetSockets})
		if err != nil {
			b.Fatal(err)
		}
		if err := datapathtest.Program(s.Pipeline(), datapathtest.Case{Entries: datapathtest.Crowd(1024)}); err != nil {
			b.Fatal(err)
		}
		sender, err := link.OpenSender(datapathtest.Far(datapathtest.HostA))
		if err != nil {
			b.Fatal(err)
		}
		defer sender.Close()
		var mu sync.Mutex
		var spent time.Duration // of the thread, as of the latest round
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			err := s.Run(ctx, func(f func()) {
				mu.Lock()
				defer mu.Unlock()
				f()
				spent = threadTime()
			})
			if err != nil {
				b.Error(err)
			}
		})
		received := func() (n uint64, at time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			stats, err := s.Stats()
			if err != nil {
				b.Fatal(err)
			}
			return stats[datapathtest.HostA].Received, spent
		}
		frame := datapathtest.FlowFrame(77)
		const burst = 512 // half a ring: nothing is lost
		first, start := received()
		sent := first
		for b.Loop() {
			for range burst {
				if err := sender.Queue(frame); err != nil {
					b.Fatal(err)
				}
			}
			if err := sender.Flush(); err != nil {
				b.Fatal(err)
			}
			sent += burst
			for n, _ := received(); n < sent; n, _ = received() {
				time.Sleep(100 * time.Microsecond) // spinning would fight for the lock
			}
		}
		last, end := received()
		b.ReportMetric(float64(last-first)/(end-start).Seconds(), "packets/cpu-s")
		cancel()
		group.Wait()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
}

func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // can't fail for this clock
	return time.Duration(t.Nano())
}
