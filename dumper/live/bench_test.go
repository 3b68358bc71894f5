//go:build linux

package live_test

import (
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/dumper/live"
	"candela.dev/candela/link/linktest"
)

// BenchmarkRecorder captures mirror copies of 128 bytes that the kernel sends through a veth, a million a second. It
// reports losses, and what part of a core the capture takes: every thread's time but the sender's, in whose time the
// kernel fills the ring. Writing the shards is not included.
func BenchmarkRecorder(b *testing.B) { benchmarkRecorder(b, 1_000_000) }

// BenchmarkRecorderFlatOut is the same as fast as the sender can.
func BenchmarkRecorderFlatOut(b *testing.B) { benchmarkRecorder(b, 0) }

const (
	volley         = 64 << 10 // copies of one call to the kernel: each call takes milliseconds before the first copy
	capturedCopies = 16 * volley
)

func benchmarkRecorder(b *testing.B, perSecond int) {
	linktest.Namespace(b, func() {
		linktest.Veth(b, "sender", "dumper")
		linktest.LetPass(b, "dumper", "sender")
		gun := linktest.NewFrameGun(b, "sender")
		frame := mirrorCopy(b, 1)[:128]
		var spent, sending, received, arrived int64
		var took time.Duration
		for b.Loop() {
			r, err := live.Open(live.Config{Name: "d", Interface: "dumper", Snap: 128})
			if err != nil {
				b.Fatal(err)
			}
			before := framesReceived(b, "dumper")
			process, own, start := linktest.ProcessCPU(b), linktest.ThreadCPU(b), time.Now()
			for sent := 0; sent < capturedCopies; sent += volley {
				gun.Fire(b, frame, volley)
				if perSecond > 0 {
					due := time.Duration(sent+volley) * time.Second / time.Duration(perSecond)
					time.Sleep(due - time.Since(start)) // no wait if the sender is late
				}
			}
			took += time.Since(start)
			own = linktest.ThreadCPU(b) - own
			spent, sending = spent+linktest.ProcessCPU(b)-process-own, sending+own
			report, err := r.Finish(func(string) (io.WriteCloser, error) { return discard{}, nil })
			if err != nil {
				b.Fatal(err)
			}
			received += int64(report.Written)
			arrived += framesReceived(b, "dumper") - before
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(spent)/float64(received), "cpu-ns/packet")
		b.ReportMetric(float64(spent)/float64(received)/1000, "cores-at-1M/s")
		b.ReportMetric(float64(sending)/float64(received), "sender-ns/packet")
		b.ReportMetric(float64(received)/took.Seconds(), "packets/s")
		b.ReportMetric(float64(arrived-received), "lost")
	})
}

// framesReceived is what has arrived at an interface, by its own count.
func framesReceived(b *testing.B, name string) int64 {
	b.Helper()
	text, err := os.ReadFile("/sys/class/net/" + name + "/statistics/rx_packets")
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }
