//go:build unix

package agent

import (
	"os"
	"syscall"
)

// signalProcess lets a process run, or stops it.
func signalProcess(pid int, run bool) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if run {
		return p.Signal(syscall.SIGCONT)
	}
	return p.Signal(syscall.SIGSTOP)
}
