package ndp

import (
	"unsafe"

	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/prefetch"
)

// Steps of Foresee.
const ForeseeSteps = 3

// Foresee asks for the memory that HandlePacket will use for a packet with header d, or without one Poll, in steps that lead to
// each other; a caller that lets time pass between them never waits. It reads what the step before asked for, and changes nothing.
func (h *Host) Foresee(step int, d *ndp.Header, lines *prefetch.List) {
	switch step {
	case 0: // all but the counters of faults
		for at := uintptr(0); at < unsafe.Offsetof(h.sink); at += prefetch.Line {
			lines.Add(unsafe.Add(unsafe.Pointer(h), at))
		}
	case 1:
		h.foreseeState(d, lines)
	case 2:
		if s := h.foreseen(d); s != nil {
			s.foresee(d, lines)
		}
	}
}

// foreseeState asks for the connection and for the queues of what is to be sent.
func (h *Host) foreseeState(d *ndp.Header, lines *prefetch.List) {
	if n := len(h.answers.ring); n > 0 {
		lines.Add(unsafe.Pointer(h.answers.front()))
		lines.Add(unsafe.Pointer(&h.answers.ring[h.answers.tail&uint32(n-1)]))
	}
	if d != nil && d.Kind == ndp.Data {
		lines.AddTwo(unsafe.Pointer(h.last))
		return
	}
	if s := h.foreseen(d); s != nil {
		lines.AddTwo(unsafe.Pointer(s))
		lines.Add(unsafe.Add(unsafe.Pointer(s), 2*prefetch.Line))
	}
}

// foreseen returns the sender that feedback is for, or without a packet the next to send.
func (h *Host) foreseen(d *ndp.Header) *sender {
	if d == nil {
		if h.ready.len() == 0 {
			return nil
		}
		return h.senders[*h.ready.front()]
	}
	if i := d.Connection - h.cfg.FirstConnection; i < uint32(len(h.senders)) && d.Kind != ndp.Data {
		return h.senders[i]
	}
	return nil
}

// foresee asks for what the sender knows of the packet that d answers, or of the next one.
func (s *sender) foresee(d *ndp.Header, lines *prefetch.List) {
	w := &s.window
	if len(w.slots) == 0 {
		return
	}
	seq := w.next
	if d != nil {
		seq = d.Seq
	}
	lines.Add(unsafe.Pointer(w.at(seq)))
	lines.Add(unsafe.Pointer(&w.queue[w.word(seq)]))
}
