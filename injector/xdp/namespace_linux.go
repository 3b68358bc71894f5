package xdp

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const currentNamespace = "/proc/thread-self/ns/net"

// namespace is a network namespace. The kernel looks interface numbers up in the namespace of the thread that writes a
// device map, and any thread may serve a P4Runtime request.
type namespace struct {
	file  *os.File
	inode uint32
}

// here returns the calling thread's namespace.
func here() (*namespace, error) {
	file, err := os.Open(currentNamespace)
	if err != nil {
		return nil, fmt.Errorf("which network namespace this is: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, errors.Join(fmt.Errorf("which network namespace this is: %w", err), file.Close())
	}
	return &namespace{file, uint32(stat.Ino)}, nil
}

// do runs f in n, on whatever thread it is called.
func (n *namespace) do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now, err := here()
	if err != nil {
		return err
	}
	defer now.file.Close()
	if now.inode == n.inode {
		return f()
	}
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the ports' network namespace: %w", err)
	}
	err = f()
	if back := unix.Setns(int(now.file.Fd()), unix.CLONE_NEWNET); back != nil {
		// This thread must never run anything else: it is not unlocked, so the runtime ends it with its goroutine.
		runtime.LockOSThread()
		err = errors.Join(err, fmt.Errorf("leave the ports' network namespace: %w", back))
	}
	return err
}

func (n *namespace) close() error { return n.file.Close() }
