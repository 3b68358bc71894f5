package oracle

import (
	"cmp"
	"net/netip"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// MTU of every trace made here.
const MTU = 1024

// Initial PSNs lie close below the wrap, so that most traces cross it.
const (
	requesterIPSN packet.PSN = 0xfffffd
	responderIPSN packet.PSN = 0x000100
)

const (
	remoteKey   = 0x1234
	baseAddress = 1 << 32
)

// Connections returns the document of the one connection that traces made here have.
func Connections() *trace.Connections {
	c, err := trace.NewConnections([]trace.Connection{{
		Index: 1, Verbs: []string{"write", "write-imm", "send", "send-imm", "read", "compare-swap", "fetch-add",
			"send-invalidate"}, MTU: MTU,
		Requester: trace.Side{IP: netip.AddrFrom4([4]byte{10, 0, 0, 1}), QPN: 0x100, IPSN: requesterIPSN},
		Responder: trace.Side{IP: netip.AddrFrom4([4]byte{10, 0, 0, 2}), QPN: 0x200, IPSN: responderIPSN},
	}})
	if err != nil {
		panic("oracle: " + err.Error()) // the list above is wrong
	}
	return c
}

// Records returns the trace as analyzers see it.
func (t *Trace) Records() []trace.Record {
	records := make([]trace.Record, len(t.Packets))
	sent := map[int]int{} // frames that were sent, at the first tap of a pair
	for i := range t.Packets {
		p := &t.Packets[i]
		records[i] = p.record(uint64(i + 1))
		switch {
		case p.Frame == 0:
		case p.Seen == trace.Sent:
			sent[p.Frame] = i
			records[i].Event = trace.EventDrop // until it passes
		default:
			if k, ok := sent[p.Frame]; ok && records[k].Event == trace.EventDrop { // else it is a copy
				records[i].ID, records[k].Event = records[k].ID, trace.EventNone
				if t.overtaken(k, i) {
					records[k].Event = trace.EventReorder
				}
			}
		}
	}
	return records
}

// overtaken reports whether a frame of the same direction that was sent after packet sent passed before packet passed.
func (t *Trace) overtaken(sent, passed int) bool {
	for i := range t.Packets[:passed] {
		p := &t.Packets[i]
		if p.Seen != trace.Passed || p.Back != t.Packets[sent].Back || p.Frame == 0 {
			continue
		}
		for k := sent + 1; k < i; k++ {
			if q := &t.Packets[k]; q.Seen == trace.Sent && q.Frame == p.Frame {
				return true
			}
		}
	}
	return false
}

// matchTaps numbers the frames of a pair of taps: a frame that passed is the oldest equal one of its direction that was
// sent and has not passed.
func (t *Trace) matchTaps() {
	for i := range t.Packets {
		p := &t.Packets[i]
		switch p.Seen {
		case trace.Sent:
			p.Frame = i + 1
		case trace.Passed:
			p.Frame = t.mate(p, t.Packets[:i])
		default: // of a single tap or a mirror
		}
	}
}

// mate returns the number of the frame that p is: the oldest that has not passed and was not overtaken, else the
// oldest, else the latest, of which p is a copy; 0 if it was not sent.
func (t *Trace) mate(p *Packet, before []Packet) int {
	oldest, latest := 0, 0
	for k := range before {
		q := before[k]
		if q.Seen != trace.Sent {
			continue
		}
		frame := q.Frame
		if q.Seen, q.TimeNS, q.Frame = p.Seen, p.TimeNS, p.Frame; q != *p {
			continue
		}
		latest = k + 1
		switch {
		case t.passed(frame):
		case !t.overtaken(k, len(before)):
			return k + 1
		case oldest == 0:
			oldest = k + 1
		}
	}
	return cmp.Or(oldest, latest)
}

func (t *Trace) passed(frame int) bool {
	for i := range t.Packets {
		if t.Packets[i].Seen == trace.Passed && t.Packets[i].Frame == frame {
			return true
		}
	}
	return false
}

// Checked returns the trace for analyzers.
func (t *Trace) Checked(c *trace.Connections) *trace.Checked {
	meta := trace.Meta{Kind: trace.KindMirror, Connections: c, ICRCCheckable: true, EventsKnown: true}
	switch {
	case t.View.Plain:
		meta.Kind, meta.EventsKnown = trace.KindPlain, false
	case t.pair():
		meta.Kind = trace.KindPair
	}
	meta.ClockUncertaintyNS = t.View.ClockNS
	meta.Complete = t.View.Complete || meta.Kind != trace.KindPlain // two taps that agree vouch for each other
	return trace.CheckedRecords(meta, t.Records())
}

// Tap names the kind of tap that made the trace.
func (t *Trace) Tap() string {
	switch {
	case t.View.Plain:
		return "plain"
	case t.pair():
		return "pair"
	default:
		return "mirror"
	}
}

func (t *Trace) pair() bool {
	for i := range t.Packets {
		if t.Packets[i].Seen != trace.Sent|trace.Passed {
			return true
		}
	}
	return false
}

func (p *Packet) record(id uint64) trace.Record {
	r := trace.Record{
		ID: id, TimeNS: p.TimeNS, PSN: packet.NewPSN(int64(p.ipsn()) + int64(p.PSN)), Flow: trace.NewFlowID(1, p.Back),
		Opcode: p.Op, Flags: p.Seen, PKey: trace.DefaultPKey, ICRC: packet.ICRCValid, ECN: packet.ECT0, DestQP: 0x200,
	}
	if p.Back {
		r.DestQP = 0x100
	}
	if p.Lost && p.Seen&trace.Sent != 0 {
		r.Event = trace.EventDrop
	}
	if p.AckReq {
		r.Flags |= trace.AckReq
	}
	headers := p.Op.Headers()
	if headers&packet.HasRETH != 0 {
		r.Flags |= trace.HasRETH
		r.VA, r.RKey, r.DMALen = p.VA, remoteKey, uint32(max(0, p.Count*MTU-p.Short))
	}
	if headers&packet.HasAtomicETH != 0 {
		r.VA, r.RKey = p.VA, remoteKey
	}
	if headers&packet.HasAETH != 0 {
		r.Flags |= trace.HasAETH
		r.Syndrome, r.MSN = p.Syndrome, uint32(p.MSN)&0xffffff
	}
	if headers&packet.HasAtomicAckETH != 0 {
		r.VA = p.VA
	}
	if p.payload() {
		r.PayloadLen = uint16(max(0, MTU-p.Lacks))
		r.PadCount = uint8(-r.PayloadLen & 3)
	}
	return r
}

// ipsn is the initial PSN of the requests that the packet belongs to.
func (p *Packet) ipsn() packet.PSN {
	if p.other() {
		return responderIPSN
	}
	return requesterIPSN
}

// OtherPSN reports whether a PSN on the wire belongs to the requests of the second host.
func OtherPSN(psn uint32) bool { return packet.PSN(psn).Sub(responderIPSN) > -64 }

// payload reports whether the packet may carry data.
func (p *Packet) payload() bool {
	switch p.Op.Verb() {
	case packet.VerbSend, packet.VerbWrite:
		return true
	default:
		return p.Op.IsReadResponse()
	}
}

// FromRecords returns what the oracle sees of one connection of a trace, without packets that it does not judge, such
// as CNPs.
func FromRecords(records []trace.Record, c *trace.Connection, view View) *Trace {
	t := &Trace{View: view}
	near := map[bool]int{} // by whose requests
	for i := range records {
		r := &records[i]
		if r.Flow.Connection() != c.Index || !r.Opcode.Known() || r.Opcode == packet.CNP {
			continue
		}
		other := r.Opcode.IsRequest() == r.Flow.Reverse()
		ipsn := c.Requester.IPSN
		if other {
			ipsn = c.Responder.IPSN
		}
		at := packet.NewPSN(int64(ipsn) + int64(near[other]))
		p := Packet{
			TimeNS: r.TimeNS, Back: r.Flow.Reverse(), Op: r.Opcode, PSN: near[other] + r.PSN.Sub(at),
			AckReq:   r.Has(trace.AckReq),
			Syndrome: r.Syndrome, MSN: int(r.MSN), VA: r.VA, Seen: r.Flags & (trace.Sent | trace.Passed),
			Lost: !r.Delivered() && r.Has(trace.Passed),
		}
		if r.Has(trace.HasRETH) {
			p.Count = (int(r.DMALen) + c.MTU - 1) / c.MTU
			p.Short = p.Count*c.MTU - int(r.DMALen)
		}
		if p.payload() {
			p.Lacks = c.MTU - int(r.PayloadLen)
		}
		if view.Plain {
			p.Seen, p.Lost = trace.Sent|trace.Passed, r.ICRC == packet.ICRCInvalid
		}
		near[other] = p.PSN
		t.Packets = append(t.Packets, p)
	}
	return t
}
