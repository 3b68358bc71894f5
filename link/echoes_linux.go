package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"candela.dev/candela/link/echo"
	"candela.dev/candela/packet"
)

// echoes answers a switch's echoes on an interface. It is an ordinary process: its answers are delayed by earlier
// packets and by the scheduler.
type echoes struct {
	socket *os.File
	ended  chan struct{}
}

// AnswerEchoes answers the echoes of a software switch on an interface until Close, so that the switch knows how long
// this machine holds frames. It needs CAP_NET_RAW.
func AnswerEchoes(name string) (io.Closer, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("echoes: %w", err)
	}
	const network = echo.EtherType>>8 | echo.EtherType&0xff<<8 // in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, network)
	if err != nil {
		return nil, fmt.Errorf("echoes: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network, Ifindex: device.Index}); err != nil {
		return nil, errors.Join(fmt.Errorf("echoes on %s: %w", name, err), unix.Close(fd))
	}
	r := &echoes{socket: os.NewFile(uintptr(fd), "echoes"), ended: make(chan struct{})}
	go r.serve(packet.MAC(device.HardwareAddr))
	return r, nil
}

// serve answers echoes until the socket is closed.
func (r *echoes) serve(own packet.MAC) {
	defer close(r.ended)
	buffer := make([]byte, 256)
	for {
		n, err := r.socket.Read(buffer)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		// Other errors mean that the interface is down. The switch counts the missing answers.
		if err == nil && echo.Answer(buffer[:n], own) {
			_, _ = r.socket.Write(buffer[:n])
		}
	}
}

// Close ends the answers.
func (r *echoes) Close() error {
	err := r.socket.Close()
	<-r.ended
	return err
}
