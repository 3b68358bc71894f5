//go:build darwin || freebsd

package transport

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Where FreeBSD and macOS keep the credentials of the other end (unix(4)).
const (
	solLocal      = 0
	localPeerCred = 1
)

// peerOf asks the kernel who connected a socket, or listens at its other end, at that time.
func peerOf(conn *net.UnixConn) (p process, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	var cred *unix.Xucred
	failed := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptXucred(int(fd), solLocal, localPeerCred) })
	if failed != nil {
		err = failed
	}
	if err != nil {
		return p, fmt.Errorf("credentials of the other process: %w", err)
	}
	p.uid = cred.Uid
	for _, g := range cred.Groups[:min(max(0, int(cred.Ngroups)), len(cred.Groups))] {
		p.groups = append(p.groups, uint32(g))
	}
	return p, nil
}
