package sockets

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// mostUnsent is how many bytes a transfer that leaves has at its kernel beyond those in flight.
const mostUnsent = 1 << 14

// leastTrip returns the least RTT that the kernel measured for a connection; 0: none.
func leastTrip(conn net.Conn) (trip time.Duration) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // it fails if the connection is closed
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Min_rtt < 1<<31 { // else: none was measured
			trip = time.Duration(info.Min_rtt) * time.Microsecond
		}
	})
	return trip
}

func (t *Transfer) options(fd int) error {
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, t.Congestion); err != nil {
		return fmt.Errorf("congestion control %q: %w", t.Congestion, err)
	}
	if t.Leaves {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent); err != nil {
			return fmt.Errorf("TCP_NOTSENT_LOWAT: %w", err)
		}
	}
	if t.To.Is6() {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(t.DSCP)<<2)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, int(t.DSCP)<<2)
}
