package packet

import (
	"encoding/binary"
	"fmt"
)

// UDSendOnly is the opcode of datagrams, management datagrams (MADs) among them.
const UDSendOnly Opcode = 0x64

// GSI is the general services queue pair, which receives MADs of the connection manager.
const GSI QPN = 1

// CMAttribute is the kind of a message of the connection manager: the attribute of its MAD (IBTA volume 1, 12.6.1).
type CMAttribute uint16

// Messages of the connection manager.
const (
	CMConnectRequest    CMAttribute = 0x10 // REQ
	CMMessageReceipt    CMAttribute = 0x11 // MRA
	CMReject            CMAttribute = 0x12 // REJ
	CMConnectReply      CMAttribute = 0x13 // REP
	CMReadyToUse        CMAttribute = 0x14 // RTU
	CMDisconnectRequest CMAttribute = 0x15 // DREQ
	CMDisconnectReply   CMAttribute = 0x16 // DREP
	CMResolveRequest    CMAttribute = 0x17 // SIDR_REQ
	CMResolveReply      CMAttribute = 0x18 // SIDR_REP
	CMLoadAlternatePath CMAttribute = 0x19 // LAP
	CMAlternatePathResp CMAttribute = 0x1a // APR
)

var cmNames = map[CMAttribute]string{
	CMConnectRequest: "REQ", CMMessageReceipt: "MRA", CMReject: "REJ", CMConnectReply: "REP", CMReadyToUse: "RTU",
	CMDisconnectRequest: "DREQ",
	CMDisconnectReply:   "DREP", CMResolveRequest: "SIDR_REQ", CMResolveReply: "SIDR_REP", CMLoadAlternatePath: "LAP",
	CMAlternatePathResp: "APR",
}

// String returns the name of the specification.
func (a CMAttribute) String() string {
	if n, ok := cmNames[a]; ok {
		return n
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(a))
}

// A CM is a message of the connection manager. Which fields it has depends on the attribute; the others are zero.
type CM struct {
	Attribute         CMAttribute
	LocalID, RemoteID uint32 // communication ids of sender and receiver; of SIDR messages LocalID is the request's
	QPN               QPN    // of the sender; of a DREQ the receiver's
	// StartingPSN is the first PSN that the receiver of the message sends: REQ and REP.
	StartingPSN PSN
	MTU         uint16 // bytes; REQ
	Timeout     uint8  // local ACK timeout exponent; REQ
	Retry       uint8  // retry_cnt; REQ
	RNRRetry    uint8  // rnr_retry of the receiver's requests; REQ and REP
	Service     uint8  // 0 RC, 1 UC, 2 RD, 3 by extended type; REQ
	Reason      uint16 // why a REJ rejects; of a SIDR_REP the status
}

// Lengths of a connection manager's message in a datagram.
const (
	dethLen   = 8
	madHead   = 24
	cmLen     = 232
	cmClass   = 7
	cmVersion = 2
	madSend   = 3
)

// MADLen is the length of DETH and MAD after the BTH.
const MADLen = dethLen + madHead + cmLen

// cmNeeds is how much of a message must be captured.
var cmNeeds = map[CMAttribute]int{
	CMConnectRequest: 96, CMMessageReceipt: 10, CMReject: 12, CMConnectReply: 28, CMReadyToUse: 8, CMDisconnectRequest: 12,
	CMDisconnectReply: 8,
	CMResolveRequest:  4, CMResolveReply: 12, CMLoadAlternatePath: 8, CMAlternatePathResp: 8,
}

// ParseCM decodes the connection manager message in a datagram to the GSI; b starts after the BTH. ok is false if there
// is none, or if too little of it was captured (IBTA volume 1, 12.6; 13.4.3 for the MAD header).
func ParseCM(b []byte) (c CM, ok bool) {
	if len(b) < dethLen+madHead {
		return c, false
	}
	mad := b[dethLen:]
	if mad[0] != 1 || mad[1] != cmClass || mad[2] != cmVersion || mad[3] != madSend {
		return c, false
	}
	c.Attribute = CMAttribute(binary.BigEndian.Uint16(mad[16:]))
	m := mad[madHead:]
	need, known := cmNeeds[c.Attribute]
	if !known || len(m) < need {
		return CM{}, false
	}
	c.LocalID = binary.BigEndian.Uint32(m)
	if need >= 8 && c.Attribute != CMConnectRequest && c.Attribute != CMResolveReply {
		c.RemoteID = binary.BigEndian.Uint32(m[4:])
	}
	switch c.Attribute {
	case CMConnectRequest:
		c.request(m)
	case CMConnectReply:
		c.QPN, c.StartingPSN = QPN(uint24(m[12:])), PSN(uint24(m[20:]))
		c.RNRRetry = m[27] >> 5
	case CMDisconnectRequest:
		c.QPN = QPN(uint24(m[8:]))
	case CMReject:
		c.Reason = binary.BigEndian.Uint16(m[10:])
	case CMResolveReply:
		c.Reason, c.QPN = uint16(m[4]), QPN(uint24(m[8:]))
	default:
	}
	return c, true
}

// request decodes what only a REQ has.
func (c *CM) request(m []byte) {
	c.QPN, c.StartingPSN = QPN(uint24(m[32:])), PSN(uint24(m[44:]))
	c.Service, c.Retry = m[43]>>1&3, m[47]&7
	if code := m[50] >> 4; code >= 1 && code <= 5 {
		c.MTU = 128 << code
	}
	c.RNRRetry, c.Timeout = m[50]&7, m[95]>>3
}

// AppendCM appends DETH and MAD of a message to b, for tests and models; fields that c does not have are zero.
func (c *CM) AppendCM(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, MADLen)...)
	binary.BigEndian.PutUint32(b[at:], 0x80010000) // the well-known queue key of the GSI
	put24(b[at+5:], uint32(GSI))
	mad := b[at+dethLen:]
	mad[0], mad[1], mad[2], mad[3] = 1, cmClass, cmVersion, madSend
	binary.BigEndian.PutUint64(mad[8:], uint64(c.LocalID)+1) // transaction
	binary.BigEndian.PutUint16(mad[16:], uint16(c.Attribute))
	m := mad[madHead:]
	binary.BigEndian.PutUint32(m, c.LocalID)
	if c.Attribute != CMConnectRequest && c.Attribute != CMResolveRequest && c.Attribute != CMResolveReply {
		binary.BigEndian.PutUint32(m[4:], c.RemoteID)
	}
	switch c.Attribute {
	case CMConnectRequest:
		put24(m[32:], uint32(c.QPN))
		put24(m[44:], uint32(c.StartingPSN))
		m[43], m[47] = c.Service<<1, c.Retry&7
		for code := byte(1); code <= 5; code++ {
			if c.MTU == 128<<code {
				m[50] = code << 4
			}
		}
		m[50] |= c.RNRRetry & 7
		m[95] = c.Timeout << 3
	case CMConnectReply:
		put24(m[12:], uint32(c.QPN))
		put24(m[20:], uint32(c.StartingPSN))
		m[27] = c.RNRRetry << 5
	case CMDisconnectRequest:
		put24(m[8:], uint32(c.QPN))
	case CMReject:
		binary.BigEndian.PutUint16(m[10:], c.Reason)
	case CMResolveReply:
		m[4] = byte(c.Reason)
		put24(m[8:], uint32(c.QPN))
	default:
	}
	return b
}

func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func put24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }

// cmReasons names the reasons of a REJ that applications meet (IBTA volume 1, table 117).
var cmReasons = map[uint16]string{
	1: "no QP", 2: "no end-to-end context", 3: "no resources", 4: "timeout", 5: "unsupported request",
	6: "invalid communication id",
	7: "invalid communication instance", 8: "invalid service id", 9: "invalid transport service type",
	10: "stale connection", 17: "invalid path MTU",
	28: "rejected by the consumer",
}

// String returns the message in words.
func (c *CM) String() string {
	s := fmt.Sprintf("%v id 0x%08x", c.Attribute, c.LocalID)
	if c.RemoteID != 0 {
		s += fmt.Sprintf(" of 0x%08x", c.RemoteID)
	}
	switch c.Attribute {
	case CMConnectRequest:
		services := [...]string{"RC", "UC", "RD", "extended"}
		s += fmt.Sprintf(" %s qpn %d psn %d mtu %d timeout %d retry %d rnr-retry %d",
			services[c.Service&3], uint32(c.QPN), uint32(c.StartingPSN), c.MTU, c.Timeout, c.Retry, c.RNRRetry)
	case CMConnectReply:
		s += fmt.Sprintf(" qpn %d psn %d rnr-retry %d", uint32(c.QPN), uint32(c.StartingPSN), c.RNRRetry)
	case CMDisconnectRequest:
		s += fmt.Sprintf(" qpn %d", uint32(c.QPN))
	case CMReject:
		s += fmt.Sprintf(" reason %d", c.Reason)
		if n := cmReasons[c.Reason]; n != "" {
			s += " (" + n + ")"
		}
	case CMResolveReply:
		s += fmt.Sprintf(" qpn %d status %d", uint32(c.QPN), c.Reason)
	default:
	}
	return s
}
