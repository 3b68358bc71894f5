package verbs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"candela.dev/candela/packet"
)

// QPState is the state of a queue pair (IBTA volume 1, 10.3.1), as the kernel numbers it.
type QPState uint8

// States in which a queue pair has a peer.
const (
	ReadyToReceive QPState = 2
	ReadyToSend    QPState = 3
	SendDrained    QPState = 4
)

// ReliableConnection is the kernel's number of the type of a queue pair (ibv_qp_type).
const ReliableConnection = 2

// QueuePair is a queue pair as the kernel lists it (rdma resource show qp).
type QueuePair struct {
	Port      int // of the device, from 1; 0: none yet
	QPN, Peer packet.QPN
	// Send is the PSN of the next request, Receive that of the next expected one. A queue pair of a peer that has sent
	// nothing yet expects the first.
	Send, Receive packet.PSN
	Type          uint8
	State         QPState
	PID           int // of the process that owns it; 0: the kernel
}

// Connected reports whether q is of a reliable connection and knows its peer.
func (q *QueuePair) Connected() bool {
	return q.Type == ReliableConnection && q.State >= ReadyToReceive && q.State <= SendDrained
}

// Attributes of the kernel's lists (rdma/rdma_netlink.h).
const (
	attrDevIndex  = 1
	attrDevName   = 2
	attrPort      = 3
	attrQPs       = 19
	attrQP        = 20
	attrLocalQPN  = 21
	attrRemoteQPN = 22
	attrRQPSN     = 23
	attrSQPSN     = 24
	attrType      = 26
	attrState     = 27
	attrPID       = 28
)

// errAttribute reports a message of the kernel that is not understood.
var errAttribute = errors.New("the kernel's list of queue pairs is damaged")

// eachAttribute calls f for the attributes of a netlink message.
func eachAttribute(b []byte, f func(kind uint16, value []byte) error) error {
	const header, kindMask = 4, 1<<14 - 1 // two flags above
	for len(b) >= header {
		n := int(binary.NativeEndian.Uint16(b))
		if n < header || n > len(b) {
			return fmt.Errorf("%w: an attribute of %d bytes in %d", errAttribute, n, len(b))
		}
		if err := f(binary.NativeEndian.Uint16(b[2:])&kindMask, b[header:n]); err != nil {
			return err
		}
		b = b[min(len(b), (n+header-1)&^(header-1)):]
	}
	return nil
}

// number reads an unsigned integer of any size.
func number(value []byte) (uint32, error) {
	switch len(value) {
	case 1:
		return uint32(value[0]), nil
	case 4:
		return binary.NativeEndian.Uint32(value), nil
	}
	return 0, fmt.Errorf("%w: a number of %d bytes", errAttribute, len(value))
}

// parseQueuePairs reads one message of a list of queue pairs.
func parseQueuePairs(message []byte) (list []QueuePair, err error) {
	err = eachAttribute(message, func(kind uint16, value []byte) error {
		if kind != attrQPs {
			return nil
		}
		return eachAttribute(value, func(kind uint16, value []byte) error {
			if kind != attrQP {
				return nil
			}
			q, err := parseQueuePair(value)
			list = append(list, q)
			return err
		})
	})
	return list, err
}

func parseQueuePair(entry []byte) (q QueuePair, err error) {
	const bits24 = 1<<24 - 1
	err = eachAttribute(entry, func(kind uint16, value []byte) error {
		switch kind {
		case attrPort, attrLocalQPN, attrRemoteQPN, attrRQPSN, attrSQPSN, attrType, attrState, attrPID:
		default:
			return nil
		}
		v, err := number(value)
		if err != nil {
			return err
		}
		switch kind {
		case attrPort:
			q.Port = int(v)
		case attrLocalQPN:
			q.QPN = packet.QPN(v & bits24)
		case attrRemoteQPN:
			q.Peer = packet.QPN(v & bits24)
		case attrRQPSN:
			q.Receive = packet.PSN(v & bits24)
		case attrSQPSN:
			q.Send = packet.PSN(v & bits24)
		case attrType:
			q.Type = uint8(v)
		case attrState:
			q.State = QPState(v)
		case attrPID:
			q.PID = int(v)
		}
		return nil
	})
	return q, err
}
