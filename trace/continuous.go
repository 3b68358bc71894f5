package trace

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"candela.dev/candela/packet"
	"candela.dev/candela/packet/encapsulation"
)

// Continuous reports whether files are parts of one capture: of one link type, one after the other in time, and without repeating each
// other's packets. Captures of two places with clocks far apart do not overlap in time, but repeat nearly every packet.
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
	packets         map[fingerprint]bool // the first RoCE packets
}

// fingerprint tells RoCE packets of one capture apart, and is the same wherever a packet is captured.
type fingerprint struct {
	key        flowKey
	psn        packet.PSN
	opcode     packet.Opcode
	syndrome   packet.Syndrome
	payload    uint16
	msn        uint32
	address    uint64
	sourcePort uint16
}

// fingerprints is how many packets of a file are remembered.
const fingerprints = 4096

func measure(ctx context.Context, src Source) (extent, error) {
	e := extent{packets: map[fingerprint]bool{}}
	dec := NewDecoder(FormatPlain, nil, false)
	err := src.ForEachFrame(ctx, func(f *Frame) error {
		if e.frames == 0 {
			e.firstNS, e.link = f.TimeNS, f.Link
		}
		e.frames++
		e.lastNS = max(e.lastNS, f.TimeNS)
		var r Record
		if len(e.packets) < fingerprints && dec.Decode(f, &r) == nil {
			e.packets[fingerprint{dec.key, r.PSN, r.Opcode, r.Syndrome, r.PayloadLen, r.MSN, r.VA, dec.srcPort}] = true
		}
		return nil
	})
	if errors.Is(err, ErrTruncatedFile) {
		err = nil // the analysis says so
	}
	return e, err
}

// repeats reports whether nearly all packets of one file are also among those of the other. Retransmissions are in both, too, but not so many.
func (e *extent) repeats(other *extent) bool {
	same := 0
	for p := range e.packets {
		if other.packets[p] {
			same++
		}
	}
	return same > 0 && 10*same >= 9*min(len(e.packets), len(other.packets))
}
