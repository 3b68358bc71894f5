package lldp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The most neighbours that one Listen reports, and the longest frame that it parses.
const (
	maxNeighbours = 64
	maxFrame      = 1518
)

// Listen receives LLDP on an interface until ctx is done, which is not an error. It calls found once for each
// neighbour, and again when that changes; an error of found ends it. Unreadable frames are skipped. It needs
// CAP_NET_RAW.
func Listen(ctx context.Context, name string, found func(Neighbour) error) error {
	file, err := open(name)
	if err != nil {
		return fmt.Errorf("LLDP on %s: %w", name, err)
	}
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("LLDP on %s: %w", name, err)
	}
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })()
	known := make(map[Neighbour]bool)
	buffer := make([]byte, maxFrame)
	for {
		n, err := receive(raw, buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("LLDP on %s: %w", name, err)
		}
		neighbour, err := Parse(buffer[:n])
		if err != nil || neighbour.TTL == 0 || known[neighbour] || len(known) == maxNeighbours {
			continue
		}
		known[neighbour] = true
		if err := found(neighbour); err != nil {
			return err
		}
	}
}

type reader interface {
	Read(func(fd uintptr) bool) error
}

// receive waits for a frame that came in.
func receive(raw reader, buffer []byte) (n int, err error) {
	waited := raw.Read(func(fd uintptr) bool {
		var from unix.Sockaddr
		n, from, err = unix.Recvfrom(int(fd), buffer, 0)
		if at, ok := from.(*unix.SockaddrLinklayer); ok && at.Pkttype == unix.PACKET_OUTGOING {
			n = 0 // our own
		}
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	return n, errors.Join(err, waited)
}

// open returns a packet socket that gets the LLDP frames of an interface.
func open(name string) (_ *os.File, err error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	membership := &unix.PacketMreq{Ifindex: int32(device.Index), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(group))}
	copy(membership.Address[:], group[:])
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, membership); err != nil {
		return nil, fmt.Errorf("join the group: %w", err)
	}
	const swapped = EtherType>>8 | EtherType&0xff<<8 // in the order of the wire
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swapped, Ifindex: device.Index}); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "lldp"), nil
}
