package trace

import "candela.dev/candela/packet"

// templated does for a mirror copy of a template what decoding it to a record and adding that does (a test compares the two), or returns
// false, with nothing done, where there is more to say of it.
func (s *scan) templated(f *Frame) bool {
	data := f.Data
	var words [templateWords]uint64
	hash, ok := templateKey(data, &words)
	if !ok {
		return false
	}
	index := s.dec.templates.find(&words, len(data), hash)
	if index < 0 {
		return false
	}
	t := &s.dec.templates.list[index]
	at := t.span.l4 + packet.UDPLen + packet.BTHLen
	ack, event := be32(data[at-4:]), EventType(data[t.ttl])
	if !t.agrees || t.ext > extAETH || t.imm != 0 || ack>>24&reservedAck != 0 || event > MaxEventType || !checksumHolds(data[packet.EthernetLen:]) {
		return false
	}
	icrc := packet.ICRCNotCheckable
	if s.dec.withICRC && t.span.missing == 0 {
		if icrc = checkICRC(data, &t.span); icrc == packet.ICRCInvalid {
			return false
		}
	}
	s.dec.template = index
	s.packets++
	id, ns := uint48(data[6:12]), s.dec.clock.Unwrap(uint48(data))
	word := uint64(index)<<48 | uint64(ack&maxUint24)<<24 | uint64(icrc)<<recordedICRC | uint64(event)<<recordedEvent | uint64(ack>>31)*recordedAckReq
	s.recording.addTemplated(s.dec, f.Number, word, id, ns, data[at:])
	s.copies.events[event]++
	if !s.icrc.add(icrc) && !s.icrc.trusted() {
		s.dec.withICRC = false
	}
	if s.index != nil {
		s.index.add(f, ns)
	}
	if s.packets == 1 {
		s.startNS, s.endNS = ns, ns
	}
	s.startNS, s.endNS = min(s.startNS, ns), max(s.endNS, ns)
	if t.record.Flow == NoFlow {
		s.unknown++
	}
	s.seq.add(id, f.Number)
	s.time.follow(id, ns, s.time.latest-s.time.tolerance, f.Number)
	return true
}

// takesTemplated reports whether the conditions on mirror copies are all that the scan wants to know.
func (s *scan) takesTemplated() bool {
	return s.o.Format == FormatMirror && s.inference == nil && s.recording != nil && s.time.perWay == nil
}
