package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What stands for hardware in this testbed must not wait long for whatever else the machine does: a NIC whose frames lie in a
// queue for milliseconds looks, from the switch, like one that resends without need. So the processes, and the kernel threads
// that receive for the switch, have the highest ordinary priority. Real-time priority would be too much: on a small machine
// such a process can keep the kernel from the very work that it waits for.
const niceness = -20

// urgent gives a thread, or a process that has but one, that priority; 0 is the calling one. Threads that it starts inherit it.
func urgent(tid int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, tid, niceness); err != nil {
		return fmt.Errorf("priority %d: %w", niceness, err)
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
