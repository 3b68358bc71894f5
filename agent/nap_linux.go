package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps by the kernel's clock: the runtime's timers are up to a millisecond late on an idle process.
func nap(d time.Duration) {
	left := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&left, nil) // a signal cuts it short, which only measures less
}

// pinTo moves the calling thread to a CPU, or nowhere if it may not use that CPU.
func pinTo(cpu int) {
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set)
}
