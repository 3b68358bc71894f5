package pipeline

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// A Sender sends the frames of a [Wire]. It owns the memory of copies and edited frames.
type Sender interface {
	// Transmit sends or queues a frame: the current frame, what Keep returned, or a held frame.
	Transmit(port uint16, frame []byte)
	// Room returns an empty slice with room for n bytes; Keep takes what was built in it and returns it.
	Room(n int) []byte
	Keep(frame []byte) []byte
}

// Wire is [Frames] of serialised frames: every datapath in Go on real interfaces.
type Wire struct {
	frames Frames[[]byte]
	sender Sender

	packet packet.Packet
	parsed bool
	ports  []uint16 // of the mirror copy of the frame in hand; the pipeline's
	mirror []byte   // that copy, nil if there is none
}

// NewWire returns a pipeline's Wire.
func NewWire(p *Pipeline, to Sender) *Wire {
	w := &Wire{sender: to}
	w.frames = Frames[[]byte]{Pipeline: p, Out: (*wireOutlet)(w)}
	return w
}

// Forward is [Frames.Forward] for the current frame. It reports whether the frame was RoCE. Mirror must follow and
// sends the mirror copy: a dumper never delays a host's packet.
func (w *Wire) Forward(now clock.Time, ingress uint16, frame []byte) (roce bool, err error) {
	w.mirror, w.parsed = nil, w.packet.Parse(frame) == nil
	return w.frames.Forward(now, ingress, &w.packet, frame)
}

// Mirror sends the mirror copy of the frame that Forward took last, if it has one.
func (w *Wire) Mirror() {
	if w.mirror == nil {
		return
	}
	for _, port := range w.ports {
		w.sender.Transmit(port, w.mirror)
	}
}

// Next returns when the first held frame is due, clock.Never if none waits.
func (w *Wire) Next() clock.Time { return w.frames.Next() }

// Release sends the held frames that are due.
func (w *Wire) Release(now clock.Time) { w.frames.Release(now) }

// wireOutlet is what a Wire's Frames call.
type wireOutlet Wire

// mirroredHeaders bounds the bytes of a frame that the mirror encoding writes to: Ethernet with a tag, IPv4 with
// options, UDP.
const mirroredHeaders = 14 + 4 + 60 + 8

func (w *wireOutlet) Mirror(_ clock.Time, frame []byte, r *Result) error {
	if snap := int(r.Mirror.Snap); snap > 0 {
		frame = frame[:min(len(frame), max(snap, mirroredHeaders))]
	}
	copied, err := r.EncodeMirror(append(w.sender.Room(len(frame)), frame...))
	if err == nil {
		w.mirror, w.ports = w.sender.Keep(copied), r.Mirror.Ports
	}
	return err
}

func (w *wireOutlet) Edit(frame []byte, r *Result) []byte {
	if !w.parsed {
		return frame
	}
	r.Apply(&w.packet)
	return w.sender.Keep(w.packet.AppendTo(w.sender.Room(len(frame))))
}

func (w *wireOutlet) Keep(frame []byte, _ clock.Time) []byte { return append([]byte(nil), frame...) }

func (w *wireOutlet) Copy(frame []byte) []byte { return frame }

func (w *wireOutlet) Drop([]byte) {}

func (w *wireOutlet) Transmit(_ clock.Time, port uint16, frame []byte) {
	w.sender.Transmit(port, frame)
}
