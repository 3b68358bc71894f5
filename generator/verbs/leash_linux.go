package verbs

import (
	"os/exec"
	"syscall"
)

// leash makes the kernel kill the program when the thread that starts it ends, and keeps a terminal's signals from it.
func leash(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
