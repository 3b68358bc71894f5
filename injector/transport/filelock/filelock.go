// Package filelock is a lock between processes that the kernel releases when its holder ends in any way.
package filelock

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Lock is a file that this process has locked.
type Lock struct{ file *os.File }

// pollEvery is how often a lock that another process holds is tried. Waiting in the kernel could not be cancelled.
const pollEvery = 2 * time.Millisecond

// Acquire locks the file at path, which it creates if needed, and waits at most patience for another holder. The file
// stays after release: removing it could let two processes lock different files.
func Acquire(path string, patience time.Duration) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := own(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(pollEvery) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			// For a reader of the file; the lock does not depend on it.
			if err := f.Truncate(0); err == nil {
				_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
			}
			return &Lock{f}, nil
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		case time.Now().After(deadline):
			return nil, errors.Join(fmt.Errorf("%s is locked by %s for more than %v; try again when that has ended", path,
				holder(f), patience),
				f.Close())
		}
	}
}

// own refuses the file of another user, who could hold its lock for ever.
func own(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() && os.Geteuid() != 0 {
		return fmt.Errorf("it belongs to user %d", s.Uid)
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	return nil
}

// holder says who wrote its process id into the file.
func holder(f *os.File) string {
	text := make([]byte, 20)
	n, _ := f.ReadAt(text, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n]))); err == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}

// Release gives the lock up.
func (l *Lock) Release() error { return l.file.Close() }
