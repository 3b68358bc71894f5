package trace

import "candela.dev/candela/packet"

// templated does the same as decoding a mirror copy of a template and adding the record (a test compares the two). It
// returns false and does nothing if the frame needs that.
func (s *scan) templated(data []byte, number uint64, offset int64) bool {
	index := s.dec.templates.match(data)
	if index < 0 {
		return false
	}
	t := &s.dec.templates.list[index]
	at := int(t.at)
	ack, event := be32(data[at-4:]), EventType(data[t.ttl])
	if !t.quick || ack>>24&reservedAck != 0 || event > MaxEventType || !t.holds(data) {
		return false
	}
	icrc := packet.ICRCNotCheckable
	if t.whole && s.dec.withICRC {
		if icrc = checkICRC(data, &t.span); icrc == packet.ICRCInvalid {
			return false
		}
		if !s.icrc.add(icrc) && !s.icrc.trusted() {
			s.dec.withICRC = false
		}
	}
	id, ns := uint48(data[6:12]), s.dec.clock.Unwrap(uint48(data))
	word := uint64(index)<<48 | uint64(ack&maxUint24)<<24 | uint64(icrc)<<recordedICRC | uint64(
		event)<<recordedEvent | uint64(ack>>31)*recordedAckReq
	s.recording.addTemplated(t.ext, &s.dec.clock, number, word, id, ns, data[at:])
	s.copies.events[event]++
	if s.index != nil {
		s.index.add(number, offset, ns)
	}
	if s.packets++; s.packets == 1 {
		s.startNS, s.endNS = ns, ns
	}
	s.startNS, s.endNS = min(s.startNS, ns), max(s.endNS, ns)
	if t.stray {
		s.unknown++
	}
	s.seq.add(id, number)
	if s.time.started && ns >= s.time.latest {
		s.time.latest = ns
	} else {
		s.time.follow(id, ns, s.time.latest-s.time.tolerance, number)
	}
	return true
}

// takesTemplated reports whether the scan checks only the conditions on mirror copies.
func (s *scan) takesTemplated() bool {
	return s.o.Format == FormatMirror && s.inference == nil && s.recording != nil && s.time.perWay == nil
}
