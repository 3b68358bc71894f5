package trace

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"candela.dev/candela/packet"
	"candela.dev/candela/packet/encapsulation"
)

// Continuous reports whether files are parts of one capture: of one link type, one after the other in time, and without
// the same packets. Captures of two places with very different clocks do not overlap in time, but have nearly the same
// packets.
func Continuous(ctx context.Context, parts []Source) (bool, error) {
	var list []extent
	for _, p := range parts {
		e, err := measure(ctx, p)
		if err != nil {
			return false, err
		}
		if e.frames > 0 {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b extent) int { return cmp.Compare(a.firstNS, b.firstNS) })
	for i := 1; i < len(list); i++ {
		if list[i].link != list[0].link || list[i].firstNS < list[i-1].lastNS-maxDisorderNS {
			return false, nil
		}
		for j := range i {
			if list[i].repeats(&list[j]) {
				return false, nil
			}
		}
	}
	return true, nil
}

// extent is what decides whether a file continues another.
type extent struct {
	frames          int64
	firstNS, lastNS int64
	link            encapsulation.Link
	packets         map[fingerprint]int64 // the first RoCE packets, and when each of them was seen first
}

// fingerprint distinguishes RoCE packets of one capture, and is the same wherever a packet is captured.
type fingerprint struct {
	key        flowKey
	psn        packet.PSN
	opcode     packet.Opcode
	syndrome   packet.Syndrome
	payload    uint16
	msn        uint32
	address    uint64
	sourcePort uint16
	id         uint16 // IPv4 identification; 0: none
}

// fingerprints is how many packets of a file are remembered.
const fingerprints = 4096

func measure(ctx context.Context, src Source) (extent, error) {
	e := extent{packets: map[fingerprint]int64{}}
	dec := NewDecoder(FormatPlain, nil, false)
	err := src.ForEachFrame(ctx, func(f *Frame) error {
		if e.frames == 0 {
			e.firstNS, e.link = f.TimeNS, f.Link
		}
		e.frames++
		e.lastNS = max(e.lastNS, f.TimeNS)
		var r Record
		if len(e.packets) < fingerprints && dec.Decode(f, &r) == nil {
			p := fingerprint{dec.key, r.PSN, r.Opcode, r.Syndrome, r.PayloadLen, r.MSN, r.VA, dec.srcPort,
				identification(f.Data)}
			if _, seen := e.packets[p]; !seen {
				e.packets[p] = f.TimeNS
			}
		}
		return nil
	})
	if errors.Is(err, ErrTruncatedFile) {
		err = nil // the analysis says so
	}
	return e, err
}

// identification returns the IPv4 identification of a RoCE packet, or 0.
func identification(frame []byte) uint16 {
	at, ok, _ := locateRoCE(frame, packet.Port)
	if !ok || frame[at.l3]>>4 != 4 {
		return 0
	}
	return be16(frame[at.l3+4:])
}

// repeats reports whether nearly all packets of one file are also in the other. Captures that were cut share only a
// part: a quarter is enough if IPv4 identifications, or equal time differences of packets in both directions, show that
// they are not retransmissions.
func (e *extent) repeats(other *extent) bool {
	same, identified := 0, map[uint16]bool{}
	// of the common packets: the least and greatest time difference, and the first and last time
	var apart, span [2]int64
	var ways [2]bool
	for p, at := range e.packets {
		there, ok := other.packets[p]
		if !ok {
			continue
		}
		if d := there - at; same == 0 {
			apart, span = [2]int64{d, d}, [2]int64{at, at}
		} else {
			apart, span = [2]int64{min(apart[0], d), max(apart[1], d)}, [2]int64{min(span[0], at), max(span[1], at)}
		}
		same++
		identified[p.id] = p.id != 0
		ways[bit(p.opcode.IsResponse())] = true
	}
	least := min(len(e.packets), len(other.packets))
	switch {
	case same == 0:
		return false
	case 10*same >= 9*least:
		return true
	case 4*same < least || same < leastRepeated:
		return false
	case len(identified) > 1:
		return len(identified) >= leastRepeated
	}
	return ways[0] && ways[1] && apart[1]-apart[0] <= maxRepeatedJitterNS+int64(2*maxDrift*float64(span[1]-span[0]))
}

const (
	// leastRepeated is how many packets must be in two captures that share a part.
	leastRepeated = 8
	// maxRepeatedJitterNS is how much the time that packets take between two taps may differ.
	maxRepeatedJitterNS = 1_000_000
)
