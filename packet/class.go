package packet

import "fmt"

// Class is the injector's classification of a RoCE packet; the values are part of the injector contract.
type Class uint8

// Classes. ClassOther is for packets that no event can name: other transport services and reserved syndromes.
const (
	ClassData        Class = 0
	ClassAck         Class = 1
	ClassNak         Class = 2 // PSN sequence error
	ClassNakInv      Class = 3 // invalid request
	ClassNakAcc      Class = 4 // remote access error
	ClassNakOp       Class = 5 // remote operational error
	ClassRNR         Class = 6
	ClassCNP         Class = 7
	ClassReadRequest Class = 8
	ClassAtomicAck   Class = 9
	ClassOther       Class = 15
)

var classNames = map[Class]string{
	ClassData: "data", ClassAck: "ack", ClassNak: "nak", ClassNakInv: "nak-inv", ClassNakAcc: "nak-acc",
	ClassNakOp: "nak-op", ClassRNR: "rnr", ClassCNP: "cnp", ClassReadRequest: "read-request",
	ClassAtomicAck: "atomic-ack", ClassOther: "other",
}

// ParseClass returns the class that a configuration names.
func ParseClass(name string) (Class, bool) {
	for c, n := range classNames {
		if n == name {
			return c, true
		}
	}
	return ClassOther, false
}

// String returns the class in the words of the configuration.
func (c Class) String() string {
	if n, ok := classNames[c]; ok {
		return n
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Classify returns the class of a packet with opcode o and, where the opcode has an AETH, syndrome s.
func Classify(o Opcode, s Syndrome) Class {
	switch {
	case o.IsData():
		return ClassData
	case o == Acknowledge:
		return s.class()
	case o == CNP:
		return ClassCNP
	case o == ReadRequest:
		return ClassReadRequest
	case o == AtomicAcknowledge:
		return ClassAtomicAck
	}
	return ClassOther
}

// Class returns the class of p, which must have a BTH.
func (p *Packet) Class() Class { return Classify(p.BTH.Opcode, p.AETH.Syndrome) }

// Syndrome is the first byte of the AETH (IBTA volume 1, 9.3.5).
type Syndrome uint8

// Syndromes. An ACK carries a credit code in its low five bits, an RNR NAK a timer code.
const (
	SyndromeAck          Syndrome = 0x00
	SyndromeAckNoCredit  Syndrome = 0x1f // ACK without credit information
	SyndromeRNR          Syndrome = 0x20
	SyndromeNakSequence  Syndrome = 0x60
	SyndromeNakInvalid   Syndrome = 0x61
	SyndromeNakAccess    Syndrome = 0x62
	SyndromeNakOperation Syndrome = 0x63
)

// IsAck reports whether s is a positive acknowledgement.
func (s Syndrome) IsAck() bool { return s&0xe0 == 0 }

// IsRNR reports whether s is a receiver-not-ready NAK.
func (s Syndrome) IsRNR() bool { return s&0xe0 == 0x20 }

// IsNak reports whether s is a NAK other than RNR.
func (s Syndrome) IsNak() bool { return s&0xe0 == 0x60 }

// TimerCode returns the five-bit RNR timer code.
func (s Syndrome) TimerCode() uint8 { return uint8(s & 0x1f) }

func (s Syndrome) class() Class {
	switch {
	case s.IsAck():
		return ClassAck
	case s.IsRNR():
		return ClassRNR
	case s == SyndromeNakSequence:
		return ClassNak
	case s == SyndromeNakInvalid:
		return ClassNakInv
	case s == SyndromeNakAccess:
		return ClassNakAcc
	case s == SyndromeNakOperation:
		return ClassNakOp
	}
	return ClassOther
}

// String describes s in words.
func (s Syndrome) String() string {
	switch c := s.class(); c {
	case ClassAck:
		return "ACK"
	case ClassRNR:
		return fmt.Sprintf("RNR NAK (timer code %d)", s.TimerCode())
	case ClassNak:
		return "NAK (PSN sequence error)"
	case ClassNakInv:
		return "NAK (invalid request)"
	case ClassNakAcc:
		return "NAK (remote access error)"
	case ClassNakOp:
		return "NAK (remote operational error)"
	default:
		return fmt.Sprintf("AETH syndrome 0x%02x", uint8(s))
	}
}
