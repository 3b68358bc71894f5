//go:build linux

package link_test

import (
	"testing"
	"time"

	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
)

// BenchmarkRing reads frames of 128 bytes from a ring that the kernel fills as fast as it can, and reports the reader's
// time.
func BenchmarkRing(b *testing.B) {
	linktest.Namespace(b, func() {
		linktest.Veth(b, "a", "b")
		linktest.LetPass(b, "b", "a")
		gun := linktest.NewFrameGun(b, "a")
		// The kernel ends a block every millisecond, and the ring is not read while it fills them.
		ring, err := link.OpenRing(link.RingConfig{Interface: "b", Snap: 128, BlockBytes: 32 << 10, Blocks: 1024})
		if err != nil {
			b.Fatal(err)
		}
		defer ring.Close()
		frame := numbered(1, 128)
		const volley = 32 << 10 // a fraction of the ring
		var read, total int
		var spent int64
		for b.Loop() {
			gun.Fire(b, frame, volley)
			start := linktest.ThreadCPU(b)
			for {
				block, err := ring.Wait(5 * time.Millisecond)
				if err != nil {
					b.Fatal(err)
				}
				if block == nil {
					break
				}
				for f := range block.Frames() {
					total += len(f.Data)
					read++
				}
				block.Release()
			}
			spent += linktest.ThreadCPU(b) - start
		}
		stats, err := ring.Stats()
		if err != nil || total != 128*read {
			b.Fatalf("%d bytes in %d frames, %v", total, read, err)
		}
		b.ReportMetric(float64(spent)/float64(read), "ns/packet")
		b.ReportMetric(float64(stats.Dropped)/float64(stats.Frames), "lost-share")
	})
}
