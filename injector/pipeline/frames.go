package pipeline

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// An Outlet takes the frames that a software switch sends. It owns the memory that copies and edited frames lie in.
type Outlet interface {
	// Transmit sends a frame, or queues it. The bytes are the frame in hand, what Keep returned, or a held frame of its own.
	Transmit(port uint16, frame []byte)
	// Room returns an empty slice with room for n bytes; Keep takes what was built in it and returns it.
	Room(n int) []byte
	Keep(frame []byte) []byte
}

// Frames is a pipeline on serialised frames: what every software datapath does between receiving and sending. It serves one
// goroutine, which programs the pipeline between frames only.
type Frames struct {
	Pipeline *Pipeline
	Out      Outlet

	holder Holder[outgoing]
	packet packet.Packet
	result Result
	mirror []byte // copy of the frame in hand, nil if there is none
}

// outgoing is a frame that an event holds back; it owns its bytes.
type outgoing struct {
	port  uint16
	frame []byte
}

// Forward lets the pipeline decide about a frame that arrived on port ingress at now, and forwards it and those that waited
// for it. It reports whether the frame was RoCE. The mirror copy is made before an event edits the frame, and leaves with
// Mirror, which must follow: a dumper never delays a host's packet.
//
// Held frames whose time was up before now leave first. However late the owner's timer is, frames then leave in the order
// that stamps and delays in the trace tell; or a busy machine would make the trace accuse a host of answers to packets that it
// had not got.
func (f *Frames) Forward(now clock.Time, ingress uint16, frame []byte) (roce bool, err error) {
	f.Release(now)
	p, r := &f.packet, &f.result
	parsed := p.Parse(frame) == nil
	f.Pipeline.Process(now.Nanoseconds(), ingress, p, r)
	f.mirror = nil
	if r.Mirror.Active {
		err = f.encodeMirror(frame)
	}
	var overtaken []outgoing
	if f.holder.Len() > 0 && r.Flow != trace.NoFlow {
		overtaken = f.holder.Overtaken(r.Flow)
	}
	f.forward(now, parsed, frame)
	for _, x := range overtaken {
		f.Out.Transmit(x.port, x.frame)
	}
	return r.RoCE, err
}

// Mirror sends the mirror copy of the frame that Forward took last, if it has one.
func (f *Frames) Mirror() {
	if f.mirror == nil {
		return
	}
	for _, port := range f.result.Mirror.Ports {
		f.Out.Transmit(port, f.mirror)
	}
}

// mirroredHeaders is how far into a frame the mirror encoding writes at most: Ethernet with a tag, IPv4 with options, UDP.
const mirroredHeaders = 14 + 4 + 60 + 8

func (f *Frames) encodeMirror(frame []byte) error {
	m := &f.result.Mirror
	if m.Snap > 0 && len(frame) > mirroredHeaders {
		frame = frame[:min(len(frame), max(int(m.Snap), mirroredHeaders))]
	}
	copied := append(f.Out.Room(len(frame)), frame...)
	err := trace.EncodeMirror(copied, trace.MirrorMeta{Event: f.result.Event, Seq: m.Seq, TimeNS: m.TimeNS, UDPDstPort: m.UDPDstPort})
	if err != nil {
		return fmt.Errorf("mirror a RoCE packet: %w", err) // a RoCE packet is UDP by definition
	}
	if m.Snap > 0 && int(m.Snap) < len(copied) {
		copied = copied[:m.Snap]
	}
	f.mirror = f.Out.Keep(copied)
	return nil
}

// forward sends the frame on, edited if an event says so.
func (f *Frames) forward(now clock.Time, parsed bool, frame []byte) {
	to := &f.result.Forward
	switch {
	case to.Drop:
		return
	case to.DelayNS > 0 || to.Behind > 0:
		f.holder.Hold(now, &f.result, outgoing{to.Port, append([]byte(nil), frame...)})
		return
	case parsed && f.result.Event != trace.EventNone:
		f.result.Apply(&f.packet)
		frame = f.Out.Keep(f.packet.AppendTo(f.Out.Room(len(frame))))
	}
	if to.Flood {
		for _, port := range to.Ports {
			f.Out.Transmit(port, frame)
		}
		return
	}
	for range 1 + int(to.Copies) {
		f.Out.Transmit(to.Port, frame)
	}
}

// Next returns when the first held frame is due, clock.Never if none waits.
func (f *Frames) Next() clock.Time { return f.holder.Next() }

// Release sends the held frames that are due.
func (f *Frames) Release(now clock.Time) {
	if f.holder.Next() > now {
		return
	}
	for _, x := range f.holder.Due(now) {
		f.Out.Transmit(x.port, x.frame)
	}
}
