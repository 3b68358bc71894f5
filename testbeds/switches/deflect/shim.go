package deflect

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/generator/bolt"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/generator/tcp"
	wiretcp "candela.dev/candela/packet/tcp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Shim marks what a host sends (§6.1), and puts what it receives in order (§6.3).
type Shim struct {
	set    deflect.Settings
	faults faults
	sends  map[flowKey]*sending
	takes  map[flowKey]*taking
	byNo   []*taking // by token of timers
	counts deflect.HostCounters
}

// flowKey names a flow at a host.
type flowKey struct {
	peer     fabric.HostID
	flow     uint32
	protocol fabric.Protocol
	v6       bool
}

// sending is what a sender keeps of a flow.
type sending struct {
	greeting      uint32 // 1: it began with a SYN, which ranks count as sent
	next          uint32 // number of the next packet that has not been sent
	last          clock.Time
	ret           uint8
	runs          []run
	retransmitted map[uint32]uint8 // Ret of packets, by number
}

// run is packets in a row that a flow marks alike.
type run struct {
	from    uint32 // number of the first packet
	start   uint32 // sequence number of its first byte
	end     uint32 // sequence number after the message
	flowlet uint16
	ret     uint8
	first   bool // the first packet is the first of its message
}

// NewShim returns the shim of a host.
func NewShim(set deflect.Settings, f faults) *Shim {
	return &Shim{set: set, faults: f, sends: make(map[flowKey]*sending), takes: make(map[flowKey]*taking)}
}

// Counters returns what the shim counts.
func (s *Shim) Counters() deflect.HostCounters { return s.counts }

// Held implements fabric.Holder.
func (s *Shim) Held() (packets int) {
	for _, f := range s.byNo {
		packets += len(f.hold)
	}
	return packets
}

// Lengths of headers.
var (
	tcpCodec  = tcp.Codec()
	rawCodec  = raw.Codec()
	boltCodec = bolt.Codec()
)

// payload returns the bytes of data in a packet, 0 for control.
func payload(p *fabric.Packet) int {
	switch p.Protocol {
	case fabric.TCP:
		return max(0, int(p.Size)-tcpCodec.HeaderSize(p.IPv6))
	case fabric.Bolt: // acknowledgements and SRC packets are headers
		return max(0, int(p.Size)-boltCodec.HeaderSize(p.IPv6))
	case fabric.Raw:
		return max(1, int(p.Size)-rawCodec.HeaderSize(p.IPv6))
	default:
		return 0
	}
}

// sequence returns the number of a packet's first byte in its flow, on a scale of its own.
func sequence(p *fabric.Packet, rfs uint32) uint32 {
	if p.Protocol == fabric.TCP {
		return p.TCP.Seq
	}
	return -rfs // one message
}

// Outbound implements fabric.Shim.
func (s *Shim) Outbound(now clock.Time, _ *fabric.Host, p *fabric.Packet) fabric.Action {
	key := flowKey{p.Dst, p.Flow, p.Protocol, p.IPv6}
	length := payload(p)
	if p.Protocol == fabric.TCP && p.TCP.Flags&wiretcp.FlagSYN != 0 {
		s.sending(key).greeting = 1
		length = 0
	}
	if length == 0 || p.Flags&fabric.Ranked == 0 {
		p.SetRank(deflect.Mark{Control: true}.Pack())
		return fabric.Forward
	}
	f := s.sending(key)
	s.counts.Marked++
	rfs := uint32(min(p.Rank+uint64(f.greeting), deflect.MaxValue))
	m := s.mark(now, f, p.Number, sequence(p, rfs), rfs)
	f.last = now
	p.SetRank(m.Pack())
	return fabric.Forward
}

func (s *Shim) sending(key flowKey) *sending {
	f := s.sends[key]
	if f == nil {
		f = new(sending)
		s.sends[key] = f
	}
	return f
}

// mark returns the mark of a packet with data that a flow sends.
func (s *Shim) mark(now clock.Time, f *sending, number, sequence, rfs uint32) deflect.Mark {
	las := s.set.Priority == deflect.LAS
	gap := len(f.runs) > 0 && now.Sub(f.last) > s.set.Gap
	if len(f.runs) > 0 && int32(number-f.next) < 0 {
		s.counts.Retransmitted++
		return s.markAgain(f, number, sequence, gap && !las)
	}
	last := len(f.runs) - 1
	begins := last < 0 || las && gap || !las && f.runs[last].end != sequence+rfs
	switch {
	case begins:
		r := run{from: number, start: sequence, end: sequence + rfs, first: true}
		if last >= 0 {
			r.flowlet = (f.runs[last].flowlet + 1) & deflect.MaxFlowlet
		}
		f.ret = 0
		f.runs = append(f.runs, r)
	case f.runs[last].ret != f.ret:
		r := f.runs[last]
		r.from, r.ret, r.first = number, f.ret, false
		f.runs = append(f.runs, r)
	}
	f.next = number + 1
	return s.of(&f.runs[len(f.runs)-1], number, sequence, 0)
}

// markAgain returns the mark of a retransmission.
func (s *Shim) markAgain(f *sending, number, sequence uint32, gap bool) deflect.Mark {
	i := len(f.runs) - 1
	for i > 0 && int32(number-f.runs[i].from) < 0 {
		i--
	}
	more := f.retransmitted[number]
	if !s.faults.keepsRet && s.set.Priority != deflect.LAS {
		if f.retransmitted == nil {
			f.retransmitted = make(map[uint32]uint8)
		}
		more = min(more+1, deflect.MaxRet)
		f.retransmitted[number] = more
		if gap {
			f.ret = min(f.ret+1, deflect.MaxRet)
		}
	}
	return s.of(&f.runs[i], number, sequence, more)
}

// of returns the mark of a packet of a run.
func (s *Shim) of(r *run, number, sequence uint32, more uint8) deflect.Mark {
	m := deflect.Mark{First: r.first && number == r.from || s.faults.firstAlways, Flowlet: r.flowlet,
		Ret: min(r.ret+more, deflect.MaxRet), Value: r.end - sequence}
	switch {
	case s.set.Priority == deflect.LAS:
		m.Value, m.Ret = sequence-r.start, 0
	case s.faults.totalRFS:
		m.Value = r.end - r.start
	}
	return m
}

// taking is what a receiver keeps of a flow. Positions grow along the flow: −RFS, or with LAS the bytes before.
type taking struct {
	flowlet  uint16
	waits    bool  // for the first packet of the message
	expected int64 // position of the next byte to pass on
	hold     []held
	early    []span // passed on ahead of what is expected
	timer    clock.Time
	newest   int64 // position behind all that has arrived
	passed   int64 // position behind all that was passed on
	none     bool  // of this flowlet has arrived
	fresh    bool  // nothing of this flowlet has been passed on
	token    uint64
}

// held is a packet that is early.
type held struct {
	packet  *fabric.Packet
	at      int64
	length  int64
	arrived clock.Time
}

type span struct{ at, length int64 }

// Inbound implements fabric.Shim.
func (s *Shim) Inbound(now clock.Time, h *fabric.Host, p *fabric.Packet) fabric.Action {
	length := int64(payload(p))
	if length == 0 || p.Flags&fabric.Ranked == 0 {
		return fabric.Forward
	}
	m := deflect.MarkOf(p.Rank)
	if m.Control {
		return fabric.Forward
	}
	s.counts.Received++
	key := flowKey{p.Src, p.Flow, p.Protocol, p.IPv6}
	f := s.takes[key]
	at := -int64(m.Value)
	if s.set.Priority == deflect.LAS {
		at = int64(m.Value)
	}
	switch {
	case f == nil:
		f = &taking{flowlet: m.Flowlet, token: uint64(len(s.byNo)), timer: clock.Never}
		s.byNo = append(s.byNo, f)
		s.takes[key] = f
		s.begin(f)
	case m.Flowlet != f.flowlet && (m.Flowlet-f.flowlet)&deflect.MaxFlowlet <= deflect.MaxFlowlet/2:
		s.flush(now, h, f)
		f.flowlet = m.Flowlet
		s.begin(f)
	case m.Flowlet != f.flowlet: // of an earlier message
		s.counts.Reordered++
		return s.pass(f, at, length)
	}
	if f.none || at >= f.newest {
		f.newest = at + length
	} else {
		s.counts.Reordered++
	}
	f.none = false
	if !s.set.Ordering || s.faults.neverHolds {
		return s.pass(f, at, length)
	}
	return s.order(now, h, f, p, at, length, m.First)
}

// begin prepares for a message, of which nothing has arrived.
func (s *Shim) begin(f *taking) {
	f.waits, f.expected, f.none, f.fresh = s.set.Priority != deflect.LAS, 0, true, true
	f.hold, f.early = f.hold[:0], f.early[:0]
	f.timer = clock.Never
}

// pass counts a packet that is passed on.
func (s *Shim) pass(f *taking, at, length int64) fabric.Action {
	s.counts.Delivered++
	if f.fresh || at >= f.passed {
		f.passed = at + length
	} else {
		s.counts.Late++
	}
	f.fresh = false
	return fabric.Forward
}

// order takes a packet of the flowlet at hand.
func (s *Shim) order(now clock.Time, h *fabric.Host, f *taking, p *fabric.Packet, at, length int64,
	first bool) fabric.Action {
	switch {
	case s.faults.discardsLate && !f.fresh && at < f.passed:
		return fabric.Drop
	case f.waits && first || !f.waits && at == f.expected:
		s.pass(f, at, length)
		h.Deliver(now, p)
		f.waits, f.expected = false, at+length
		if !s.faults.keepsHeld {
			s.advance(now, h, f)
		}
		s.arm(h, f)
		return fabric.Consume
	case !f.waits && at < f.expected:
		f.expected = max(f.expected, at+length)
		return s.pass(f, at, length)
	}
	i, found := slices.BinarySearchFunc(f.hold, at, func(of held, at int64) int { return int(min(1, max(-1, of.at-at))) })
	if found {
		s.counts.Discarded++
		return fabric.Drop
	}
	s.counts.Held++
	f.hold = slices.Insert(f.hold, i, held{p, at, length, now})
	if f.timer == clock.Never {
		s.arm(h, f)
	}
	return fabric.Consume
}

// advance passes on what follows in order.
func (s *Shim) advance(now clock.Time, h *fabric.Host, f *taking) {
	for {
		if len(f.hold) > 0 && f.hold[0].at == f.expected {
			f.expected += f.hold[0].length
			s.release(now, h, f)
			continue
		}
		i := slices.IndexFunc(f.early, func(e span) bool { return e.at == f.expected })
		if i < 0 {
			return
		}
		f.expected += f.early[i].length
		f.early = slices.Delete(f.early, i, i+1)
	}
}

// release passes on the first held packet.
func (s *Shim) release(now clock.Time, h *fabric.Host, f *taking) {
	of := f.hold[0]
	f.hold = slices.Delete(f.hold, 0, 1)
	s.counts.LongestHoldPS = max(s.counts.LongestHoldPS, int64(now.Sub(of.arrived)))
	if s.faults.losesHeld && now.Sub(of.arrived) >= s.set.Hold {
		h.Discard(now, of.packet)
		return
	}
	s.pass(f, of.at, of.length)
	h.Deliver(now, of.packet)
}

// flush passes on all that is held.
func (s *Shim) flush(now clock.Time, h *fabric.Host, f *taking) {
	for len(f.hold) > 0 {
		s.release(now, h, f)
	}
}

// longest returns the packet that has been held longest.
func (f *taking) longest() *held {
	oldest := &f.hold[0]
	for i := range f.hold {
		if f.hold[i].arrived < oldest.arrived {
			oldest = &f.hold[i]
		}
	}
	return oldest
}

// arm sets the timer for the packet that has been held longest, so that none is held for longer than ω.
func (s *Shim) arm(h *fabric.Host, f *taking) {
	f.timer = clock.Never
	if len(f.hold) == 0 {
		return
	}
	omega := s.set.Hold
	if s.faults.holdsLong {
		omega *= 2
	}
	if s.faults.letsGo {
		omega /= 4
	}
	f.timer = f.longest().arrived.Add(omega)
	h.Wake(f.timer, f.token)
}

// HandleTimer implements fabric.TimedShim: a packet has been held for ω. It is passed on, with what is held of before,
// and what follows it without a gap.
func (s *Shim) HandleTimer(now clock.Time, h *fabric.Host, token uint64) {
	f := s.byNo[token]
	if f.timer != now || len(f.hold) == 0 {
		return
	}
	s.counts.Timeouts++
	last := f.longest().at
	end := last
	for len(f.hold) > 0 && (f.hold[0].at <= last || f.hold[0].at == end && !s.faults.stopsShort) {
		of := f.hold[0]
		end = of.at + of.length
		f.early = append(f.early, span{of.at, of.length})
		s.release(now, h, f)
	}
	s.arm(h, f)
}
