package pipeline

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// An Outlet is the sending side of a switch as [Frames] needs it. F is a frame: its bytes, or a parsed packet.
type Outlet[F any] interface {
	// Mirror makes the mirror copy of the current frame, which no event has edited yet, and sends it now or later.
	Mirror(now clock.Time, frame F, r *Result) error
	// Edit does to the frame what r's event says (see [Result.Apply]) and returns it.
	Edit(frame F, r *Result) F
	// Keep returns the frame in memory that lasts until it leaves, at due or earlier.
	Keep(frame F, due clock.Time) F
	// Copy returns one more frame like this one.
	Copy(frame F) F
	// Transmit takes over a frame and sends or queues it; Drop takes over one that is not sent.
	Transmit(now clock.Time, port uint16, frame F)
	Drop(frame F)
}

// Frames is what every software switch does between receiving and sending, in memory and on real interfaces: it holds,
// drops, edits, duplicates, floods and mirrors as the pipeline decides. One goroutine uses it, and programs the
// pipeline between frames only.
type Frames[F any] struct {
	Pipeline *Pipeline
	Out      Outlet[F]

	holder trace.Holder[outgoing[F]]
	result Result
}

// outgoing is a frame that an event holds back, with where it goes.
type outgoing[F any] struct {
	to    Forward
	frame F
}

// Forward processes a frame that arrived on port ingress at now: it makes the mirror copy, then forwards the frame and
// those that waited for it. p is the parsed frame.
//
// Held frames that were due before now leave first. So frames leave in the order that stamps and delays in the trace
// show, however late the owner's timer is. Otherwise the trace of a busy machine would accuse a host of answering
// packets that it had not received.
func (f *Frames[F]) Forward(now clock.Time, ingress uint16, p *packet.Packet, frame F) (roce bool, err error) {
	f.Release(now.Add(-1))
	r := &f.result
	f.Pipeline.Process(now.Nanoseconds(), ingress, p, r)
	if r.Mirror.Active {
		err = f.Out.Mirror(now, frame, r)
	}
	overtaken := f.holder.Overtaken(r.Flow)
	f.forward(now, frame)
	for i := range overtaken {
		f.leave(now, &overtaken[i].to, overtaken[i].frame)
	}
	return r.RoCE, err
}

func (f *Frames[F]) forward(now clock.Time, frame F) {
	to := &f.result.Forward
	switch {
	case to.Drop:
		f.Out.Drop(frame)
	case to.DelayNS > 0:
		f.hold(now, to.DelayNS, frame)
	case to.Behind > 0:
		f.hold(now, trace.ReorderLimitNS, frame)
	default:
		if f.result.Event != trace.EventNone {
			frame = f.Out.Edit(frame, &f.result)
		}
		f.leave(now, to, frame)
	}
}

func (f *Frames[F]) hold(now clock.Time, ns int64, frame F) {
	due, to := dueAfter(now, ns), f.result.Forward
	to.Ports = append([]uint16(nil), to.Ports...) // the pipeline's own change when it is programmed
	f.holder.Hold(int64(due), f.result.Flow, int(to.Behind), outgoing[F]{to, f.Out.Keep(frame, due)})
}

// dueAfter returns the last time before the nanosecond that begins ns after that of now. Mirror stamps are in whole
// nanoseconds, so a trace shows exactly which packets arrived before a held one left.
func dueAfter(now clock.Time, ns int64) clock.Time {
	start := clock.Time(0).Add(clock.Duration(now.Nanoseconds()+ns) * clock.Nanosecond)
	return start.Add(-1)
}

// leave sends a frame, with the copies that its event requires, to each of its ports.
func (f *Frames[F]) leave(now clock.Time, to *Forward, frame F) {
	for range to.Copies {
		f.send(now, to, f.Out.Copy(frame))
	}
	f.send(now, to, frame)
}

func (f *Frames[F]) send(now clock.Time, to *Forward, frame F) {
	if !to.Flood {
		f.Out.Transmit(now, to.Port, frame)
		return
	}
	for _, port := range to.Ports {
		f.Out.Transmit(now, port, f.Out.Copy(frame))
	}
	f.Out.Drop(frame)
}

// Next returns when the first held frame is due, clock.Never if none waits.
func (f *Frames[F]) Next() clock.Time { return clock.Time(f.holder.Next()) }

// Release sends the held frames that are due.
func (f *Frames[F]) Release(now clock.Time) {
	if f.Next() > now {
		return
	}
	for _, x := range f.holder.Due(int64(now)) {
		f.leave(now, &x.to, x.frame)
	}
}

// EncodeMirror writes r's mirror numbers into a copy of its frame, made in room, and returns the copy, cut to the snap
// length.
func (r *Result) EncodeMirror(copied []byte) ([]byte, error) {
	m := &r.Mirror
	err := trace.EncodeMirror(copied,
		trace.MirrorMeta{Event: r.Event, Seq: m.Seq, TimeNS: m.TimeNS, UDPDstPort: m.UDPDstPort})
	if err != nil {
		return nil, fmt.Errorf("mirror a RoCE packet: %w", err) // a RoCE packet is UDP by definition
	}
	if m.Snap > 0 && int(m.Snap) < len(copied) {
		copied = copied[:m.Snap]
	}
	return copied, nil
}
