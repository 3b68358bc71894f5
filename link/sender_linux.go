package link

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

// A Sender transmits frames on one interface, bypassing its queueing discipline. One goroutine uses it.
type Sender struct {
	name     string
	fd       int
	messages []message
	vectors  []unix.Iovec
	queued   int
	sent     uint64
}

// OpenSender opens a sender. It needs CAP_NET_RAW. The caller closes it. The socket blocks while the interface has no
// room.
func OpenSender(name string) (*Sender, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("open sender on %q: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open sender on %q: packet socket: %w%s", name, err, privilege(err))
	}
	const buffer = 4 << 20 // bytes: several batches of the largest frames
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: device.Index}),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open sender on %q: %w", name, err), unix.Close(fd))
	}
	s := &Sender{name: name, fd: fd, messages: make([]message, DefaultBatch), vectors: make([]unix.Iovec, DefaultBatch)}
	for i := range s.messages {
		s.messages[i].header.Iov = &s.vectors[i]
		s.messages[i].header.SetIovlen(1)
	}
	return s, nil
}

// Queue adds a frame to the batch and transmits the batch when it is full. The frame must not change until Flush.
func (s *Sender) Queue(frame []byte) error {
	if len(frame) == 0 {
		return fmt.Errorf("send on %q: empty frame", s.name)
	}
	s.vectors[s.queued].Base = &frame[0]
	s.vectors[s.queued].SetLen(len(frame))
	s.queued++
	if s.queued == len(s.vectors) {
		return s.Flush()
	}
	return nil
}

// Pending returns how many frames wait for Flush.
func (s *Sender) Pending() int { return s.queued }

// Flush transmits the batch. An error names the first frame that the kernel refused. With ENOBUFS only that frame is
// lost, and the interface counts it; after any other error the following ones are lost, too.
func (s *Sender) Flush() (failed error) {
	total := s.queued
	s.queued = 0
	for done := 0; done < total; {
		n, _, code := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.messages[done])),
			uintptr(total-done), 0, 0, 0)
		if code == unix.EINTR {
			continue
		}
		if code != 0 {
			if failed == nil {
				failed = fmt.Errorf("send on %q: frame %d of %d: %w", s.name, done+1, total, code)
			}
			if code != unix.ENOBUFS {
				break
			}
			done++
			continue
		}
		done += int(n)
		s.sent += uint64(n)
	}
	runtime.KeepAlive(s)
	return failed
}

// Sent returns how many frames the kernel took.
func (s *Sender) Sent() uint64 { return s.sent }

// Close frees the socket; what was not flushed is lost.
func (s *Sender) Close() error { return unix.Close(s.fd) }
