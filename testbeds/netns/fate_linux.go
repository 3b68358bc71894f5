package netns

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/testbeds/remote"
)

// reapTime bounds the delay between the end of a child and its exit status.
const reapTime = time.Second

// fate returns the state of a node's process. The exit status is known for children only.
func (n *Node) fate() remote.Fate {
	pid := n.Process.PID
	if pid == 0 {
		return remote.Fate{}
	}
	state, err := stateOf(n.Process)
	switch {
	case err == nil && (state == 'T' || state == 't'):
		text := fmt.Sprintf("process %d is stopped by a signal", pid)
		if n.child == nil { // otherwise it ends with this process
			text += fmt.Sprintf("; kill -CONT %d lets it go on", pid)
		}
		return remote.Fate{Condition: remote.Stopped, Text: text}
	case err == nil:
		return remote.Fate{}
	}
	unknown := remote.Fate{Condition: remote.Ended, Text: fmt.Sprintf("process %d has ended", pid)}
	if n.child == nil {
		return unknown
	}
	select {
	case <-n.child.exited:
		return endOf(pid, n.child.status)
	case <-time.After(reapTime):
		return unknown
	}
}

func endOf(pid int, failure error) remote.Fate {
	exit, ok := errors.AsType[*exec.ExitError](failure)
	switch {
	case failure == nil:
		return remote.Fate{Condition: remote.Ended, Text: fmt.Sprintf("process %d has ended (exit status 0)", pid)}
	case !ok:
		return remote.Fate{Condition: remote.Failed, Text: fmt.Sprintf("process %d has ended: %v", pid, failure)}
	}
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return remote.Fate{Condition: remote.Killed,
			Text: fmt.Sprintf("process %d was killed (%s)", pid, unix.SignalName(w.Signal()))}
	}
	return remote.Fate{Condition: remote.Failed,
		Text: fmt.Sprintf("process %d has ended (exit status %d)", pid, exit.ExitCode())}
}

// fates returns the fates of all nodes, with the last log lines of failed ones.
func (s *State) fates() map[string]remote.Fate {
	list := make(map[string]remote.Fate)
	for _, n := range s.Nodes() {
		f := n.fate()
		if f.Condition == remote.Failed {
			f.Text += n.lastWords()
		}
		list[n.Name] = f
	}
	return list
}

// culprit names the nodes whose processes explain a failure; nil if all run.
func (s *State) culprit() error {
	var order []string
	for _, n := range s.Nodes() {
		order = append(order, n.Name)
	}
	return remote.Fates(s.fates).Culprit(order)
}

// A patience is a timeout that counts only time in which this process was running, so that a stop of this process is
// not blamed on another.
type patience struct {
	left time.Duration
	last time.Time
}

func newPatience(d time.Duration) *patience { return &patience{d, time.Now()} }

// mostAtOnce bounds the time that one check subtracts. Checks are normally far more frequent.
const mostAtOnce = 500 * time.Millisecond

// spent reports whether the time is used up. It must be called often.
func (p *patience) spent() bool {
	now := time.Now()
	p.left -= min(now.Sub(p.last), mostAtOnce)
	p.last = now
	return p.left <= 0
}
