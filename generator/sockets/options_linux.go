package sockets

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func (t *Transfer) options(fd int) error {
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, t.Congestion); err != nil {
		return fmt.Errorf("congestion control %q: %w", t.Congestion, err)
	}
	if t.To.Is6() {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(t.DSCP)<<2)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, int(t.DSCP)<<2)
}
