package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/clock"
	"candela.dev/candela/framelog"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
)

// A core is a protocol without I/O that a station drives, with what belongs to it. Its methods run in the station's
// goroutine.
type core interface {
	// take hands over a frame that arrived and reports whether it was the protocol's. The frame is valid during the call.
	take(now clock.Time, frame []byte) (ours bool, err error)
	// serve does what is due.
	serve(now clock.Time) error
	// next returns the next frame to send, or nil. The frame stays as it is.
	next(now clock.Time) []byte
	// timers returns when serve wants to be called, and when there may be a frame to send, at the latest.
	timers() (serve, send clock.Time)
}

// A station is an interface with a core on it: sockets, clock, neighbour, and the one goroutine that owns them all.
type station struct {
	name      string
	socket    *Socket       // nil: the interface with that name
	rate      clock.BitRate // of the port
	core      core
	neighbour Neighbour

	wire   line
	origin time.Time
	free   clock.Time   // when the port is free again
	quiet  atomic.Int64 // clock.Time of the latest frame of the protocol

	sentLog, receivedLog *framelog.Log // of the protocol's frames; nil: nobody wants to know
	probes               uint64        // probe frames that have arrived

	requests chan func()
	stop     context.CancelFunc
	ended    chan struct{} // closed when the loop has returned
	failure  error         // valid once ended is closed

	lock   sync.Mutex // guards closing
	closed bool
}

// hardwareAddress returns mac, or that of the interface if it is zero.
func hardwareAddress(name string, mac packet.MAC) (packet.MAC, error) {
	device, err := net.InterfaceByName(name)
	if err != nil || mac != (packet.MAC{}) {
		return mac, err
	}
	if len(device.HardwareAddr) != len(mac) {
		return mac, fmt.Errorf("the interface has no Ethernet address: %v", device.HardwareAddr)
	}
	return packet.MAC(device.HardwareAddr), nil
}

// open takes the interface and starts the goroutine. After an error the caller calls release.
func (s *station) open(mac packet.MAC, ips []netip.Addr) (err error) {
	s.requests, s.ended = make(chan func()), make(chan struct{})
	s.neighbour = Neighbour{MAC: mac, IPs: ips}
	if s.socket != nil {
		s.wire, err = openSocket(*s.socket, mac)
	} else {
		s.wire, err = openInterface(s.name)
	}
	if err != nil {
		return err
	}
	s.origin = time.Now()
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.loop(ctx)
	return nil
}

// batch is how many frames are received or sent before the other gets its turn.
const batch = link.DefaultBatch

// release frees what Open took.
func (s *station) release() error {
	if s.wire == nil {
		return nil
	}
	return s.wire.close()
}

// Close ends the endpoint and leaves the interface as it was. It may be called more than once.
func (s *station) Close() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.stop()
	s.wire.wake()
	<-s.ended
	return s.release()
}

// do runs f in the host's goroutine.
func (s *station) do(f func() error) error {
	result := make(chan error, 1)
	request := func() { result <- f() }
	s.wake()
	for {
		select {
		case s.requests <- request:
			return <-result
		case <-s.ended:
			return s.gone()
		case <-time.After(10 * time.Millisecond):
			// The loop was about to wait when it was woken.
			s.wake()
		}
	}
}

func (s *station) wake() {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.closed {
		s.wire.wake()
	}
}

// gone says why the loop has ended.
func (s *station) gone() error {
	if s.failure != nil {
		return s.failure
	}
	return ErrClosed
}

// Quiet returns for how long no RoCE frame came or went.
func (s *station) Quiet() time.Duration { return s.now().Sub(clock.Time(s.quiet.Load())).Std() }

// Missed returns how many frames came while the ring was full: with any, the host is no witness.
func (s *station) Missed() (missed uint64, err error) {
	err = s.do(func() error {
		missed, err = s.wire.missed()
		return err
	})
	return missed, err
}

func (s *station) now() clock.Time { return clock.Time(0).Add(clock.FromStd(time.Since(s.origin))) }

// loop is the host's goroutine.
func (s *station) loop(ctx context.Context) {
	defer close(s.ended)
	for ctx.Err() == nil {
		select {
		case request := <-s.requests:
			request()
		default:
		}
		more, err := s.step()
		if err == nil && !more {
			err = s.wire.wait(s.patience())
			if errors.Is(err, unix.ENETDOWN) {
				// A port that flaps comes back; what was lost meanwhile is lost as on any wire.
				err = nil
				pause(ctx, 10*time.Millisecond)
			}
		}
		if err != nil {
			s.failure = fmt.Errorf("live endpoint on %q: %w", s.name, err)
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// patience is how long nothing can happen but an arrival.
func (s *station) patience() time.Duration {
	serve, send := s.core.timers()
	if send != clock.Never {
		serve = min(serve, max(send, s.free))
	}
	if serve == clock.Never {
		return -1
	}
	return max(0, serve.Sub(s.now()).Std())
}

// step receives, serves timers and sends, a batch of each at most, and reports whether there may be more to do at once.
func (s *station) step() (more bool, err error) {
	received, err := s.receive()
	if err != nil {
		return false, err
	}
	if err := s.core.serve(s.now()); err != nil {
		return false, err
	}
	sent, err := s.send()
	return received == batch || sent == batch, err
}

// receive hands a batch of frames to the core.
func (s *station) receive() (n int, err error) {
	for ; n < batch; n++ {
		frame, ok := s.wire.next()
		if !ok {
			return n, nil
		}
		err := s.take(frame)
		s.wire.release()
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (s *station) take(frame []byte) error {
	if answer := s.neighbour.Answer(nil, frame); answer != nil {
		return s.queue(answer)
	}
	if framelog.IsProbe(frame) {
		s.probes++
		return nil
	}
	if s.receivedLog != nil && s.concerns(frame) {
		s.receivedLog.Add(frame)
	}
	now := s.now()
	ours, err := s.core.take(now, frame)
	if ours {
		s.quiet.Store(int64(now))
	}
	return err
}

// concerns reports whether a frame is addressed to this host, by Ethernet or by IP: a switch also delivers what it has
// no port for.
func (s *station) concerns(frame []byte) bool {
	if len(frame) >= packet.EthernetLen && packet.MAC(frame) == s.neighbour.MAC {
		return true
	}
	to, ok := framelog.Destination(frame)
	return ok && slices.Contains(s.neighbour.IPs, to)
}

// send transmits what the core has ready, no faster than the port.
func (s *station) send() (n int, err error) {
	for ; n < batch; n++ {
		now := s.now()
		if s.free > now {
			break
		}
		frame := s.core.next(now)
		if frame == nil {
			break
		}
		s.free = max(s.free, now).Add(s.rate.Serialise(len(frame) + wireOverhead))
		s.quiet.Store(int64(now))
		if s.sentLog != nil {
			s.sentLog.Add(frame)
		}
		if err := s.queue(frame); err != nil {
			return n, err
		}
	}
	return n, s.sent(s.wire.flush())
}

// wireOverhead is what a frame occupies beyond its bytes: FCS, preamble with delimiter, inter-packet gap.
const wireOverhead = 4 + 8 + 12

// queue adds a frame to the batch; it must stay as it is.
func (s *station) queue(frame []byte) error { return s.sent(s.wire.queue(frame)) }

// sent judges an error of the kernel: one that a wire could have, too, is a loss, which the transport repairs.
func (s *station) sent(err error) error {
	if errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}
