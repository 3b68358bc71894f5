package rdma

import "candela.dev/candela/packet"

// undefinedOpcode is not defined for reliable connections.
const undefinedOpcode packet.Opcode = 0x15

// ecnBits is the mask of ECN in the type of service.
const ecnBits = 3

// spoilFields applies faults to single fields of a request or a READ response.
func (q *QP) spoilFields(p *packet.Packet, response bool) {
	bugs := q.nic.bugs
	const sixteen = 16
	if bugs.Has(BugMigReqChanges) && p.BTH.PSN%sixteen == sixteen-1 {
		p.BTH.MigReq = !p.BTH.MigReq
	}
	if response {
		return
	}
	if bugs.Has(BugVersionSet) {
		p.BTH.Version = 1
	}
	if bugs.Has(BugReservedSet) && p.BTH.AckReq {
		p.BTH.Resv7 = 1
	}
	if bugs.Has(BugFECNSet) {
		p.BTH.FECN = true
	}
	if bugs.Has(BugAtomicMisaligned) && p.Headers&packet.HasAtomicETH != 0 {
		const half = 4
		p.AtomicETH.VA += half
	}
}

// spoilAckFields applies faults to single fields of an acknowledgement.
func (q *QP) spoilAckFields(p *packet.Packet) {
	bugs := q.nic.bugs
	if p.BTH.Opcode != packet.Acknowledge {
		return
	}
	if bugs.Has(BugAckSolicited) {
		p.BTH.Solicited = true
	}
	if bugs.Has(BugAckAsksAck) {
		p.BTH.AckReq = true
	}
	if bugs.Has(BugAckDSCP) {
		p.IP.TOS &= ecnBits
	}
	if bugs.Has(BugAckPayload) {
		p.Payload = make([]byte, 4)
	}
	const every = 4
	if q.mischief.oddAcks++; q.mischief.oddAcks%every == 0 && bugs.Has(BugUndefinedOpcode) {
		p.BTH.Opcode, p.Headers = undefinedOpcode, packet.HasBTH
	}
}
