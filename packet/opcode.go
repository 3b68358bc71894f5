package packet

import "fmt"

// Opcode is the BTH opcode: transport service in the top three bits, operation in the rest (IBTA volume 1, 9.2).
type Opcode uint8

// Opcodes of the reliable connection service, and the CNP of RoCEv2 (annex A17.9.3).
const (
	SendFirst          Opcode = 0x00
	SendMiddle         Opcode = 0x01
	SendLast           Opcode = 0x02
	SendLastImm        Opcode = 0x03
	SendOnly           Opcode = 0x04
	SendOnlyImm        Opcode = 0x05
	WriteFirst         Opcode = 0x06
	WriteMiddle        Opcode = 0x07
	WriteLast          Opcode = 0x08
	WriteLastImm       Opcode = 0x09
	WriteOnly          Opcode = 0x0a
	WriteOnlyImm       Opcode = 0x0b
	ReadRequest        Opcode = 0x0c
	ReadResponseFirst  Opcode = 0x0d
	ReadResponseMiddle Opcode = 0x0e
	ReadResponseLast   Opcode = 0x0f
	ReadResponseOnly   Opcode = 0x10
	Acknowledge        Opcode = 0x11
	AtomicAcknowledge  Opcode = 0x12
	CmpSwap            Opcode = 0x13
	FetchAdd           Opcode = 0x14
	SendLastInv        Opcode = 0x16
	SendOnlyInv        Opcode = 0x17
	CNP                Opcode = 0x81
)

// Verb is the operation that a request or response packet belongs to.
type Verb uint8

// Verbs. VerbNone marks ACKs, CNPs and packets of other services.
const (
	VerbNone Verb = iota
	VerbSend
	VerbWrite
	VerbRead
	VerbAtomic
)

var verbNames = [...]string{"none", "send", "write", "read", "atomic"}

// String returns the verb in the words of the configuration.
func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return fmt.Sprintf("verb(%d)", uint8(v))
}

// Headers is a set of transport headers.
type Headers uint16

// Extended transport headers, in the order in which they follow the BTH, and BTH itself.
const (
	HasBTH Headers = 1 << iota
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImmDt
	HasIETH

	headerCount = iota
)

type opcodeFlags uint8

const (
	opRequest  opcodeFlags = 1 << iota // sent by the requester
	opResponse                         // sent by the responder
	opStart                            // first or only packet of a message
	opEnd                              // last or only packet of a message
	opPayload                          // carries payload
)

type opcodeInfo struct {
	name    string
	verb    Verb
	flags   opcodeFlags
	headers Headers
}

const opOnly = opStart | opEnd

var opcodes = [256]opcodeInfo{
	SendFirst:          {"SEND_FIRST", VerbSend, opRequest | opStart | opPayload, 0},
	SendMiddle:         {"SEND_MIDDLE", VerbSend, opRequest | opPayload, 0},
	SendLast:           {"SEND_LAST", VerbSend, opRequest | opEnd | opPayload, 0},
	SendLastImm:        {"SEND_LAST_IMM", VerbSend, opRequest | opEnd | opPayload, HasImmDt},
	SendOnly:           {"SEND_ONLY", VerbSend, opRequest | opOnly | opPayload, 0},
	SendOnlyImm:        {"SEND_ONLY_IMM", VerbSend, opRequest | opOnly | opPayload, HasImmDt},
	WriteFirst:         {"WRITE_FIRST", VerbWrite, opRequest | opStart | opPayload, HasRETH},
	WriteMiddle:        {"WRITE_MIDDLE", VerbWrite, opRequest | opPayload, 0},
	WriteLast:          {"WRITE_LAST", VerbWrite, opRequest | opEnd | opPayload, 0},
	WriteLastImm:       {"WRITE_LAST_IMM", VerbWrite, opRequest | opEnd | opPayload, HasImmDt},
	WriteOnly:          {"WRITE_ONLY", VerbWrite, opRequest | opOnly | opPayload, HasRETH},
	WriteOnlyImm:       {"WRITE_ONLY_IMM", VerbWrite, opRequest | opOnly | opPayload, HasRETH | HasImmDt},
	ReadRequest:        {"READ_REQUEST", VerbRead, opRequest | opOnly, HasRETH},
	ReadResponseFirst:  {"READ_RESPONSE_FIRST", VerbRead, opResponse | opStart | opPayload, HasAETH},
	ReadResponseMiddle: {"READ_RESPONSE_MIDDLE", VerbRead, opResponse | opPayload, 0},
	ReadResponseLast:   {"READ_RESPONSE_LAST", VerbRead, opResponse | opEnd | opPayload, HasAETH},
	ReadResponseOnly:   {"READ_RESPONSE_ONLY", VerbRead, opResponse | opOnly | opPayload, HasAETH},
	Acknowledge:        {"ACKNOWLEDGE", VerbNone, opResponse, HasAETH},
	AtomicAcknowledge:  {"ATOMIC_ACKNOWLEDGE", VerbAtomic, opResponse | opOnly, HasAETH | HasAtomicAckETH},
	CmpSwap:            {"CMP_SWAP", VerbAtomic, opRequest | opOnly, HasAtomicETH},
	FetchAdd:           {"FETCH_ADD", VerbAtomic, opRequest | opOnly, HasAtomicETH},
	SendLastInv:        {"SEND_LAST_INV", VerbSend, opRequest | opEnd | opPayload, HasIETH},
	SendOnlyInv:        {"SEND_ONLY_INV", VerbSend, opRequest | opOnly | opPayload, HasIETH},
	CNP:                {"CNP", VerbNone, opPayload, 0},
}

// Known reports whether o is an opcode of the RC service or a CNP. Of other packets only the BTH is decoded.
func (o Opcode) Known() bool { return opcodes[o].name != "" }

// Verb returns the operation that o belongs to.
func (o Opcode) Verb() Verb { return opcodes[o].verb }

// Headers returns the extended headers that follow the BTH of an o packet.
func (o Opcode) Headers() Headers { return opcodes[o].headers }

// IsRequest reports whether o is sent by the requester of a connection.
func (o Opcode) IsRequest() bool { return opcodes[o].flags&opRequest != 0 }

// IsResponse reports whether o is sent by the responder of a connection: ACK, atomic ACK or READ response.
func (o Opcode) IsResponse() bool { return opcodes[o].flags&opResponse != 0 }

// IsReadResponse reports whether o is one of the four READ response opcodes.
func (o Opcode) IsReadResponse() bool { return o >= ReadResponseFirst && o <= ReadResponseOnly }

// Starts reports whether a packet with opcode o is the first or only one of its message.
func (o Opcode) Starts() bool { return opcodes[o].flags&opStart != 0 }

// Ends reports whether a packet with opcode o is the last or only one of its message.
func (o Opcode) Ends() bool { return opcodes[o].flags&opEnd != 0 }

// IsData reports whether o is a data packet for event addressing: a SEND, WRITE or atomic request, or a READ response.
// READ requests, ACKs, atomic ACKs and CNPs are control packets and never change ITER.
func (o Opcode) IsData() bool {
	info := &opcodes[o]
	switch {
	case info.flags&opRequest != 0:
		return o != ReadRequest
	default:
		return o.IsReadResponse()
	}
}

// String returns the name that the specification gives o, without the service prefix.
func (o Opcode) String() string {
	if n := opcodes[o].name; n != "" {
		return n
	}
	return fmt.Sprintf("OPCODE_0x%02x", uint8(o))
}

// Space is one of the two PSN spaces of a directed flow.
type Space uint8

// PSN spaces. READ responses, ACKs and other responses carry the peer's request PSNs.
const (
	Requests  Space = 0
	Responses Space = 1
)

// String names the space.
func (s Space) String() string {
	if s == Requests {
		return "requests"
	}
	return "responses"
}

// Space returns the PSN space of packets with opcode o. A CNP has no PSN; it counts as a request, and its class
// separates it from events on data.
func (o Opcode) Space() Space {
	if o.IsResponse() {
		return Responses
	}
	return Requests
}
