package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// applicationEnds bounds how long a command of --exec may take to end when its test is over.
const applicationEnds = 5 * time.Second

// application starts the command of --exec, or asks the user for the application.
func (s *suite) application(ctx context.Context, wants string, out io.Writer) (<-chan error, error) {
	if s.flags.exec == "" {
		s.meter.clear()
		fmt.Fprintln(s.cmd.ErrOrStderr(), wants)
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", s.flags.exec)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, applicationEnds
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // and what the shell has started
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("--exec: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the command, at the latest after ctx
	return ended, nil
}
