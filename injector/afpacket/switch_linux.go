package afpacket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/delay"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/link"
)

// port is one interface.
type port struct {
	tap    *link.Tap
	sender sender
	handed uint64 // frames to the sender
	stats  PortStats
}

// count counts what was not sent when it should have been. A frame that is sent later, when a port returns, remains
// counted: the trace has it at its place, but the host got it at another time.
func (p *port) count() {
	p.stats.Sent = p.sender.Sent()
	p.stats.Unsent = max(p.stats.Unsent, p.handed-p.stats.Sent-uint64(p.sender.Pending()))
}

// sender transmits frames, which must stay as they are until Flush.
type sender interface {
	Queue(frame []byte) error
	Flush() error
	Pending() int
	Sent() uint64
	Close() error
}

// openSender opens an XDP socket if possible, which costs the kernel less than a packet socket.
func openSender(name string, packetSockets bool) (sender, error) {
	if !packetSockets {
		if s, err := link.OpenXDPSender(name); err == nil {
			return s, nil
		}
	}
	s, err := link.OpenSender(name)
	if err != nil {
		return nil, err // not a sender that is nil within
	}
	return s, nil
}

// A Switch forwards between its ports as the pipeline says. Open, Run and Close belong to one goroutine.
type Switch struct {
	cfg      Config
	pipeline *pipeline.Pipeline
	ports    []port
	waiter   *link.Waiter

	origin time.Time // of the monotonic clock, with offset
	offset time.Duration

	arena  arena
	frames *pipeline.Wire
	waits  delay.Counts // of frames in the rings
	began  time.Time    // of the round
}

// Open opens every port. It needs CAP_NET_RAW. The caller closes the Switch.
func Open(cfg Config) (_ *Switch, err error) {
	p, err := pipeline.New(pipeline.Config{Ports: len(cfg.Ports), Seed: cfg.Seed})
	if err != nil {
		return nil, fmt.Errorf("afpacket: %w", err)
	}
	s := &Switch{cfg: cfg, pipeline: p}
	s.frames = pipeline.NewWire(p, outlet{s})
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("afpacket: %w", err), s.Close())
		}
	}()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, err
	}
	s.origin, s.offset = time.Now(), time.Duration(now.Nano())
	var taps []*link.Tap
	for _, name := range cfg.Ports {
		tap, err := link.OpenTap(link.TapConfig{Interface: name})
		if err != nil {
			return nil, err
		}
		s.ports = append(s.ports, port{tap: tap, stats: PortStats{Name: name}})
		taps = append(taps, tap)
		if s.ports[len(s.ports)-1].sender, err = openSender(name, cfg.PacketSockets); err != nil {
			return nil, err
		}
	}
	s.waiter, err = link.NewWaiter(taps...)
	return s, err
}

// Close frees the ports. Run must have returned.
func (s *Switch) Close() error {
	var failed []error
	for _, p := range s.ports {
		failed = append(failed, p.tap.Close())
		if p.sender != nil {
			failed = append(failed, p.sender.Close())
		}
	}
	if s.waiter != nil {
		failed = append(failed, s.waiter.Close())
	}
	s.ports, s.waiter = nil, nil
	return errors.Join(failed...)
}

// Run forwards until ctx ends, and returns nil then. Frames are processed inside do, which takes the lock under which
// the pipeline is programmed.
func (s *Switch) Run(ctx context.Context, do func(func())) error {
	stop := context.AfterFunc(ctx, s.waiter.Wake)
	defer stop()
	busy := false
	for ctx.Err() == nil {
		if !busy {
			if err := s.waiter.Wait(s.patience()); err != nil {
				s.report(err)
				// A port that is down reports it immediately and repeatedly: wait a little.
				pause(ctx, 10*time.Millisecond)
			}
		}
		var err error
		do(func() {
			busy = s.round()
			err = s.flush()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (s *Switch) report(err error) {
	if s.cfg.Report != nil {
		s.cfg.Report(fmt.Errorf("afpacket: %w", err))
	}
}

// now is the kernel's monotonic clock, which the xdp datapath uses, too.
func (s *Switch) now() clock.Time {
	return clock.Time(0).Add(clock.FromStd(s.offset + time.Since(s.origin)))
}

// patience is how long nothing can happen but an arrival.
func (s *Switch) patience() time.Duration {
	next := s.frames.Next()
	if next == clock.Never {
		return -1
	}
	// The instant is a picosecond before a whole nanosecond.
	return max(0, next.Add(1).Sub(s.now()).Std())
}

// round handles frames that have arrived, a few of each port, and reports whether there may be more.
func (s *Switch) round() (more bool) {
	s.began = time.Now()
	arrived := s.began.UnixNano()
	for i := range s.ports {
		n := 0
		for ; n < round; n++ {
			f, ok := s.ports[i].tap.Next()
			if !ok {
				break
			}
			s.ports[i].tap.Keep() // until it is sent
			s.ports[i].stats.Received++
			s.waits.Add(time.Duration(arrived - f.Time)) // a round is short compared with a wait that matters
			if f.Length != len(f.Data) {
				s.ports[i].stats.Cut++
				continue
			}
			if _, err := s.frames.Forward(s.now(), uint16(i), f.Data); err != nil {
				s.report(err)
			}
			s.frames.Mirror()
		}
		more = more || n == round
	}
	s.frames.Release(s.now())
	return more
}

// outlet queues frames, which live in the ring or in the arena until the next flush.
type outlet struct{ *Switch }

// Room is the arena's.
func (o outlet) Room(n int) []byte { return o.arena.room(n) }

// Keep is the arena's.
func (o outlet) Keep(frame []byte) []byte { return o.arena.keep(frame) }

// Transmit queues a frame for the next flush.
func (o outlet) Transmit(port uint16, frame []byte) {
	s := o.Switch
	if int(port) >= len(s.ports) {
		return
	}
	p := &s.ports[port]
	p.handed++
	if err := p.sender.Queue(frame); err != nil {
		p.count()
		s.report(err)
	}
}

// longRound is what a round takes if its thread was preempted: its frames waited between ring and sender.
const longRound = time.Millisecond

// flush sends what the round queued, and frees the frames that it came from.
func (s *Switch) flush() error {
	for i := range s.ports {
		p := &s.ports[i]
		if p.sender.Pending() == 0 {
			continue
		}
		if err := p.sender.Flush(); err != nil {
			p.count()
			s.report(err)
		}
	}
	for i := range s.ports {
		s.ports[i].tap.ReleaseKept()
	}
	s.arena.reset()
	if took := time.Since(s.began); took > longRound {
		s.waits.Add(took) // of its last frame
	}
	return nil
}

// Waits returns how long frames waited in the rings. Call it inside the lock.
func (s *Switch) Waits() delay.Counts { return s.waits }

// Stats returns what every port has lost so far. Call it under the lock that Run's do takes, or after Run.
func (s *Switch) Stats() ([]PortStats, error) {
	var list []PortStats
	var failed []error
	for i := range s.ports {
		p := &s.ports[i]
		kernel, err := p.tap.Stats()
		failed = append(failed, err)
		p.stats.Missed = kernel.Dropped
		p.count()
		list = append(list, p.stats)
	}
	return list, errors.Join(failed...)
}
