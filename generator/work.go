package generator

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// WorkRequest is one operation that a requester posts.
type WorkRequest struct {
	ID         uint64 // echoed in the Completion
	Verb       Verb
	Length     int    // bytes; atomics always work on eight
	RemoteAddr uint64 // WRITE, READ and atomics
	RKey       uint32 // WRITE, READ and atomics
	Imm        uint32 // WriteImm, SendImm
	Compare    uint64 // CompareSwap
	SwapAdd    uint64 // new value of CompareSwap, addend of FetchAdd
	Invalidate uint32 // SendInvalidate: the remote key to invalidate
}

// ReceiveRequest is one posted receive buffer: a SEND fills it, a WRITE with immediate consumes it.
type ReceiveRequest struct {
	ID     uint64
	Length int // bytes; a longer SEND is an invalid request
}

// Region is registered memory that the remote side of a connection may access.
type Region struct {
	Base   uint64
	Length uint64 // bytes
	RKey   uint32
}

// Status is the result of a work request, named as in libibverbs.
type Status uint8

// Completion statuses.
const (
	StatusNone             Status = iota
	Success                       // IBV_WC_SUCCESS
	LocalLengthError              // IBV_WC_LOC_LEN_ERR
	WorkRequestFlushed            // IBV_WC_WR_FLUSH_ERR
	BadResponse                   // IBV_WC_BAD_RESP_ERR
	RemoteInvalidRequest          // IBV_WC_REM_INV_REQ_ERR
	RemoteAccessError             // IBV_WC_REM_ACCESS_ERR
	RemoteOperationError          // IBV_WC_REM_OP_ERR
	RetryExceeded                 // IBV_WC_RETRY_EXC_ERR
	ReceiverNotReadyExceed        // IBV_WC_RNR_RETRY_EXC_ERR
)

var statusNames = [...]string{"none", "IBV_WC_SUCCESS", "IBV_WC_LOC_LEN_ERR", "IBV_WC_WR_FLUSH_ERR",
	"IBV_WC_BAD_RESP_ERR",
	"IBV_WC_REM_INV_REQ_ERR", "IBV_WC_REM_ACCESS_ERR", "IBV_WC_REM_OP_ERR", "IBV_WC_RETRY_EXC_ERR",
	"IBV_WC_RNR_RETRY_EXC_ERR"}

// String returns the name in libibverbs.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// ParseStatus returns the status with a name in libibverbs.
func ParseStatus(name string) (Status, bool) {
	for i, n := range statusNames {
		if n == name && i != 0 {
			return Status(i), true
		}
	}
	return StatusNone, false
}

// MarshalText writes the status by name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a status by name.
func (s *Status) UnmarshalText(text []byte) error {
	v, ok := ParseStatus(string(text))
	if !ok && string(text) != StatusNone.String() {
		return fmt.Errorf("completion status %q is unknown (known: %v)", text, statusNames[1:])
	}
	*s = v
	return nil
}

// Completion reports the end of a posted request, successful or not.
type Completion struct {
	ID      uint64 // of the WorkRequest or ReceiveRequest
	Context int    // of the queue pair
	QPN     packet.QPN
	Receive bool // a ReceiveRequest, otherwise a WorkRequest
	Verb    Verb // of a WorkRequest
	Status  Status
	Length  int // bytes transferred
	HasImm  bool
	Imm     uint32 // of a receive, if HasImm
	Atomic  uint64 // original remote value, of an atomic
	HasInv  bool
	Invalid uint32     // of a receive, if HasInv: the local key that the SEND invalidated
	At      clock.Time // time at which the endpoint completed it
}

// QueuePair is one side of a connection, as a Workload uses it. Posting never blocks. An error means an invalid
// request, not a failure on the wire.
type QueuePair interface {
	PostSend(now clock.Time, wr WorkRequest) error
	PostRecv(now clock.Time, rr ReceiveRequest) error
}
