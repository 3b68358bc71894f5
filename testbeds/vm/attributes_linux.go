package vm

import (
	"os/exec"
	"syscall"
)

// attributes make a guest die with this process, and keep a terminal's signals for this process alone.
func attributes(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
