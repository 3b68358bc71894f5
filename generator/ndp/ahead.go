package ndp

import (
	"unsafe"

	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/prefetch"
)

// Foresee adds the cache lines that HandlePacket will use for a packet with header d or, without a packet, Poll. It has
// three steps: each reads lines that the previous one added, so a caller that waits between the steps never stalls. It
// changes nothing.
func (h *Host) Foresee(step int, d *ndp.Header, lines prefetch.Lines) prefetch.Lines {
	switch step {
	case 0: // all but the fields that only faults and timers use
		for at := uintptr(0); at < unsafe.Offsetof(h.sink); at += prefetch.Line {
			lines = lines.And(unsafe.Add(unsafe.Pointer(h), at))
		}
	case 1:
		return h.foreseeState(d, lines)
	case 2:
		if s := h.foreseen(d); s != nil && len(s.window.slots) > 0 {
			return s.foresee(d, lines)
		}
	}
	return lines
}

// foreseeState adds the connection and the send queues.
func (h *Host) foreseeState(d *ndp.Header, lines prefetch.Lines) prefetch.Lines {
	if n := len(h.answers.ring); n > 0 {
		lines = lines.And(unsafe.Pointer(h.answers.front())).And(unsafe.Pointer(&h.answers.ring[h.answers.tail&uint32(n-1)]))
	}
	if d != nil && d.Kind == ndp.Data {
		return lines.AndTwo(unsafe.Pointer(h.last))
	}
	if s := h.foreseen(d); s != nil {
		lines = lines.AndTwo(unsafe.Pointer(s)).And(unsafe.Add(unsafe.Pointer(s), 2*prefetch.Line))
	}
	return lines
}

// foreseen returns the sender that feedback is for or, without a packet, the next to send.
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

// foresee adds the slot of the packet that d answers, or of the next packet.
func (s *sender) foresee(d *ndp.Header, lines prefetch.Lines) prefetch.Lines {
	seq := s.window.next
	if d != nil {
		seq = d.Seq
	}
	return lines.And(unsafe.Pointer(s.window.at(seq)))
}
