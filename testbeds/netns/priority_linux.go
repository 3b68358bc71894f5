package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The processes that replace hardware in this testbed must not wait long for other work on the machine: a NIC whose
// frames wait in a queue for milliseconds looks, at the switch, like one that retransmits without need. So these
// processes, and the kernel's receive threads of the switch, get the highest ordinary priority. Real-time priority is
// too much: on a small machine such a process can block the kernel work that it waits for.
const niceness = -20

// slice is the CPU time that a thread requests at once. A shorter slice gives it a CPU sooner after waking (EEVDF,
// Linux 6.12; older kernels ignore it).
const slice = 200 * time.Microsecond

// urgent gives that priority to a thread, or to a process with one thread; 0 is the calling thread. New threads inherit
// it.
func urgent(tid int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, tid, niceness); err != nil {
		return fmt.Errorf("priority %d: %w", niceness, err)
	}
	return nil
}

// urgentSession makes the calling process urgent among other sessions, too. A node leads a session, and where the
// kernel groups processes by session (autogroup, sched(7)), priorities compare only within one.
func urgentSession() error {
	err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(niceness)), 0)
	if errors.Is(err, os.ErrNotExist) {
		err = nil // this kernel has no autogroups
	}
	if err != nil {
		return fmt.Errorf("priority of the session: %w", err)
	}
	attributes, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return fmt.Errorf("scheduling: %w", err)
	}
	attributes.Runtime = uint64(slice.Nanoseconds())
	if err := unix.SchedSetAttr(0, attributes, 0); err != nil {
		return fmt.Errorf("scheduling: %w", err)
	}
	return nil
}

// hurry gives the same priority to the kernel's receive threads of the switch's ports.
func hurry(tag string) error {
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range comms {
		name, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(name), "napi/"+tag) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			failed = append(failed, urgent(pid))
		}
	}
	return errors.Join(failed...)
}
