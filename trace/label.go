package trace

import (
	"cmp"
	"slices"

	"candela.dev/candela/packet"
)

// FlowLabel is an IPv6 flow label that packets of a flow carry. CNPs do not count: NICs make them apart from their
// queue pairs.
type FlowLabel struct {
	Flow   FlowID
	Label  uint32
	ID     uint64 // of the first packet with it
	TimeNS int64  // of that packet
}

// maxLabels bounds the memory for a capture with a label for each packet.
const maxLabels = 1 << 12

// labels are the flow labels of a capture. A frame of a template has that of the frame which made the template, so that
// only frames which are decoded field by field are looked at.
type labels struct {
	seen map[labelKey]bool
	list []labelled
}

type labelKey struct {
	flow  flowKey
	label uint32
}

type labelled struct {
	key flowKey
	FlowLabel
}

// note keeps the label of a frame that was decoded field by field.
func (l *labels) note(frame []byte, s *span, key *flowKey, r *Record) {
	if key.qpn&flowKeyV6 == 0 || r.Opcode == packet.CNP || len(l.list) == maxLabels {
		return
	}
	label := be32(frame[s.l3:]) & 0xfffff
	of := labelKey{*key, label}
	if l.seen[of] {
		return
	}
	if l.seen == nil {
		l.seen = make(map[labelKey]bool)
	}
	l.seen[of] = true
	l.list = append(l.list, labelled{*key, FlowLabel{Label: label, ID: r.ID, TimeNS: r.TimeNS}})
}

// of lists the labels of known flows, by packet.
func (l *labels) of(c *Connections) (list []FlowLabel) {
	for i := range l.list {
		x := &l.list[i]
		x.Flow = c.flows.find(&x.key)
		if x.Flow != NoFlow {
			list = append(list, x.FlowLabel)
		}
	}
	slices.SortStableFunc(list, func(a, b FlowLabel) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
