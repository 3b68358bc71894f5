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

// What stands for hardware in this testbed must not wait long for whatever else the machine does: a NIC whose frames
// lie in a queue for milliseconds looks, from the switch, like one that resends without need. So the processes, and the
// kernel threads that receive for the switch, have the highest ordinary priority. Real-time priority would be too much:
// on a small machine such a process can keep the kernel from the very work that it waits for.
const niceness = -20

// slice is the share of a CPU that a thread asks for at a time: the shorter, the sooner it gets one after it woke
// (EEVDF, Linux 6.12; older kernels take no notice).
const slice = 200 * time.Microsecond

// urgent gives a thread, or a process that has but one, that priority; 0 is the calling one. Threads that it starts
// inherit it.
func urgent(tid int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, tid, niceness); err != nil {
		return fmt.Errorf("priority %d: %w", niceness, err)
	}
	return nil
}

// urgentSession makes the calling process urgent also among other sessions: a node is the leader of one, and where the
// kernel groups processes by session (autogroup, sched(7)), a priority counts among those of one session only.
func urgentSession() error {
	err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(niceness)), 0)
	if errors.Is(err, os.ErrNotExist) {
		err = nil // this kernel has no such groups
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

// hurry gives the kernel's receive threads of the switch's ports that priority, too.
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
