package observer

import (
	"fmt"

	"candela.dev/candela/packet"
)

// A reason is why an endpoint cannot send a frame. A later one comes from a state that is closer to sending it.
type reason uint8

const (
	reasonNone reason = iota

	// Of a requester.
	reasonAfterError
	reasonAcknowledged
	reasonSkip
	reasonRestart
	reasonGap
	reasonOpcode
	reasonChanged
	reasonRetries
	reasonEarly

	// Of a responder.
	reasonFatal
	reasonRNR
	reasonNakDuplicate
	reasonNakRepeat
	reasonNak
	reasonOwes
	reasonBeyond
	reasonDecreasing
	reasonAtomicUnexpected
	reasonReadUnexpected
	reasonAtomicResult
	reasonReadOrder
	reasonReadOpcode
	reasonReadLength
	reasonSyndrome // of a response that is otherwise correct
	reasonMSN

	reasonUnfinished
)

// describe names a frame in the words of reports.
func (f *frame) describe() string {
	switch {
	case !f.back && f.op == packet.ReadRequest:
		return fmt.Sprintf("read-request psn %d", f.psn+1)
	case !f.back:
		return fmt.Sprintf("data psn %d (%v)", f.psn+1, f.op)
	case f.op.IsReadResponse():
		return fmt.Sprintf("read-response psn %d (%v)", f.psn+1, f.op)
	case f.op == packet.AtomicAcknowledge:
		return fmt.Sprintf("atomic-ack psn %d", f.psn+1)
	case f.syndrome == packet.SyndromeNakSequence:
		return fmt.Sprintf("nack psn %d", f.psn+1)
	}
	return fmt.Sprintf("%v psn %d, msn %d", packet.Classify(f.op, f.syndrome), f.psn+1, f.msn)
}
