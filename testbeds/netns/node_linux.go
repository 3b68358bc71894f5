package netns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// File descriptors that a node inherits: it writes to readyFD when its namespace is ready, and reads from goFD when it
// may continue.
const (
	readyFD = 3
	goFD    = 4
)

// leash is set in the environment of a node that must end with its parent.
const leash = "CANDELA_NODE_LEASH"

// Become is the start of a node in its own namespaces: it prepares them, waits for the links, and executes candela with
// args. It returns only errors.
func Become(args []string) error {
	if err := furnish(); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	// The signal is set per thread, and the thread that calls exec becomes the process, so both calls must be on this
	// thread.
	runtime.LockOSThread()
	if os.Getenv(leash) != "" {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("die with who started this node: %w", err)
		}
	}
	ready, proceed := os.NewFile(readyFD, "ready"), os.NewFile(goFD, "go")
	if ready == nil || proceed == nil {
		return errors.New("this command is for `candela testbed up` to start")
	}
	if _, err := ready.Write([]byte{1}); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if _, err := io.ReadFull(proceed, make([]byte, 1)); err != nil {
		return errors.New("who started this node is gone")
	}
	if err := errors.Join(urgent(0), urgentSession()); err != nil {
		return err
	}
	unix.CloseOnExec(readyFD)
	unix.CloseOnExec(goFD)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(self, append([]string{self}, args...), os.Environ())
}

// furnish remounts /sys, because it shows the interfaces of the namespace in which it was mounted, and keeps the
// kernel's own IPv6 traffic off the links.
func furnish() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("candela", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount /sys: %w", err)
	}
	for _, which := range []string{"all", "default"} {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("no IPv6 of the kernel's: %w", err)
		}
	}
	return nil
}

// starting is a node being started.
type starting struct {
	node    *Node
	command *exec.Cmd
	ready   *os.File // the node writes here
	proceed *os.File // the node reads here
	exited  chan struct{}
	status  error // exit status, valid once exited is closed
}

// launcher starts nodes from one permanent thread, because the kernel kills them when that thread ends.
type launcher struct {
	requests chan func()
	ended    chan struct{}
}

func newLauncher() *launcher {
	l := &launcher{requests: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range l.requests {
			f()
		}
	}()
	return l
}

func (l *launcher) do(f func()) {
	done := make(chan struct{})
	l.requests <- func() { f(); close(done) }
	<-done
}

func (l *launcher) stop() {
	close(l.requests)
	<-l.ended
}

func (l *launcher) launch(cfg *Config, dir string, node *Node, args []string) (_ *starting, err error) {
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	goR, goW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, readyR.Close(), readyW.Close())
	}
	node.Log = filepath.Join(dir, node.Name+".log")
	log, err := os.OpenFile(node.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	s := &starting{node: node, ready: readyR, proceed: goW, exited: make(chan struct{})}
	s.command = exec.Command(cfg.Executable, append([]string{"testbed", "node", "--"}, args...)...)
	s.command.Stdout, s.command.Stderr, s.command.ExtraFiles = log, log, []*os.File{readyW, goR}
	s.command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Setsid: true}
	if !cfg.Detach {
		s.command.SysProcAttr.Pdeathsig = unix.SIGKILL
		s.command.Env = append(os.Environ(), leash+"=1")
	}
	l.do(func() { err = s.command.Start() })
	err = errors.Join(err, readyW.Close(), goR.Close(), log.Close())
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", node.Name, err)
	}
	node.child = s
	go func() {
		s.status = s.command.Wait()
		close(s.exited)
	}()
	if node.Process, err = identify(s.command.Process.Pid); err != nil {
		_ = s.command.Process.Kill() // it has most likely ended already
		<-s.exited
		return nil, errors.Join(fmt.Errorf("%s doesn't start: it ended at once%s", node.Name, node.lastWords()),
			readyR.Close(), goW.Close())
	}
	return s, nil
}

func (s *starting) await(ctx context.Context) error {
	for patience := newPatience(startTime); ; {
		if err := s.ready.SetReadDeadline(time.Now().Add(lookEvery)); err != nil {
			return err
		}
		_, err := io.ReadFull(s.ready, make([]byte, 1))
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("%s doesn't start: %w%s", s.node.Name, err, s.node.lastWords())
		case patience.spent():
			return fmt.Errorf("%s doesn't start: its namespace is not ready after %v%s", s.node.Name, startTime,
				s.node.lastWords())
		}
	}
}

// lookEvery is the interval for checking a starting node.
const lookEvery = 50 * time.Millisecond

// release lets the node execute its program.
func (s *starting) release() error {
	_, err := s.proceed.Write([]byte{1})
	return errors.Join(err, s.proceed.Close(), s.ready.Close())
}

// lastWords returns the end of the node's log, on a new line.
func (n *Node) lastWords() string {
	text, err := os.ReadFile(n.Log)
	if err != nil || len(text) == 0 {
		return ""
	}
	const most = 1000
	return "\n" + string(text[max(0, len(text)-most):])
}
