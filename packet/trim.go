package packet

import "encoding/binary"

// TrimFlags are the options of a trim (injector contract, action trim).
type TrimFlags uint8

// Trim flags.
const (
	TrimSetDSCP TrimFlags = 1 << iota
	TrimUpdateIPLength
	TrimUpdateUDPLength
)

// TrimmedLen returns the frame length in bytes, without FCS, after Trim to size: that of p if there is nothing to cut.
func (p *Packet) TrimmedLen(size int) int {
	n := p.Len()
	if p.IP.Version == 0 || n-len(p.Trailer) <= p.l2Len()+size {
		return n
	}
	return p.l2Len() + size
}

// Trim cuts p to size bytes counted from the start of the IP header and reports whether it did: a packet that is no
// longer than that, or without IP, passes whole and unmarked. The IPv4 header checksum is updated; a non-zero UDP
// checksum and the iCRC, if it is left, become stale. Length fields change only if flags say so; without
// TrimUpdateIPLength the result is Truncated. Afterwards p is explicit. What a cut through its transport headers left
// of them is Payload; a whole BTH is decoded (CutRoCE). Trim allocates.
func (p *Packet) Trim(size int, dscp uint8, flags TrimFlags) bool {
	length := p.TrimmedLen(size)
	if length == p.Len() {
		return false
	}
	p.Seal()
	if flags&TrimSetDSCP != 0 {
		p.SetDSCP(dscp & 0x3f)
	}
	frame := p.AppendTo(make([]byte, 0, p.Len()))[:length]
	patchLengths(frame[p.l2Len():], p, size, flags)
	if err := p.Parse(frame); err != nil {
		p.keepUndecoded(frame)
	}
	return true
}

// ParseReceived is Parse for a NIC: a RoCEv2 packet that was cut in its extended transport headers is not an error. It
// is CutRoCE, as Trim leaves it.
func (p *Packet) ParseReceived(frame []byte) error {
	err := p.Parse(frame)
	if err == nil || !p.HasUDP {
		return err
	}
	if p.keepUndecoded(frame); p.CutRoCE() {
		return nil
	}
	return err
}

// CutRoCE reports whether p is a RoCEv2 packet that was cut in its extended transport headers: p is not IsRoCE, but BTH
// is whole.
func (p *Packet) CutRoCE() bool {
	return p.Headers == 0 && p.HasUDP && p.UDP.DstPort == Port && len(p.Payload) >= BTHLen
}

// patchLengths updates those length fields of the cut IP packet l3 that flags select and the cut left.
func patchLengths(l3 []byte, p *Packet, size int, flags TrimFlags) {
	ipLen := p.IP.headerLen()
	if flags&TrimUpdateIPLength != 0 && len(l3) >= ipLen {
		if p.IP.Version == 4 {
			binary.BigEndian.PutUint16(l3[2:], uint16(size))
			binary.BigEndian.PutUint16(l3[10:], updateChecksum(p.IP.Checksum, p.IP.Length, uint16(size)))
		} else {
			binary.BigEndian.PutUint16(l3[4:], uint16(size-IPv6Len))
		}
	}
	if flags&TrimUpdateUDPLength != 0 && p.HasUDP && len(l3) >= ipLen+UDPLen {
		binary.BigEndian.PutUint16(l3[ipLen+4:], uint16(size-ipLen))
	}
}

// keepUndecoded makes the undecoded part of frame the payload, so that p stays byte-exact.
func (p *Packet) keepUndecoded(frame []byte) {
	off := p.l2Len()
	if p.IP.Version != 0 {
		off += p.IP.headerLen()
	}
	if p.HasUDP {
		off += UDPLen
	}
	p.Headers, p.Trailer, p.Payload = 0, nil, frame[off:]
}
