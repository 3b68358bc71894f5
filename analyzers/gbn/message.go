package gbn

import (
	"fmt"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A message is the request message that is being sent for the first time.
type message struct {
	open    bool
	unknown bool // the trace began, or has a gap, inside a message
	verb    packet.Verb
	left    int64 // bytes that the RETH announced and that have not been sent; WRITEs only
	judged  bool  // its DMA length was reported wrong
	id      uint64
}

// checkMessage judges opcode, lengths and pad of a request at p that is sent for the first time and takes n PSNs.
func (s *session) checkMessage(r *trace.Record, p, n pos) {
	m := &s.req.message
	op := r.Opcode
	if m.unknown && !op.Starts() {
		m.unknown = !op.Ends()
		return
	}
	m.unknown = false
	if op.Starts() == m.open || m.open && op.Verb() != m.verb {
		say(s.report(RuleOpcodeSequence, r, p, m.id), m.expected(), op.String(), s.causeSequence(r, p))
		m.judged = true
	}
	if op.Starts() {
		*m = message{verb: op.Verb(), left: int64(r.DMALen), id: r.ID}
	}
	m.open = !op.Ends()
	if carriesPayload(op) {
		s.checkRequestLength(r, p)
	}
	s.checkPad(r, p)
}

// carriesPayload reports whether op is a SEND or WRITE packet.
func carriesPayload(op packet.Opcode) bool {
	return op.Verb() == packet.VerbSend || op.Verb() == packet.VerbWrite
}

// causeSequence says what is wrong with the opcode of r at p.
func (s *session) causeSequence(r *trace.Record, p pos) happened {
	if m := &s.req.message; m.open {
		return causeInsideMessage(s.requester(), psnOf(p), r.Opcode, m.verb)
	}
	return causeOutsideMessage(s.requester(), psnOf(p), r.Opcode)
}

func (m *message) expected() string {
	if m.open {
		return fmt.Sprintf("MIDDLE or LAST of the %v message", m.verb)
	}
	return "FIRST or ONLY of a new message"
}

// checkRequestLength judges the payload of a SEND or WRITE packet.
func (s *session) checkRequestLength(r *trace.Record, p pos) {
	op, got := r.Opcode, int(r.PayloadLen)
	if s.mtu > 0 {
		lo, hi := s.mtu, s.mtu
		if op.Ends() {
			lo = 1
			if op.Starts() {
				lo = 0
			}
		}
		if got < lo || got > hi {
			say(s.report(RulePayloadLength, r, p), bytesBetween(lo, hi), fmt.Sprintf("%v with %d bytes", op, got),
				causePayloadLength(s.requester(), psnOf(p), r, lo, hi))
		}
	}
	if op.Verb() != packet.VerbWrite {
		return
	}
	m := &s.req.message
	m.left -= int64(got)
	wrong := m.left < 0 || op.Ends() && m.left != 0 || !op.Ends() && m.left == 0
	if wrong && !m.judged {
		say(s.report(RuleDMALength, r, p, m.id),
			"payloads that add up to the DMA length at LAST or ONLY",
			fmt.Sprintf("%v leaves %d of the announced bytes", op, m.left),
			causeDMALength(s.requester(), psnOf(p), op, m.left))
		m.judged = true
	}
}

func bytesBetween(lo, hi int) string {
	if lo == hi {
		return fmt.Sprintf("%d bytes of payload", lo)
	}
	return fmt.Sprintf("%d to %d bytes of payload", lo, hi)
}

// checkPad judges the pad count of r.
func (s *session) checkPad(r *trace.Record, p pos) {
	if want := uint8(-int(r.PayloadLen) & 3); r.PadCount != want {
		say(s.report(RulePadCount, r, p),
			fmt.Sprintf("pad count %d for %d bytes", want, r.PayloadLen), fmt.Sprintf("pad count %d", r.PadCount),
			causePadCount(cause.Sender(r), psnOf(p), r.PadCount, want, r.PayloadLen))
	}
}
