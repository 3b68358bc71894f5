package vm

import (
	"os/exec"
	"syscall"
)

// attributes keep a terminal's signals from a process. One that is on a leash dies with the thread that starts it; any
// other has a session of its own, and stays.
func attributes(cmd *exec.Cmd, leash bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if leash {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
}
