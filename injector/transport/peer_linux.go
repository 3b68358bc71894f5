package transport

import (
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOf asks the kernel who connected a socket, or listens at its other end, at that time.
func peerOf(conn *net.UnixConn) (p process, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	failed := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		p.uid, p.pid = cred.Uid, cred.Pid
		if p.groups, err = peerGroups(fd); err == nil && !slices.Contains(p.groups, cred.Gid) {
			p.groups = append(p.groups, cred.Gid)
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return process{}, fmt.Errorf("credentials of the other process: %w", err)
	}
	return p, nil
}

// maxGroups is the most supplementary groups that Linux gives a process (NGROUPS_MAX).
const maxGroups = 65536

// peerGroups returns the supplementary groups of the process at the other end.
func peerGroups(fd uintptr) ([]uint32, error) {
	for list := make([]uint32, 64); ; list = make([]uint32, maxGroups) {
		const size = unsafe.Sizeof(uint32(0))
		length := uint32(uintptr(len(list)) * size)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(&length)), 0)
		switch {
		case errno == unix.ERANGE && len(list) < maxGroups:
		case errno != 0:
			return nil, errno
		default:
			return list[:uintptr(length)/size], nil
		}
	}
}
