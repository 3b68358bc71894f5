package packet

import "fmt"

// RewriteField names a header field that the action rewrite of software targets can set (injector contract). The
// numbers are those of the action's parameter.
type RewriteField uint8

// Fields that can be rewritten.
const (
	RewriteNone      RewriteField = iota
	RewriteDSCP                   // IPv4 type of service or IPv6 traffic class, upper six bits
	RewriteECN                    // the same, lower two bits
	RewriteHopLimit               // IPv4 time to live or IPv6 hop limit
	RewriteSrcPort                // UDP source port
	RewriteDestQP                 // BTH destination QP
	RewriteAckReq                 // BTH acknowledge request
	RewritePSN                    // BTH packet sequence number
	RewriteSyndrome               // AETH syndrome, in packets that have an AETH
	RewriteMSN                    // AETH message sequence number, in packets that have an AETH
	RewriteOpcode                 // BTH opcode, by one of the same direction that has the same extended headers
	RewritePKey                   // BTH partition key
	RewriteSolicited              // BTH solicited event
	RewriteRKey                   // RETH or AtomicETH remote key, in packets that have one
	RewriteDMALength              // RETH length in bytes, in packets that have a RETH
	numRewriteFields
)

var rewriteFields = [numRewriteFields]struct {
	name string
	bits int
}{
	{"none", 0}, {"dscp", 6}, {"ecn", 2}, {"hop-limit", 8}, {"src-port", 16}, {"dest-qpn", 24}, {"ack-req", 1},
	{"psn", 24},
	{"syndrome", 8}, {"msn", 24}, {"opcode", 8}, {"p-key", 16}, {"solicited", 1}, {"rkey", 32}, {"dma-length", 32},
}

// RewriteFields returns all fields that can be rewritten.
func RewriteFields() []RewriteField {
	list := make([]RewriteField, 0, numRewriteFields-1)
	for f := RewriteDSCP; f < numRewriteFields; f++ {
		list = append(list, f)
	}
	return list
}

// String returns the field in the words of the configuration.
func (f RewriteField) String() string {
	if f < numRewriteFields {
		return rewriteFields[f].name
	}
	return fmt.Sprintf("field(%d)", uint8(f))
}

// Bits returns the width of the field, 0 for an unknown one.
func (f RewriteField) Bits() int {
	if f < numRewriteFields {
		return rewriteFields[f].bits
	}
	return 0
}

// Offers reports whether p has the field and it can be set to v: headers are neither added nor removed.
func (p *Packet) Offers(f RewriteField, v uint64) bool {
	if !p.IsRoCE() || f.Bits() == 0 {
		return false
	}
	switch f {
	case RewriteSyndrome, RewriteMSN:
		return p.Headers&HasAETH != 0
	case RewriteRKey:
		return p.Headers&(HasRETH|HasAtomicETH) != 0
	case RewriteDMALength:
		return p.Headers&HasRETH != 0
	case RewriteOpcode:
		op := Opcode(v)
		return op.Headers() == p.BTH.Opcode.Headers() &&
			(op.IsRequest() && p.BTH.Opcode.IsRequest() || op.IsResponse() && p.BTH.Opcode.IsResponse())
	case RewriteNone, RewriteDSCP, RewriteECN, RewriteHopLimit, RewriteSrcPort, RewriteDestQP, RewriteAckReq, RewritePSN,
		RewritePKey, RewriteSolicited, numRewriteFields:
	}
	return true
}

// Rewrite sets a field to the low bits of v, as if the sender had sent it: checksums and iCRC are updated, unless they
// were wrong before. It reports whether p has the field. Fields that the packet lacks, such as the syndrome without
// AETH, are not added.
func (p *Packet) Rewrite(f RewriteField, v uint64) bool {
	v &= 1<<f.Bits() - 1
	if !p.Offers(f, v) {
		return false
	}
	// A derived packet is right by definition, so a right one may become derived.
	if !p.Derived && !p.Truncated() && p.CheckICRC() == ICRCValid {
		p.Derived = true
	}
	switch f {
	case RewriteDSCP:
		p.SetDSCP(uint8(v))
	case RewriteECN:
		p.SetECN(ECN(v))
	case RewriteHopLimit:
		p.setHopLimit(uint8(v))
	case RewriteSrcPort:
		p.UDP.SrcPort = uint16(v)
	default:
		p.rewriteTransport(f, v)
	}
	return true
}

// rewriteTransport sets a field of the transport headers.
func (p *Packet) rewriteTransport(f RewriteField, v uint64) {
	switch f {
	case RewriteDestQP:
		p.BTH.DestQP = QPN(v)
	case RewriteAckReq:
		p.BTH.AckReq = v == 1
	case RewritePSN:
		p.BTH.PSN = PSN(v)
	case RewriteSyndrome:
		p.AETH.Syndrome = Syndrome(v)
	case RewriteMSN:
		p.AETH.MSN = uint32(v)
	case RewriteOpcode:
		p.BTH.Opcode = Opcode(v)
	case RewritePKey:
		p.BTH.PKey = uint16(v)
	case RewriteSolicited:
		p.BTH.Solicited = v == 1
	case RewriteRKey:
		p.RETH.RKey, p.AtomicETH.RKey = p.otherKey(uint32(v))
	case RewriteDMALength:
		p.RETH.Length = uint32(v)
	default:
	}
}

// otherKey returns the remote keys of RETH and AtomicETH after key has replaced that of the header that p has.
func (p *Packet) otherKey(key uint32) (reth, atomic uint32) {
	if p.Headers&HasRETH != 0 {
		return key, p.AtomicETH.RKey
	}
	return p.RETH.RKey, key
}

// setHopLimit sets the IPv4 time to live or IPv6 hop limit and keeps an explicit IPv4 header checksum right.
func (p *Packet) setHopLimit(v uint8) {
	if p.IP.Version == 4 && !p.Derived {
		word := uint16(p.IP.Protocol)
		p.IP.Checksum = updateChecksum(p.IP.Checksum, uint16(p.IP.TTL)<<8|word, uint16(v)<<8|word)
	}
	p.IP.TTL = v
}

// CorruptPayload flips the bits xor of the payload byte at offset, so that only the iCRC is wrong: a non-zero UDP
// checksum is updated. It reports whether there is such a byte. Afterwards p is explicit and owns its payload; it
// allocates.
func (p *Packet) CorruptPayload(offset int, xor uint8) bool {
	if !p.IsRoCE() || offset < 0 || offset >= len(p.Payload) || xor == 0 {
		return false
	}
	p.Seal()
	p.Payload = append([]byte(nil), p.Payload...)
	old := p.Payload[offset]
	p.Payload[offset] ^= xor
	if p.UDP.Checksum != 0 {
		shift := 8 * uint(1-offset&1) // headers before the payload have an even length
		p.UDP.Checksum = transmitted(updateChecksum(p.UDP.Checksum, uint16(old)<<shift, uint16(p.Payload[offset])<<shift))
	}
	return true
}
