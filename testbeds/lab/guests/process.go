//go:build linux

package guests

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process ends with this one.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// launch starts a program with its output in a file.
func launch(log, program string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() { // the kernel ends the process with the thread that started it, which therefore stays
		runtime.LockOSThread()
		defer close(p.ended)
		defer out.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) kill() error {
	_ = p.cmd.Process.Kill() // it may have ended already
	select {
	case <-p.ended:
		return nil
	case <-time.After(endTime):
		return fmt.Errorf("%s (PID %d) does not end", p.cmd.Path, p.cmd.Process.Pid)
	}
}
