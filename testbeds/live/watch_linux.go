package live

import (
	"bytes"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// watch compares bytes with the taps of the switch.
type watch struct {
	*mismatches
	s       *Switch
	taken   []sums            // by port: of frames sent from its ring onto the link
	leaving [][]fabric.Header // by port: of packets that a tap saw leave
}

func (w *watch) see(at fabric.Point, _ clock.Time, p *fabric.Packet) {
	if at.Host || at.Port < 0 || at.Port >= len(w.taken) {
		return
	}
	switch at.Stage {
	case fabric.Ingress:
		sum, ok := w.taken[at.Port].pop()
		frame := w.s.net.Frame(p)
		switch {
		case !ok || frame == nil || sum != sumOf(frame):
			w.add("port %d: a packet comes in at the tap that is none of the frames of the ring, in their order", at.Port)
		default:
			h := p.Header
			h.TTL++ // undo the hop that the switch counts on arrival
			if wrong := difference(w.s.net.Codecs(), frame, &h); wrong != "" {
				w.add("port %d, in: a frame of the ring has %s", at.Port, wrong)
			}
		}
	case fabric.Egress:
		w.leaving[at.Port] = append(w.leaving[at.Port], p.Header)
	default:
	}
}

// written compares a frame to be written with the packet that the tap saw leave, and its payload with the frame that
// arrived.
func (w *watch) written(port int, frame []byte, p *fabric.Packet) {
	line := w.leaving[port]
	if len(line) == 0 {
		w.add("port %d: a frame is written that no tap has seen leave", port)
		return
	}
	h := line[0]
	w.leaving[port] = append(line[:0], line[1:]...)
	if wrong := difference(w.s.net.Codecs(), frame, &h); wrong != "" {
		w.add("port %d, out: a written frame has %s", port, wrong)
		return
	}
	came, from := w.s.net.Frame(p), w.s.net.Codecs().MinFrame(&p.Header)
	if from < len(frame) && len(frame) <= len(came) && !bytes.Equal(frame[from:], came[from:len(frame)]) {
		w.add("port %d, out: a written frame has another payload than the one that came in", port)
	}
}
