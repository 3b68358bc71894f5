//go:build linux

package xdp_test

import (
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/xdp"
	"candela.dev/candela/link/linktest"
)

// burst is how many frames one call of the kernel runs through a program.
const burst = 200_000

// BenchmarkLiveFrames drives real frames through the program and its redirects into veth, with 1024 flows and as many
// events programmed, and compares with a program that does nothing but redirect: the figures of the live issue.
func BenchmarkLiveFrames(b *testing.B) {
	linktest.Namespace(b, func() {
		x, _ := open(b, xdp.Config{Seed: 1, CPU: -1})
		bare := bareRedirect(b)
		closed := crowd(false)
		if err := datapathtest.Program(x, closed); err != nil {
			b.Fatal(err)
		}
		in := datapathtest.FlowFrame(77)
		for b.Loop() {
			plain := perPacket(b, bare, in)
			forward := perPacket(b, x.Program(0), in)
			if err := datapathtest.Program(x, crowd(true)); err != nil {
				b.Fatal(err)
			}
			mirror := perPacket(b, x.Program(0), in)
			if err := datapathtest.Program(x, closed); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(plain, "bare-ns")
			b.ReportMetric(forward/plain, "forward/bare")
			b.ReportMetric(mirror/plain, "mirror/bare")
		}
	})
}

// BenchmarkProgram measures the program alone: no redirect is carried out.
func BenchmarkProgram(b *testing.B) {
	linktest.Namespace(b, func() {
		x, _ := open(b, xdp.Config{Seed: 1, CPU: -1})
		if err := datapathtest.Program(x, crowd(true)); err != nil {
			b.Fatal(err)
		}
		in := datapathtest.FlowFrame(77)
		for b.Loop() {
			start := time.Now()
			_, err := x.Program(0).Run(&ebpf.RunOptions{Data: in, Repeat: burst})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/burst, "ns/packet")
		}
	})
}

// crowd is a case with 1024 flows and an event on each, and the gate open or not.
func crowd(open bool) datapathtest.Case {
	c := datapathtest.Case{Entries: datapathtest.Crowd(1024)}
	if !open {
		c.Entries = append(c.Entries, datapathtest.Entry{Table: p4.TableMirror, Default: true,
			Action: p4.NewAction(p4.ActionNoAction)})
	}
	return c
}

// perPacket returns nanoseconds per live frame.
func perPacket(b *testing.B, program *ebpf.Program, frame []byte) float64 {
	b.Helper()
	start := time.Now()
	if _, err := program.Run(&ebpf.RunOptions{Data: frame, Repeat: burst, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES}); err != nil {
		b.Fatal(err)
	}
	return float64(time.Since(start).Nanoseconds()) / burst
}

// bareRedirect is a program that sends every frame to the interface of port 1, and nothing else.
func bareRedirect(b *testing.B) *ebpf.Program {
	b.Helper()
	device, err := net.InterfaceByName("s1")
	if err != nil {
		b.Fatal(err)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	if err := m.Put(uint32(0), uint32(device.Index)); err != nil {
		b.Fatal(err)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRedirectMap.Call(),
		asm.Return(),
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = program.Close() })
	return program
}
