package vm

import (
	"os/exec"
	"syscall"
)

// attributes shields a process from a terminal's signals by a session of its own. With leash, the process is killed
// when the thread that starts it ends; without, it stays.
func attributes(cmd *exec.Cmd, leash bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if leash {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
}
