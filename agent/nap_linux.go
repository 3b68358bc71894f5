package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap lets the thread sleep by the kernel's own clock: the runtime's timers are up to a millisecond late on an idle
// process.
func nap(d time.Duration) {
	left := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&left, nil) // a signal cuts it short, which only measures less
}

// pinTo keeps the calling thread on a CPU; one that it may not use leaves it where it is.
func pinTo(cpu int) {
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set)
}
