package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a guest or a switch: a child of this process, or a process that an earlier command left running.
type process struct {
	ID    int    `json:"pid"`
	Start uint64 `json:"start"` // in ticks since boot; PIDs are reused

	ended   chan struct{} // closed when it has ended; failure has the reason
	failure error
}

// launch starts a program with its output in the file log. With leash, the program ends with this process: the kernel
// kills it when the thread that started it ends. That thread stays until the program has ended.
func launch(log string, leash bool, name string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(name, args...)
	attributes(cmd, leash)
	cmd.Stdout, cmd.Stderr = out, out
	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.failure = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.ID = cmd.Process.Pid
	if p.Start, err = startOf(p.ID); err != nil {
		p.Start = 0 // it has ended already; ended reports it
	}
	return p, nil
}

// watchEvery is the interval for polling a process that is not a child.
const watchEvery = 20 * time.Millisecond

// watches are the goroutines that poll processes that are not children.
type watches struct {
	stop chan struct{}
	all  sync.WaitGroup
}

func newWatches() *watches { return &watches{stop: make(chan struct{})} }

func (w *watches) end() {
	close(w.stop)
	w.all.Wait()
}

// watch creates ended and closes it when a process that is not a child ends. The goroutine ends with the process or
// with w.
func (p *process) watch(w *watches) {
	p.ended = make(chan struct{})
	check := func() bool {
		now, err := startOf(p.ID)
		return err == nil && now == p.Start
	}
	end := func() {
		p.failure = errors.New("it is gone")
		close(p.ended)
	}
	if !check() {
		end()
		return
	}
	w.all.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for check() {
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
		}
		end()
	})
}

// startOf returns the start time of a process in ticks since boot, or an error if it has ended.
func startOf(id int) (uint64, error) {
	start, _, err := statOf(id)
	return start, err
}

// stopped reports whether the process is stopped by a signal.
func (p *process) stopped() bool {
	start, state, err := statOf(p.ID)
	return err == nil && start == p.Start && (state == "T" || state == "t")
}

// statOf returns the start time of a process and its state letter as in ps.
func statOf(id int) (ticks uint64, condition string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return 0, "", err
	}
	// The name in parentheses may contain anything, so search for the last parenthesis.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const state, start = 0, 19 // fields 3 and 22 of proc(5)
	if len(fields) <= start {
		return 0, "", fmt.Errorf("/proc/%d/stat: unexpected form", id)
	}
	if fields[state] == "Z" {
		return 0, "", os.ErrNotExist
	}
	ticks, err = strconv.ParseUint(fields[start], 10, 64)
	return ticks, fields[state], err
}

func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) kill() error {
	if p.dead() {
		return nil
	}
	if now, err := startOf(p.ID); err == nil && now == p.Start {
		if err := syscall.Kill(p.ID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d: %w", p.ID, err)
		}
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(endTime):
		return fmt.Errorf("process %d doesn't end", p.ID)
	}
}

const endTime = 20 * time.Second

// residentKiB returns the resident memory of the process in KiB, 0 if it has ended.
func (p *process) residentKiB() int {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.ID), "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0
	}
	return n
}
