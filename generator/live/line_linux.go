package live

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/link"
	"candela.dev/candela/link/echo"
	"candela.dev/candela/packet"
)

// A line carries frames for a station. All methods but wake are called in the station's goroutine.
type line interface {
	// next returns a received frame, which is valid until release.
	next() (frame []byte, ok bool)
	release()
	// queue adds a frame to the next flush; the frame must not change before.
	queue(frame []byte) error
	flush() error
	// wait returns when a frame has arrived, when wake was called, or after the timeout. A negative timeout never expires.
	wait(timeout time.Duration) error
	wake()
	// missed returns the number of received frames that were lost here.
	missed() (uint64, error)
	close() error
}

// interfaceWire is a network interface with its offloads disabled.
type interfaceWire struct {
	tap      *link.Tap
	sender   *link.Sender
	waiter   *link.Waiter
	offloads *link.Offloads
}

func openInterface(name string) (_ line, err error) {
	w := &interfaceWire{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.offloads, err = link.DisableOffloads(name); err != nil {
		return nil, err
	}
	if w.tap, err = link.OpenTap(link.TapConfig{Interface: name}); err != nil {
		return nil, err
	}
	if w.sender, err = link.OpenSender(name); err != nil {
		return nil, err
	}
	w.waiter, err = link.NewWaiter(w.tap)
	return w, err
}

func (w *interfaceWire) next() ([]byte, bool) {
	f, ok := w.tap.Next()
	return f.Data, ok
}

func (w *interfaceWire) release()                         { w.tap.Release() }
func (w *interfaceWire) queue(frame []byte) error         { return w.sender.Queue(frame) }
func (w *interfaceWire) wait(timeout time.Duration) error { return w.waiter.Wait(timeout) }
func (w *interfaceWire) wake()                            { w.waiter.Wake() }

func (w *interfaceWire) flush() error {
	if w.sender.Pending() == 0 {
		return nil
	}
	return w.sender.Flush()
}

func (w *interfaceWire) missed() (uint64, error) {
	stats, err := w.tap.Stats()
	return stats.Dropped, err
}

func (w *interfaceWire) close() error {
	var failed []error
	if w.waiter != nil {
		failed = append(failed, w.waiter.Close())
	}
	if w.sender != nil {
		failed = append(failed, w.sender.Close())
	}
	if w.tap != nil {
		failed = append(failed, w.tap.Close())
	}
	if w.offloads != nil {
		failed = append(failed, w.offloads.Restore())
	}
	return errors.Join(failed...)
}

// socketWire is a pair of Unix datagram sockets with one frame per datagram, as of virtual machines. It loses no frames
// while a peer is connected: if the peer is full, frames wait.
type socketWire struct {
	config Socket
	mac    packet.MAC // source of echo responses
	fd     int
	event  int
	linked bool
	fifo   [][]byte
	buffer []byte
}

// maxDatagram exceeds the length of every frame.
const maxDatagram = 1 << 16

func openSocket(c Socket, mac packet.MAC) (_ line, err error) {
	w := &socketWire{config: c, mac: mac, fd: -1, event: -1, buffer: make([]byte, maxDatagram)}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if err := os.Remove(c.Local); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	if w.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err := unix.Bind(w.fd, &unix.SockaddrUnix{Name: c.Local}); err != nil {
		return nil, fmt.Errorf("socket %s: %w", c.Local, err)
	}
	return w, nil
}

func (w *socketWire) next() ([]byte, bool) {
	for {
		n, err := unix.Read(w.fd, w.buffer)
		if err != nil || n <= 0 {
			return nil, false
		}
		frame := w.buffer[:n]
		if !echo.Is(frame) {
			return frame, true
		}
		if echo.Answer(frame, w.mac) {
			w.fifo = append(w.fifo, slices.Clone(frame))
		}
	}
}

func (w *socketWire) release() {}

func (w *socketWire) queue(frame []byte) error {
	w.fifo = append(w.fifo, frame)
	return nil
}

// flush sends frames until the peer is full. Without a peer frames are lost.
func (w *socketWire) flush() error {
	for len(w.fifo) > 0 {
		if !w.linked && unix.Connect(w.fd, &unix.SockaddrUnix{Name: w.config.Remote}) != nil {
			w.fifo = nil
			return nil
		}
		w.linked = true
		_, err := unix.Write(w.fd, w.fifo[0])
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return nil
		}
		w.linked = err == nil
		w.fifo = w.fifo[1:]
	}
	return nil
}

func (w *socketWire) wait(timeout time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(w.event), Events: unix.POLLIN}, {Fd: int32(w.fd), Events: unix.POLLIN}}
	if len(w.fifo) > 0 {
		fds[1].Events |= unix.POLLOUT
	}
	var limit *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(timeout.Nanoseconds())
		limit = &t
	}
	if _, err := unix.Ppoll(fds, limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for frames: %w", err)
	}
	if fds[0].Revents != 0 {
		var sink [8]byte
		_, _ = unix.Read(w.event, sink[:])
	}
	return w.flush()
}

func (w *socketWire) wake()                   { _, _ = unix.Write(w.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }
func (w *socketWire) missed() (uint64, error) { return 0, nil }

func (w *socketWire) close() error {
	var failed []error
	for _, fd := range []int{w.fd, w.event} {
		if fd >= 0 {
			failed = append(failed, unix.Close(fd))
		}
	}
	if err := os.Remove(w.config.Local); err != nil && !errors.Is(err, os.ErrNotExist) {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
