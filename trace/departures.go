package trace

import (
	"context"
	"slices"

	"candela.dev/candela/packet"
)

// A Departure says what the injector did to a packet that it neither simply forwarded nor lost: the parameters of its
// event, which are in entries.json and not in the mirror copy.
type Departure struct {
	Flow  FlowID
	Class packet.Class
	// PSN names the packet; HasPSN is false for control packets addressed by ordinal alone.
	PSN    packet.PSN
	HasPSN bool
	Nth    uint16 // ITER, arrival or ordinal; orders departures of one packet. 0: every one
	Event  EventType

	DelayNS int64               // the packet left so much later than it arrived
	Copies  int                 // so many copies followed it
	Behind  int                 // so many later arrivals on its flow overtook it, within LimitNS
	LimitNS int64               // the most by which it left later, if Behind is not 0
	Field   packet.RewriteField // it left with this field set to Value
	Value   uint64
}

// WithDepartures returns the trace as receivers saw it. The mirror shows packets as they arrived at the injector. A
// packet that was delayed, reordered or rewritten becomes two records: one that was Sent, and one that Passed when,
// where and how it left; a duplicated one gets a Passed record for itself and for each copy. All have ID and Event of
// the mirror copy. A packet whose event departures do not explain is unchanged: sent and passed at the same time.
//
// The result is exact for injectors that release a held packet just before its time is up and directly after the last
// packet that overtakes it, as the virtual testbed does.
func (c *Checked) WithDepartures(departures []Departure) *Checked {
	if len(departures) == 0 {
		return c
	}
	known := make(map[departureKey][]Departure)
	for _, d := range departures {
		k := d.key()
		known[k] = append(known[k], d)
	}
	for _, list := range known {
		slices.SortStableFunc(list, func(a, b Departure) int { return int(a.Nth) - int(b.Nth) })
	}
	return &Checked{meta: c.meta, payloads: c.payloads, stream: func(ctx context.Context, fn func(*Record) error) error {
		s := departing{known: known, used: make(map[departureKey]int), seen: make(map[departureKey]int), fn: fn}
		if err := c.stream(ctx, s.arrive); err != nil {
			return err
		}
		return s.leaveUntil(forever)
	}}
}

// departureKey is what a record shows of the event that met it.
type departureKey struct {
	flow   FlowID
	class  packet.Class
	event  EventType
	psn    packet.PSN
	hasPSN bool
}

func (d *Departure) key() departureKey {
	return departureKey{d.Flow, d.Class, d.Event, d.PSN, d.HasPSN}
}

const forever = 1<<63 - 1

// departing is one pass over a trace with departures.
type departing struct {
	known map[departureKey][]Departure
	used  map[departureKey]int // departures of a data packet that have happened
	seen  map[departureKey]int // arrivals of control packets
	fn    func(*Record) error
	held  Holder[Record] // packets inside the injector, with the times at which they are due
}

// arrive takes the next record of the mirror.
func (s *departing) arrive(r *Record) error {
	if err := s.leaveUntil(r.TimeNS); err != nil {
		return err
	}
	overtaken := s.held.Overtaken(r.Flow)
	if err := s.pass(r); err != nil {
		return err
	}
	for i := range overtaken {
		overtaken[i].TimeNS = r.TimeNS
		if err := s.fn(&overtaken[i]); err != nil {
			return err
		}
	}
	return nil
}

// pass emits r as its event lets it through.
func (s *departing) pass(r *Record) error {
	d := s.departure(r)
	if d == nil {
		return s.fn(r)
	}
	sent, passed := *r, *r
	sent.Flags &^= Passed
	passed.Flags &^= Sent
	if err := s.fn(&sent); err != nil {
		return err
	}
	switch {
	case d.DelayNS > 0:
		s.hold(passed, r.TimeNS+d.DelayNS, 0)
		return nil
	case d.Behind > 0:
		s.hold(passed, r.TimeNS+d.LimitNS, d.Behind)
		return nil
	}
	passed.rewrite(d.Field, d.Value)
	for range d.Copies + 1 {
		copied := passed // analyzers may keep what they change in a record
		if err := s.fn(&copied); err != nil {
			return err
		}
	}
	return nil
}

// departure returns what is known of the event of r; nil: nothing, or it had none that matters here.
func (s *departing) departure(r *Record) *Departure {
	k := departureKey{r.Flow, r.Class(), r.Event, r.PSN, true}
	inOrder := k
	inOrder.psn, inOrder.hasPSN = 0, false
	var nth, nthOfPSN int
	if k.class != packet.ClassData { // data packets are identified by ITER
		nth, nthOfPSN = s.count(inOrder), s.count(k)
	}
	if !r.Event.Departs() {
		return nil
	}
	if d := s.find(r, k, nthOfPSN); d != nil {
		return d
	}
	return s.find(r, inOrder, nth)
}

// count counts an arrival by flow, class and PSN, or by flow and class.
func (s *departing) count(k departureKey) int {
	k.event = EventNone
	s.seen[k]++
	return s.seen[k]
}

// find returns the departure of a packet's nth arrival; nth 0: of the next ITER that has one.
func (s *departing) find(r *Record, k departureKey, nth int) *Departure {
	list := s.known[k]
	if len(list) == 0 {
		return nil
	}
	if nth == 0 {
		i := s.used[k]
		for i < len(list)-1 && !list[i].offered(r) {
			i++ // its packet went on as it was, and the mirror shows no event
		}
		s.used[k] = i + 1
		return &list[min(i, len(list)-1)]
	}
	for i := range list {
		if n := int(list[i].Nth); n == nth || n == 0 {
			return &list[i]
		}
	}
	return nil
}

// offered reports whether r has the field that the departure rewrites, if it rewrites one.
func (d *Departure) offered(r *Record) bool {
	headers := r.Opcode.Headers()
	switch d.Field {
	case packet.RewriteSyndrome, packet.RewriteMSN:
		return headers&packet.HasAETH != 0
	case packet.RewriteRKey:
		return headers&(packet.HasRETH|packet.HasAtomicETH) != 0
	case packet.RewriteDMALength:
		return headers&packet.HasRETH != 0
	case packet.RewriteOpcode:
		return packet.Opcode(d.Value).Headers() == headers
	default:
		return true
	}
}

func (s *departing) hold(r Record, due int64, behind int) {
	r.TimeNS = due
	s.held.Hold(due, r.Flow, behind, r)
}

// leaveUntil emits the held records whose time is up at an instant.
func (s *departing) leaveUntil(now int64) error {
	if s.held.Next() > now {
		return nil
	}
	for _, r := range s.held.Due(now) {
		if err := s.fn(&r); err != nil {
			return err
		}
	}
	return nil
}

// rewrite changes what a record shows of a field.
func (r *Record) rewrite(f packet.RewriteField, v uint64) {
	switch f {
	case packet.RewriteDSCP:
		r.DSCP = uint8(v)
	case packet.RewriteECN:
		r.ECN = packet.ECN(v)
	case packet.RewriteDestQP:
		if qp := packet.QPN(v); qp != r.DestQP {
			r.DestQP, r.Flow = qp, NoFlow
		}
	case packet.RewriteAckReq:
		r.Flags &^= AckReq
		if v != 0 {
			r.Flags |= AckReq
		}
	case packet.RewritePSN:
		r.PSN = packet.PSN(v)
	case packet.RewriteSyndrome:
		r.Syndrome = packet.Syndrome(v)
	case packet.RewriteMSN:
		r.MSN = uint32(v)
	case packet.RewriteNone, packet.RewriteHopLimit, packet.RewriteSrcPort:
	default:
		r.rewriteRequest(f, v)
	}
}

// rewriteRequest does the same for the fields that a receiver validates. A record does not show which other key a
// packet got.
func (r *Record) rewriteRequest(f packet.RewriteField, v uint64) {
	switch f {
	case packet.RewriteOpcode:
		r.Opcode = packet.Opcode(v)
	case packet.RewriteSolicited:
		r.Flags &^= Solicited
		if v != 0 {
			r.Flags |= Solicited
		}
	case packet.RewriteDMALength:
		r.DMALen = uint32(v)
	case packet.RewriteRKey:
		r.Flags |= ForeignRKey
		r.RKey = uint32(v)
	case packet.RewritePKey:
		if r.PKey == 0 { // not known
			r.PKey = DefaultPKey
		}
		if !SamePartition(r.PKey|fullMember, uint16(v)) {
			r.Flags |= ForeignPKey
		}
		r.PKey = uint16(v)
	default:
	}
}
