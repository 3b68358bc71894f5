package netns

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// identify returns the identity of a process.
func identify(pid int) (Process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	// The name in parentheses may hold anything; what follows has no parenthesis.
	_, rest, ok := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), ") ")
	fields := strings.Fields(rest)
	const state, start = 0, 19 // fields 3 and 22 of proc(5)
	if !ok || len(fields) <= start {
		return Process{}, fmt.Errorf("/proc/%d/stat: unexpected form", pid)
	}
	if fields[state] == "Z" {
		return Process{}, os.ErrNotExist
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	return Process{PID: pid, Start: ticks}, err
}

// Alive reports whether the process still runs.
func (p Process) Alive() bool {
	now, err := identify(p.PID)
	return err == nil && now == p
}

// kill ends the process if it still runs, and waits until it has.
func (p Process) kill(patience time.Duration) error {
	if !p.Alive() {
		return nil
	}
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", p.PID, err)
	}
	for deadline := time.Now().Add(patience); p.Alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d doesn't end", p.PID)
		}
	}
	return nil
}
