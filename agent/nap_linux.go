package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap lets the thread sleep by the kernel's own clock: the runtime's timers are up to a millisecond late on an idle process.
func nap(d time.Duration) {
	left := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&left, nil) // a signal cuts it short, which only measures less
}
