package rdma

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// overlooks reports whether a fault makes the responder execute an expected request that requires the NAK s.
func (r *responder) overlooks(p *packet.Packet, s packet.Syndrome) bool {
	bugs, op := r.q.nic.bugs, p.BTH.Opcode
	if s == packet.SyndromeNakAccess {
		return bugs.Has(BugAcceptsForeignKey)
	}
	if s != packet.SyndromeNakInvalid || op.Verb() != packet.VerbWrite || op.Headers()&packet.HasImmDt != 0 {
		return false
	}
	misplaced := op.Starts() == (r.open.verb != packet.VerbNone)
	return misplaced && bugs.Has(BugAcceptsOpcodeSequence) || !misplaced && r.fitsPosition(p) &&
		(bugs.Has(BugAcceptsDMALength) || op.Ends() && bugs.Has(BugAcceptsOpcodeSequence))
}

// misreject applies faults to the rejection of an expected packet, and reports whether it did.
func (r *responder) misreject(now clock.Time, s packet.Syndrome) bool {
	bugs := r.q.nic.bugs
	switch {
	case s == packet.SyndromeNakAccess && bugs.Has(BugDropsForeignKey):
		return true
	case s == packet.SyndromeNakAccess && bugs.Has(BugAccessErrorAsInvalid):
		r.reject(now, packet.SyndromeNakInvalid)
		return true
	case !s.IsRNR() && bugs.Has(BugAnswersAfterNak):
		r.nak(now, s)
		r.silent = false
		r.expected++
		return true
	}
	return false
}

// misjudge applies faults to other, a copy of the ACK or NAK p, or returns true if a fault ignores p.
func (r *requester) misjudge(p, other *packet.Packet) (ignored bool) {
	bugs := r.q.nic.bugs
	s := p.AETH.Syndrome
	switch {
	case s == packet.SyndromeNakInvalid, s == packet.SyndromeNakAccess, s == packet.SyndromeNakOperation:
		switch {
		case bugs.Has(BugFatalNakRetried):
			other.AETH.Syndrome = packet.SyndromeNakSequence
		case bugs.Has(BugFatalNakWrongStatus) && s == packet.SyndromeNakAccess:
			other.AETH.Syndrome = packet.SyndromeNakOperation
		}
		return bugs.Has(BugFatalNakIgnored)
	case s.IsAck() && s != packet.SyndromeAckNoCredit:
		return bugs.Has(BugCreditsRefused)
	}
	return false
}
