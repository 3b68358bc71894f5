package virtual

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
)

// A capturer takes the mirror copies that arrive at one port's dumper. The frame is valid only during the call. An
// error means that the disk failed and copies are lost.
type capturer interface {
	Capture(at clock.Time, frame []byte) error
}

// injectorSwitch is the programmable switch between the hosts: the injector pipeline with ports, a latency and output
// queues.
type injectorSwitch struct {
	frames  pipeline.Frames[*packet.Packet]
	engine  *engine
	timer   task // of the packets delayed by events
	pool    *pool
	latency clock.Duration // from the last bit in to the first bit out of an idle port
	out     []*link        // by port; nil for dumpers
	mirrors []*mirrorPort  // by port; nil for hosts

	copied   []byte
	lastRoCE clock.Time // arrival of the latest RoCE packet: quiescence counts from it
	fault    error
	watch    Watcher // nil: not watched
}

func newInjectorSwitch(p *pipeline.Pipeline, e *engine, packets *pool, latency clock.Duration) *injectorSwitch {
	s := &injectorSwitch{engine: e, pool: packets, latency: latency}
	s.timer.actor = s
	s.frames = pipeline.Frames[*packet.Packet]{Pipeline: p, Out: switchOutlet{s}}
	return s
}

// receive implements receiver: port has received the whole frame.
func (s *injectorSwitch) receive(now clock.Time, port uint16, p *packet.Packet) {
	if s.watch != nil {
		s.watch(now, SwitchIngress, p)
	}
	if p.IsRoCE() {
		s.lastRoCE = now
	}
	if _, err := s.frames.Forward(now, port, p, p); err != nil && s.fault == nil {
		s.fault = err
	}
}

func (s *injectorSwitch) act(now clock.Time) {
	s.frames.Release(now)
	if next := s.frames.Next(); next != clock.Never {
		s.engine.schedule(&s.timer, next)
	}
}

// switchOutlet implements the callbacks of the switch's forwarder.
type switchOutlet struct{ *injectorSwitch }

// Edit applies the packet's event to it.
func (switchOutlet) Edit(p *packet.Packet, r *pipeline.Result) *packet.Packet {
	r.Apply(p)
	return p
}

// Keep schedules the release of a packet that is held until due.
func (s switchOutlet) Keep(p *packet.Packet, due clock.Time) *packet.Packet {
	s.lastRoCE = max(s.lastRoCE, due)
	s.engine.schedule(&s.timer, min(due, s.frames.Next()))
	return p
}

// Copy takes a packet from the pool.
func (s switchOutlet) Copy(p *packet.Packet) *packet.Packet {
	c := s.pool.get()
	*c = *p
	return c
}

// Drop returns a packet to the pool.
func (s switchOutlet) Drop(p *packet.Packet) { s.pool.put(p) }

// Transmit sends a packet on the link of a port, if there is one with room.
func (s switchOutlet) Transmit(now clock.Time, port uint16, p *packet.Packet) {
	if int(port) < len(s.out) && s.out[port] != nil {
		if left, ok := s.out[port].send(now.Add(s.latency), p); ok {
			if s.watch != nil {
				s.watch(left, SwitchEgress, p)
			}
			return
		}
	}
	s.pool.put(p)
}

// Mirror copies p, as it arrived, to the ports of the clone session.
func (s switchOutlet) Mirror(now clock.Time, p *packet.Packet, r *pipeline.Result) error {
	s.copied = p.AppendTo(s.copied[:0])
	frame, err := r.EncodeMirror(s.copied)
	if err != nil {
		return err
	}
	for _, port := range r.Mirror.Ports {
		if int(port) < len(s.mirrors) && s.mirrors[port] != nil {
			if err := s.mirrors[port].send(now.Add(s.latency), frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// mirrorPort is a switch port with a dumper: an output queue of finite depth at the dumper's link rate. Copies arrive
// in order, so they need no events.
type mirrorPort struct {
	rate      clock.BitRate
	limit     int      // wire bytes that may wait; more are dropped
	dumper    capturer // nil while no dumper runs: copies are lost
	busyUntil clock.Time
	dropped   uint64
}

func (m *mirrorPort) send(ready clock.Time, frame []byte) error {
	size := len(frame) + wireOverhead
	if m.dumper == nil || m.busyUntil > ready && backlog(m.busyUntil.Sub(ready), m.rate)+size > m.limit {
		m.dropped++
		return nil
	}
	m.busyUntil = max(ready, m.busyUntil).Add(m.rate.Serialise(size))
	return m.dumper.Capture(m.busyUntil, frame)
}

// backlog returns the bytes left to send at a port of the given rate that is busy for d.
func backlog(d clock.Duration, rate clock.BitRate) int { return int(d / rate.Serialise(1)) }
