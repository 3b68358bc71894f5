package linktest

import (
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// LetPass attaches a program that passes every frame to an end of a veth, which takes redirected frames from its peer
// only with one. Both ends get an MTU that the program's buffers allow.
func LetPass(t testing.TB, name, peer string) {
	t.Helper()
	const mtu = 1500
	SetMTU(t, name, mtu)
	SetMTU(t, peer, mtu)
	const pass = 2
	program := xdpProgram(t, asm.Instructions{asm.Mov.Imm(asm.R0, pass), asm.Return()})
	l, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: index(t, name), Flags: link.XDPDriverMode})
	if err != nil {
		t.Fatalf("let frames pass to %s: %v", name, err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// A FrameGun sends a frame many times from within the kernel: the fastest sender without hardware.
type FrameGun struct{ program *ebpf.Program }

// NewFrameGun returns a FrameGun on an interface, a veth whose peer passes frames. It needs CAP_BPF.
func NewFrameGun(t testing.TB, name string) *FrameGun {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Skipf("no device map: %v", err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Put(uint32(0), uint32(index(t, name))); err != nil {
		t.Fatal(err)
	}
	return &FrameGun{xdpProgram(t, asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRedirectMap.Call(),
		asm.Return(),
	})}
}

// Fire sends a frame n times. Frames that do not fit into the peer's queue are lost.
func (g *FrameGun) Fire(t testing.TB, frame []byte, n int) {
	t.Helper()
	options := &ebpf.RunOptions{Data: frame, Repeat: uint32(n), Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES}
	if _, err := g.program.Run(options); err != nil {
		t.Fatalf("send live frames: %v", err)
	}
}

func xdpProgram(t testing.TB, code asm.Instructions) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: code})
	if err != nil {
		t.Skipf("no XDP program: %v", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return program
}

func index(t testing.TB, name string) int {
	t.Helper()
	device, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return device.Index
}

// ThreadCPU is the CPU time of the calling thread in nanoseconds, in the kernel included.
func ThreadCPU(t testing.TB) int64 { return cpuTime(t, unix.CLOCK_THREAD_CPUTIME_ID) }

// ProcessCPU is that of all threads.
func ProcessCPU(t testing.TB) int64 { return cpuTime(t, unix.CLOCK_PROCESS_CPUTIME_ID) }

func cpuTime(t testing.TB, which int32) int64 {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(which, &at); err != nil {
		t.Fatal(err)
	}
	return at.Nano()
}
