package afpacket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// port is one interface.
type port struct {
	tap    *link.Tap
	sender *link.Sender
	stats  PortStats
}

// A Switch forwards between its ports as the pipeline says. Open, Run and Close belong to one goroutine.
type Switch struct {
	cfg      Config
	pipeline *pipeline.Pipeline
	ports    []port
	waiter   *link.Waiter
	holder   pipeline.Holder[outgoing]

	origin time.Time // of the monotonic clock, with offset
	offset time.Duration

	arena  arena
	packet packet.Packet
	result pipeline.Result
}

// outgoing is a frame on its way to a port; it owns its bytes.
type outgoing struct {
	port  uint16
	frame []byte
}

// Open opens every port. It needs CAP_NET_RAW. The caller closes the Switch.
func Open(cfg Config) (_ *Switch, err error) {
	p, err := pipeline.New(pipeline.Config{Ports: len(cfg.Ports), Seed: cfg.Seed})
	if err != nil {
		return nil, fmt.Errorf("afpacket: %w", err)
	}
	s := &Switch{cfg: cfg, pipeline: p}
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
		if s.ports[len(s.ports)-1].sender, err = link.OpenSender(name); err != nil {
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

// Run forwards until ctx ends, and returns nil then. Frames are processed inside do, which takes the lock under which the
// pipeline is programmed.
func (s *Switch) Run(ctx context.Context, do func(func())) error {
	stop := context.AfterFunc(ctx, s.waiter.Wake)
	defer stop()
	busy := false
	for ctx.Err() == nil {
		if !busy {
			if err := s.waiter.Wait(s.patience()); err != nil {
				s.report(err)
				// A port that is down says so at once and for as long as it is: look again in a while.
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

// now is the kernel's monotonic clock: the one that the xdp datapath stamps with, too.
func (s *Switch) now() clock.Time {
	return clock.Time(0).Add(clock.FromStd(s.offset + time.Since(s.origin)))
}

// patience is how long nothing can happen but an arrival.
func (s *Switch) patience() time.Duration {
	next := s.holder.Next()
	if next == clock.Never {
		return -1
	}
	// The instant is a picosecond before a whole nanosecond.
	return max(0, next.Add(1).Sub(s.now()).Std())
}

// round takes what has arrived, a few frames of each port, and reports whether there may be more.
func (s *Switch) round() (more bool) {
	for i := range s.ports {
		n := 0
		for ; n < round; n++ {
			f, ok := s.ports[i].tap.Next()
			if !ok {
				break
			}
			frame := s.arena.copy(f.Data)
			s.ports[i].tap.Release()
			s.ports[i].stats.Received++
			if f.Length != len(f.Data) {
				s.ports[i].stats.Cut++
				continue
			}
			s.process(uint16(i), frame)
		}
		more = more || n == round
	}
	now := s.now()
	if s.holder.Next() <= now {
		for _, x := range s.holder.Due(now) {
			s.transmit(x.port, x.frame)
		}
	}
	return more
}

// process lets the pipeline decide about one frame.
func (s *Switch) process(ingress uint16, frame []byte) {
	now, p, r := s.now(), &s.packet, &s.result
	parsed := p.Parse(frame) == nil
	s.pipeline.Process(now.Nanoseconds(), ingress, p, r)
	if r.Mirror.Active {
		s.mirror(frame)
	}
	var overtaken []outgoing
	if s.holder.Len() > 0 && r.Flow != trace.NoFlow {
		overtaken = s.holder.Overtaken(r.Flow)
	}
	s.forward(now, parsed, frame)
	for _, x := range overtaken {
		s.transmit(x.port, x.frame)
	}
}

func (s *Switch) mirror(frame []byte) {
	m := &s.result.Mirror
	copied := s.arena.copy(frame)
	err := trace.EncodeMirror(copied, trace.MirrorMeta{Event: s.result.Event, Seq: m.Seq, TimeNS: m.TimeNS, UDPDstPort: m.UDPDstPort})
	if err != nil {
		s.report(fmt.Errorf("mirror a RoCE packet: %w", err)) // a RoCE packet is UDP by definition
		return
	}
	if m.Snap > 0 && int(m.Snap) < len(copied) {
		copied = copied[:m.Snap]
	}
	for _, port := range m.Ports {
		s.transmit(port, copied)
	}
}

// forward sends the frame on, edited if an event says so.
func (s *Switch) forward(now clock.Time, parsed bool, frame []byte) {
	f := &s.result.Forward
	switch {
	case f.Drop:
		return
	case f.DelayNS > 0 || f.Behind > 0:
		// The arena lives for a round only.
		s.holder.Hold(now, &s.result, outgoing{f.Port, append([]byte(nil), frame...)})
		return
	case parsed && s.result.Event != trace.EventNone:
		s.result.Apply(&s.packet)
		frame = s.arena.keep(s.packet.AppendTo(s.arena.room(len(frame))))
	}
	if f.Flood {
		for _, port := range f.Ports {
			s.transmit(port, frame)
		}
		return
	}
	for range 1 + int(f.Copies) {
		s.transmit(f.Port, frame)
	}
}

// transmit queues a frame, which must live until the next flush.
func (s *Switch) transmit(port uint16, frame []byte) {
	if int(port) >= len(s.ports) {
		return
	}
	p := &s.ports[port]
	pending := p.sender.Pending() + 1
	before := p.sender.Sent()
	if err := p.sender.Queue(frame); err != nil {
		p.stats.Unsent += uint64(pending) - (p.sender.Sent() - before)
		s.report(err)
	}
}

// flush sends what the round queued, and frees the arena.
func (s *Switch) flush() error {
	for i := range s.ports {
		p := &s.ports[i]
		pending, before := p.sender.Pending(), p.sender.Sent()
		if pending == 0 {
			continue
		}
		if err := p.sender.Flush(); err != nil {
			p.stats.Unsent += uint64(pending) - (p.sender.Sent() - before)
			s.report(err)
		}
	}
	s.arena.reset()
	return nil
}

// Stats returns what every port has lost so far. Call it inside the lock that Run's do takes, or after Run.
func (s *Switch) Stats() ([]PortStats, error) {
	var list []PortStats
	var failed []error
	for i := range s.ports {
		p := &s.ports[i]
		kernel, err := p.tap.Stats()
		failed = append(failed, err)
		p.stats.Missed, p.stats.Sent = kernel.Dropped, p.sender.Sent()
		list = append(list, p.stats)
	}
	return list, errors.Join(failed...)
}
