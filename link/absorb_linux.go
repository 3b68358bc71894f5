package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Absorb lets an interface's frames that no protocol wants, such as LLDP or a switch's own, count as received: the
// kernel counts them as dropped, like frames that it had no room for. It ends with Close. It needs CAP_NET_RAW.
func Absorb(name string) (_ io.Closer, err error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %q: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket on %q: %w%s", name, err, privilege(err))
	}
	// A filter that keeps nothing: frames are delivered and never copied.
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(nothing)), Filter: &nothing[0]})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap16(unix.ETH_P_ALL), Ifindex: device.Index})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("packet socket on %q: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "absorb "+name), nil
}
