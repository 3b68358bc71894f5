package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/link/echo"
)

// maxFrame is more than any guest sends: a longer datagram is cut, and counted.
const maxFrame = 1 << 16

// round is how many frames of one port are taken before the next port is served.
const round = 32

// socketBuffer is what the sockets ask for; the kernel gives what its limits allow.
const socketBuffer = 4 << 20

// port is one port with what waits for it.
type port struct {
	Port
	socket    int // -1: none
	connected bool
	stats     PortStats
	fifo      [][]byte
	waiting   int // bytes in fifo
	echoes    echoes
}

// A Switch forwards between its ports as the pipeline says. Open, Run and Close belong to one goroutine.
type Switch struct {
	cfg      Config
	pipeline *pipeline.Pipeline
	ports    []port
	wake     int // eventfd

	origin time.Time // of the monotonic clock, with offset
	offset time.Duration

	buffer   []byte // of the frame that is being processed
	scratch  []byte // of its mirror copy and what an event made of it
	frames   *pipeline.Wire
	lastRoCE clock.Time
	delays   Delays
}

// Open binds every socket. The guests may be started before or after. The caller closes the Switch.
func Open(cfg Config) (_ *Switch, err error) {
	p, err := pipeline.New(pipeline.Config{Ports: len(cfg.Ports), Seed: cfg.Seed})
	if err != nil {
		return nil, fmt.Errorf("qemu: %w", err)
	}
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	s := &Switch{cfg: cfg, pipeline: p, wake: -1, buffer: make([]byte, maxFrame), scratch: make([]byte, 0, 2*maxFrame)}
	s.frames = pipeline.NewWire(p, outlet{s})
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("qemu: %w", err), s.Close())
		}
	}()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, err
	}
	s.origin, s.offset = time.Now(), time.Duration(now.Nano())
	if s.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, err
	}
	for i, c := range cfg.Ports {
		s.ports = append(s.ports, port{Port: c, socket: -1})
		if c.Local == "" {
			if c.Record == nil {
				return nil, fmt.Errorf("port %d has neither sockets nor a function", i)
			}
			continue
		}
		if s.ports[i].socket, err = bind(c.Local); err != nil {
			return nil, fmt.Errorf("port %d, socket %s: %w", i, c.Local, err)
		}
	}
	return s, nil
}

// bind makes a socket at path and replaces one that a dead switch left there.
func bind(path string) (int, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return -1, err
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: path}); err != nil {
		return -1, errors.Join(err, unix.Close(socket))
	}
	// A process that may write to it can send frames in a guest's name.
	if err := os.Chmod(path, 0o600); err != nil {
		return -1, errors.Join(err, unix.Close(socket))
	}
	for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
		_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, option, socketBuffer)
	}
	return socket, nil
}

// Close frees the ports. Run must have returned.
func (s *Switch) Close() error {
	var failed []error
	for i := range s.ports {
		if p := &s.ports[i]; p.socket >= 0 {
			failed = append(failed, unix.Close(p.socket))
			if err := os.Remove(p.Local); err != nil && !errors.Is(err, os.ErrNotExist) {
				failed = append(failed, err)
			}
		}
	}
	if s.wake >= 0 {
		failed = append(failed, unix.Close(s.wake))
	}
	s.ports, s.wake = nil, -1
	return errors.Join(failed...)
}

// Run forwards until ctx ends, and returns nil then. Frames are processed inside do, which takes the lock under which
// the pipeline is programmed.
func (s *Switch) Run(ctx context.Context, do func(func())) error {
	wake := s.wake // Close may follow before this has run
	stop := context.AfterFunc(ctx, func() { _, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) })
	defer stop()
	busy := false
	for ctx.Err() == nil {
		if !busy {
			if err := s.wait(); err != nil {
				return fmt.Errorf("qemu: %w", err)
			}
		}
		do(func() { busy = s.round() })
	}
	return nil
}

// wait returns when a frame has arrived, a peer has room, a held frame is due or Run must end.
func (s *Switch) wait() error {
	fds := make([]unix.PollFd, 0, len(s.ports)+1)
	fds = append(fds, unix.PollFd{Fd: int32(s.wake), Events: unix.POLLIN})
	for i := range s.ports {
		p := &s.ports[i]
		if p.socket < 0 {
			continue
		}
		events := int16(unix.POLLIN)
		if len(p.fifo) > 0 {
			events |= unix.POLLOUT
		}
		fds = append(fds, unix.PollFd{Fd: int32(p.socket), Events: events})
	}
	var timeout *unix.Timespec
	if next := min(s.frames.Next(), s.nextEcho()); next != clock.Never {
		// The instant is a picosecond before a whole nanosecond.
		t := unix.NsecToTimespec(max(0, next.Add(1).Sub(s.now()).Nanoseconds()))
		timeout = &t
	}
	if _, err := unix.Ppoll(fds, timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	return nil
}

func (s *Switch) report(err error) {
	if s.cfg.Report != nil {
		s.cfg.Report(fmt.Errorf("qemu: %w", err))
	}
}

// now is the kernel's monotonic clock, as every live datapath's.
func (s *Switch) now() clock.Time {
	return clock.Time(0).Add(clock.FromStd(s.offset + time.Since(s.origin)))
}

// Quiet returns the switch's time and when the latest RoCE packet arrived. Call it under the lock.
func (s *Switch) Quiet() (now, lastRoCE clock.Time) { return s.now(), s.lastRoCE }

// round handles frames that have arrived, a few of each port, and reports whether there may be more.
func (s *Switch) round() (more bool) {
	for i := range s.ports {
		s.drain(&s.ports[i])
	}
	s.askForEchoes()
	for i := range s.ports {
		n := 0
		for ; n < round && s.receive(i); n++ {
		}
		more = more || n == round
	}
	s.frames.Release(s.now())
	return more
}

// receive takes one frame of a port and reports whether there was one.
func (s *Switch) receive(i int) bool {
	p := &s.ports[i]
	if p.socket < 0 {
		return false
	}
	n, _, flags, _, err := unix.RecvmsgBuffers(p.socket, [][]byte{s.buffer}, nil, 0)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return false
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOTCONN):
		p.connected = false
		return false
	case err != nil:
		s.report(fmt.Errorf("port %d: %w", i, err))
		return false
	}
	p.stats.Received++
	if flags&unix.MSG_TRUNC != 0 {
		p.stats.Cut++
		return true
	}
	frame := s.buffer[:n]
	if p.Echo && echo.Is(frame) {
		if number, ok := echo.Number(frame); ok {
			p.echoes.answered(s.now(), number)
		}
		return true
	}
	s.process(uint16(i), frame)
	return true
}

// process lets the pipeline decide about one frame.
func (s *Switch) process(ingress uint16, frame []byte) {
	now := s.now()
	s.scratch = s.scratch[:0]
	roce, err := s.frames.Forward(now, ingress, frame)
	if err != nil {
		s.report(err)
	}
	if roce {
		s.lastRoCE = now
		s.trafficAt(now)
	}
	s.delays.Add(s.now().Sub(now).Std())
	s.frames.Mirror()
}

// outlet sends frames immediately, or copies them: scratch is valid until the next frame is processed.
type outlet struct{ *Switch }

// Room returns the rest of scratch after the current frame's part.
func (o outlet) Room(n int) []byte {
	if used := len(o.scratch); cap(o.scratch)-used < n {
		o.scratch = make([]byte, 0, 2*cap(o.scratch)+n) // what was kept stays in the old one
	}
	return o.scratch[len(o.scratch):len(o.scratch):cap(o.scratch)]
}

// Keep marks what was built in Room as used.
func (o outlet) Keep(frame []byte) []byte {
	if used := len(o.scratch); used+len(frame) <= cap(o.scratch) {
		o.scratch = o.scratch[:used+len(frame)]
	}
	return frame
}

// Transmit sends a frame, or queues it after those that wait for the same port.
func (o outlet) Transmit(number uint16, frame []byte) {
	s := o.Switch
	if int(number) >= len(s.ports) {
		return
	}
	p := &s.ports[number]
	if p.socket < 0 {
		p.Record(frame)
		p.stats.Sent++
		return
	}
	o.enqueue(p, frame)
}

func (o outlet) enqueue(p *port, frame []byte) {
	s := o.Switch
	if len(p.fifo) == 0 && s.send(p, frame) {
		return
	}
	if p.waiting+len(frame) > s.cfg.Queue {
		p.stats.Unsent++
		return
	}
	p.fifo = append(p.fifo, append([]byte(nil), frame...))
	p.waiting += len(frame)
	p.stats.Waited++
}

// send sends a frame and reports whether it is done: false means that the peer has no room now. A frame without a peer
// is lost and counted; a peer that replaced another one gets it.
func (s *Switch) send(p *port, frame []byte) (done bool) {
	for {
		fresh := !p.connected
		if fresh && unix.Connect(p.socket, &unix.SockaddrUnix{Name: p.Remote}) != nil {
			p.stats.Unsent++
			return true
		}
		p.connected = true
		// SendmsgN does not convert the address: the socket is connected, so that polling sees the peer's room.
		_, err := unix.SendmsgN(p.socket, frame, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch {
		case err == nil:
			p.stats.Sent++
			return true
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS):
			return false
		}
		p.connected = false
		if fresh {
			p.stats.Unsent++ // the peer is gone
			return true
		}
	}
}

// drain sends what waits for a port, as far as the peer has room.
func (s *Switch) drain(p *port) {
	n := 0
	for n < len(p.fifo) && s.send(p, p.fifo[n]) {
		p.waiting -= len(p.fifo[n])
		p.fifo[n] = nil
		n++
	}
	if n > 0 {
		p.fifo = append(p.fifo[:0], p.fifo[n:]...)
	}
}

// nextEcho returns when the next echo is due.
func (s *Switch) nextEcho() clock.Time {
	next := clock.Never
	for i := range s.ports {
		if p := &s.ports[i]; p.Echo && p.socket >= 0 {
			next = min(next, p.echoes.next(s.lastRoCE))
		}
	}
	return next
}

// askForEchoes sends the requests that are due, after frames that wait for the same port.
func (s *Switch) askForEchoes() {
	for i := range s.ports {
		p := &s.ports[i]
		if !p.Echo || p.socket < 0 {
			continue
		}
		if now := s.now(); p.echoes.next(s.lastRoCE) <= now {
			s.ask(p, p.echoes.request(now))
		}
	}
}

// ask sends a request, which counters do not count. Without room or peer it is not sent.
func (s *Switch) ask(p *port, frame []byte) {
	before := p.stats
	outlet{s}.enqueue(p, frame)
	if p.stats.Unsent > before.Unsent {
		p.echoes.unsent()
	}
	p.stats = before
}

// trafficAt notes that a RoCE packet passed: the next echo speaks for it.
func (s *Switch) trafficAt(now clock.Time) {
	for i := range s.ports {
		s.ports[i].echoes.traffic(now)
	}
}

// Stats returns what every port has done so far. Call it under the lock that Run's do takes, or after Run.
func (s *Switch) Stats() []PortStats {
	list := make([]PortStats, len(s.ports))
	for i := range s.ports {
		list[i] = s.ports[i].stats
	}
	return list
}

// Delays returns how long frames took. Call it inside the lock.
func (s *Switch) Delays() Delays { return s.delays }

// Holds returns how long the host at every port held frames. Call it under the lock.
func (s *Switch) Holds() []Holds {
	now, list := s.now(), make([]Holds, len(s.ports))
	for i := range s.ports {
		list[i] = s.ports[i].echoes.holdsAt(now)
	}
	return list
}

// Queued returns how many frames wait for ports without room. Call it under the lock.
func (s *Switch) Queued() (n int) {
	for i := range s.ports {
		n += len(s.ports[i].fifo)
	}
	return n
}
