//go:build linux

package xdp_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"candela.dev/candela/injector/datapathtest"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/xdp"
	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/packet"
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

// BenchmarkProgram measures the program alone by the thread's CPU time: no redirect is carried out. Each variant omits
// a part of the work, to show its cost. "mirror" is all of it for a packet that no event can meet, as most are, and the
// figure of the live issue. "event" is a packet whose event is looked up in two tables and found in the second.
// "nothing" returns immediately: the cost of the kernel's loop around a program. "bare" only redirects.
func BenchmarkProgram(b *testing.B) {
	in := datapathtest.FlowFrame(crowdFlow)
	other := bytes.Clone(in)
	other[12], other[13] = 0x08, 0x06 // ARP
	variants := []struct {
		name  string
		c     datapathtest.Case
		frame []byte
	}{
		{"mirror", crowd(true), in},
		{"event", datapathtest.Case{Entries: append(crowd(true).Entries, eventsOf(in)...)}, in},
		{"forward", crowd(false), in},
		{"no-flow", datapathtest.Case{Entries: crowd(false).Entries[2*crowdFlows:]}, in},
		{"not-roce", crowd(true), other},
	}
	for _, v := range variants {
		b.Run(v.name, func(b *testing.B) {
			linktest.Namespace(b, func() {
				x, _ := open(b, xdp.Config{Seed: 1, CPU: -1})
				if err := datapathtest.Program(x, v.c); err != nil {
					b.Fatal(err)
				}
				benchmarkAlone(b, x.Program(0), v.frame)
			})
		})
	}
	b.Run("bare", func(b *testing.B) {
		linktest.Namespace(b, func() {
			datapathtest.NewWire(b)
			benchmarkAlone(b, bareRedirect(b), in)
		})
	})
	b.Run("nothing", func(b *testing.B) {
		linktest.Namespace(b, func() { benchmarkAlone(b, nothing(b), in) })
	})
}

// eventsOf returns an event that the frame meets each time, and one whose PSN and ITER equal the frame's modulo 64.
func eventsOf(frame []byte) []datapathtest.Entry {
	const psnAt = packet.EthernetLen + packet.IPv4Len + packet.UDPLen + packet.BTHLen - 3
	psn := uint64(frame[psnAt])<<16 | uint64(frame[psnAt+1])<<8 | uint64(frame[psnAt+2])
	const last = 0xffff // where ITER stays
	return []datapathtest.Entry{
		{Table: p4.TableEvent, Key: p4.KeyOf(crowdFlow, 0, (psn+64)&0xffffff, last), Action: p4.NewAction(p4.ActionMarkECN)},
		{Table: p4.TableEventAny, Key: p4.KeyOf(crowdFlow, 0, psn), Action: p4.NewAction(p4.ActionMarkECN)},
	}
}

func benchmarkAlone(b *testing.B, program *ebpf.Program, frame []byte) {
	b.Helper()
	var spent time.Duration
	n := 0
	for b.Loop() {
		start := threadTime(b)
		if _, err := program.Run(&ebpf.RunOptions{Data: frame, Repeat: burst}); err != nil {
			b.Fatal(err)
		}
		spent += threadTime(b) - start
		n += burst
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(n), "ns/packet")
}

// threadTime is the CPU time of this thread, which other programs do not affect.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// nothing is a program that drops every frame.
func nothing(b *testing.B) *ebpf.Program {
	b.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R0, 1),
		asm.Return(),
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = program.Close() })
	return program
}

const (
	crowdFlows = 1024
	crowdFlow  = 77 // of them
)

// BenchmarkVeth sends from a packet socket through the injector to a veth, with mirroring to two others, and reports
// losses: at a port's driver, by the injector's counters, or at the far ends, by theirs.
func BenchmarkVeth(b *testing.B) {
	linktest.Namespace(b, func() {
		datapathtest.NewWire(b)
		for i := range datapathtest.Ports {
			release, err := xdp.Pass(datapathtest.Far(i))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = release.Close() })
		}
		x, err := xdp.Open(xdp.Config{Ports: datapathtest.NearPorts(), Seed: 1, CPU: 0})
		if err != nil {
			b.Fatal(err)
		}
		defer x.Close()
		if err := datapathtest.Program(x, crowd(true)); err != nil {
			b.Fatal(err)
		}
		sender, err := link.OpenSender(datapathtest.Far(datapathtest.HostA))
		if err != nil {
			b.Fatal(err)
		}
		defer sender.Close()
		frame := datapathtest.FlowFrame(77)
		before := farPackets(b)
		start := time.Now()
		for b.Loop() {
			for range burst / 100 {
				queue(b, sender, frame)
			}
		}
		if err := sender.Flush(); err != nil && !errors.Is(err, unix.ENOBUFS) {
			b.Fatal(err)
		}
		took := time.Since(start)
		want := 2 * sender.Sent() // the packet and its copy
		var got uint64
		for deadline := time.Now().Add(2 * time.Second); got < want &&
			time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			got = farPackets(b) - before
		}
		b.ReportMetric(float64(sender.Sent())/took.Seconds(), "packets/s")
		b.ReportMetric(float64(want)-float64(got), "lost")
	})
}

// queue sends a frame. A sender that is faster than the switch gets an error because the first veth is full: such
// frames are neither sent nor lost.
func queue(b *testing.B, s *link.Sender, frame []byte) {
	b.Helper()
	err := s.Queue(frame)
	if errors.Is(err, unix.ENOBUFS) {
		time.Sleep(50 * time.Microsecond)
		return
	}
	if err != nil {
		b.Fatal(err)
	}
}

// farPackets is what has arrived at the far ends of host B and the dumpers.
func farPackets(b *testing.B) (n uint64) {
	b.Helper()
	for _, i := range []int{datapathtest.HostB, datapathtest.DumperA, datapathtest.DumperB} {
		text, err := os.ReadFile("/sys/class/net/" + datapathtest.Far(i) + "/statistics/rx_packets")
		if err != nil {
			b.Fatal(err)
		}
		v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		n += v
	}
	return n
}

// crowd is a case with 1024 flows and an event on each, and the gate open or not.
func crowd(open bool) datapathtest.Case {
	c := datapathtest.Case{Entries: datapathtest.Crowd(crowdFlows)}
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
	if _, err := program.Run(&ebpf.RunOptions{Data: frame, Repeat: burst,
		Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES}); err != nil {
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
