package virtual

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A capturer takes the mirror copies that arrive behind one port. The frame is valid during the call only; an error means
// that copies are lost to a failing disk.
type capturer interface {
	Capture(at clock.Time, frame []byte) error
}

// injectorSwitch is the programmable switch between the hosts: the injector pipeline with ports, a latency and output queues.
type injectorSwitch struct {
	pipeline *pipeline.Pipeline
	pool     *pool
	latency  clock.Duration // from the last bit in to the first bit out of an idle port
	out      []*link        // by port; nil where a dumper hangs
	mirrors  []*mirrorPort  // by port; nil where a host hangs
	holder   *holder        // of packets that an event delays

	result   pipeline.Result
	frame    []byte
	lastRoCE clock.Time // arrival of the latest RoCE packet: quiescence counts from it
	fault    error
	watch    Watcher // nil: nobody watches
}

// receive implements receiver: a frame has fully arrived on an ingress port.
func (s *injectorSwitch) receive(now clock.Time, port uint16, p *packet.Packet) {
	if s.watch != nil {
		s.watch(now, SwitchIngress, p)
	}
	r := &s.result
	s.pipeline.Process(now.Nanoseconds(), port, p, r)
	if r.RoCE {
		s.lastRoCE = now
	}
	if r.Mirror.Active {
		s.mirror(now, p, r)
	}
	var overtaken []outgoing
	if s.holder.Len() > 0 && r.Flow != trace.NoFlow {
		overtaken = s.holder.Overtaken(r.Flow)
	}
	s.forward(now, r, p)
	for i := range overtaken {
		s.transmit(now, overtaken[i].port, overtaken[i].p)
	}
}

// forward takes p and lets the action of its event, if it has one, have its way with it.
func (s *injectorSwitch) forward(now clock.Time, r *pipeline.Result, p *packet.Packet) {
	switch {
	case r.Forward.Drop:
		s.pool.put(p)
	case r.Forward.DelayNS > 0 || r.Forward.Behind > 0:
		s.holder.hold(now, r, p)
	case r.Forward.Flood:
		r.Apply(p)
		for _, out := range r.Forward.Ports {
			c := s.pool.get()
			*c = *p
			s.transmit(now, out, c)
		}
		s.pool.put(p)
	default:
		r.Apply(p)
		s.duplicate(now, r, p)
	}
}

// duplicate transmits p and as many copies as its event asks for.
func (s *injectorSwitch) duplicate(now clock.Time, r *pipeline.Result, p *packet.Packet) {
	for range r.Forward.Copies {
		c := s.pool.get()
		*c = *p
		s.transmit(now, r.Forward.Port, c)
	}
	s.transmit(now, r.Forward.Port, p)
}

func (s *injectorSwitch) transmit(now clock.Time, port uint16, p *packet.Packet) {
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

// mirror copies p as it arrived, before any event edits it, to the ports of the clone session.
func (s *injectorSwitch) mirror(now clock.Time, p *packet.Packet, r *pipeline.Result) {
	s.frame = p.AppendTo(s.frame[:0])
	m := &r.Mirror
	err := trace.EncodeMirror(s.frame, trace.MirrorMeta{Event: r.Event, Seq: m.Seq, TimeNS: m.TimeNS, UDPDstPort: m.UDPDstPort})
	if err != nil {
		// A RoCE packet is UDP by definition.
		s.fault = fmt.Errorf("mirror a RoCE packet: %w", err)
		return
	}
	frame := s.frame
	if m.Snap > 0 && int(m.Snap) < len(frame) {
		frame = frame[:m.Snap]
	}
	for _, port := range m.Ports {
		if int(port) < len(s.mirrors) && s.mirrors[port] != nil {
			if err := s.mirrors[port].send(now.Add(s.latency), frame); err != nil && s.fault == nil {
				s.fault = err
			}
		}
	}
}

// mirrorPort is a switch port with a dumper behind it: an output queue of finite depth at the dumper's link rate. Copies
// arrive in order, so no event is needed for each.
type mirrorPort struct {
	rate      clock.BitRate
	limit     int      // wire bytes that may wait; more are dropped
	dumper    capturer // nil while no dumper runs: copies get lost
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

// backlog returns how many bytes a port of the given rate still has to send when it is busy for d.
func backlog(d clock.Duration, rate clock.BitRate) int { return int(d / rate.Serialise(1)) }
