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

// A core is a protocol without I/O that a station drives. Its methods run in the station's goroutine.
type core interface {
	// take takes a frame that arrived and reports whether it belongs to the protocol. The frame is valid only during the
	// call.
	take(now clock.Time, frame []byte) (ours bool, err error)
	// serve does what is due.
	serve(now clock.Time) error
	// next returns the next frame to send, or nil. The core does not modify the frame afterwards.
	next(now clock.Time) []byte
	// timers returns the time of the next call of serve, and the latest time to ask for a frame to send.
	timers() (serve, send clock.Time)
}

// A station is an interface with a core: sockets, clock, neighbour, and the single goroutine that owns them.
type station struct {
	name      string
	socket    *Socket       // nil: the interface with that name
	rate      clock.BitRate // of the port
	core      core
	neighbour Neighbour

	wire   line
	origin time.Time
	free   clock.Time   // end of the current transmission
	quiet  atomic.Int64 // clock.Time of the latest frame of the protocol

	sentLog, receivedLog *framelog.Log // of the protocol's frames; nil: no log
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

// batch is the maximum number of frames received in a row, or sent in a row.
const batch = link.DefaultBatch

// release frees what Open took.
func (s *station) release() error {
	if s.wire == nil {
		return nil
	}
	return s.wire.close()
}

// Close ends the endpoint and restores the interface. It may be called more than once.
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

// do runs f in the station's goroutine.
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
			// the wake-up came before the loop waited
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

// gone returns the reason why the loop ended.
func (s *station) gone() error {
	if s.failure != nil {
		return s.failure
	}
	return ErrClosed
}

// Quiet returns the time since the latest frame of the protocol.
func (s *station) Quiet() time.Duration { return s.now().Sub(clock.Time(s.quiet.Load())).Std() }

// Missed returns the number of frames lost to a full ring. If it is not 0, the host's log is incomplete.
func (s *station) Missed() (missed uint64, err error) {
	err = s.do(func() error {
		missed, err = s.wire.missed()
		return err
	})
	return missed, err
}

func (s *station) now() clock.Time { return clock.Time(0).Add(clock.FromStd(time.Since(s.origin))) }

// loop is the station's goroutine.
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
				// A port that flaps comes back; frames sent meanwhile are lost as on any link.
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

// patience returns the time until the next timer or transmission, -1 if there is none.
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

// step receives, serves timers and sends, each at most a batch, and reports whether a batch was full.
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

// receive passes a batch of frames to the core.
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

// concerns reports whether a frame is addressed to this host, by Ethernet or by IP. A switch also floods frames to
// unknown addresses.
func (s *station) concerns(frame []byte) bool {
	if len(frame) >= packet.EthernetLen && packet.MAC(frame) == s.neighbour.MAC {
		return true
	}
	to, ok := framelog.Destination(frame)
	return ok && slices.Contains(s.neighbour.IPs, to)
}

// send transmits the core's frames, no faster than the port rate.
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

// wireOverhead is the length of FCS, preamble with delimiter, and inter-packet gap.
const wireOverhead = 4 + 8 + 12

// queue adds a frame to the batch; the frame must not change afterwards.
func (s *station) queue(frame []byte) error { return s.sent(s.wire.queue(frame)) }

// sent ignores kernel errors that amount to a packet loss, which the transport repairs.
func (s *station) sent(err error) error {
	if errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}
