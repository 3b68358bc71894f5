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

func identify(pid int) (Process, error) {
	p, _, err := readStat(pid)
	return p, err
}

// stateOf returns the state of a process as in ps; T is stopped.
func stateOf(p Process) (byte, error) {
	now, state, err := readStat(p.PID)
	if err == nil && now != p {
		err = os.ErrNotExist
	}
	return state, err
}

// readStat returns identity and state of a process. It returns os.ErrNotExist for an ended process, even if not reaped
// yet.
func readStat(pid int) (p Process, state byte, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, 0, err
	}
	// The name in parentheses may contain anything, so search for the last parenthesis.
	_, rest, ok := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), ") ")
	fields := strings.Fields(rest)
	const stateField, start = 0, 19 // fields 3 and 22 of proc(5)
	if !ok || len(fields) <= start {
		return p, 0, fmt.Errorf("/proc/%d/stat: unexpected form", pid)
	}
	if state = fields[stateField][0]; state == 'Z' || state == 'X' {
		return p, state, os.ErrNotExist
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	return Process{PID: pid, Start: ticks}, state, err
}

// Alive reports whether the process still runs.
func (p Process) Alive() bool {
	now, err := identify(p.PID)
	return err == nil && now == p
}

// kill ends the process if it still runs, and waits for its end.
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
