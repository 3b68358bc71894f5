package trace

import (
	"errors"
	"io"
	"math"

	"candela.dev/candela/packet"
)

// lookahead is how many packets of either capture the matcher reads beyond the oldest one whose fate it does not know. A
// packet that overtakes, or is overtaken by, more than these counts as lost. 32768 packets are 3 ms of full frames at 100 Gb/s
// and 5 MB of memory.
const lookahead = 1 << 15

// clockSlackNS is how much earlier the second capture may stamp a packet than the first.
const clockSlackNS = 1_000_000

// matcher finds the packets of a first capture in a second. Packets that look alike (retransmissions, CNPs) form a class,
// and a packet seen behind the injector takes the latest of its class that was sent before: so the lost one of two equal
// packets is the one that had the time to be missed. Within a class, pairs are then put in order of sending.
type matcher struct {
	before, after recordStream
	sent          window[sentPacket]
	passed        window[passedPacket]
	held          passedPacket        // read from after, but before has not been read up to its time
	holding       bool                // held is one
	latest        map[class]int64     // the last sent packet of each class; older ones are linked by sentPacket.older
	flowLatest    map[flowClass]int64 // the last sent packet of each flow, linked forwards by sentPacket.next
	report        PairReport
	out           Record
}

// class is what packets that can't be told apart have in common.
type class struct {
	way      flowKey
	va       uint64
	qpn      packet.QPN
	psn      packet.PSN
	dmaLen   uint32
	msn      uint32
	opcode   packet.Opcode
	syndrome packet.Syndrome
}

type flowClass struct {
	way flowKey
	qpn packet.QPN
}

type sentPacket struct {
	observation
	older  int64 // number of the previous sent packet of the class, −1: none
	next   int64 // number of the next sent packet of the flow, −1: none yet
	match  int64 // number of the passed packet, −1: none yet
	passNS int64 // its time
	event  EventType
}

type passedPacket struct {
	observation
	match  int64  // number of the sent packet, −1: none
	sentID uint64 // its frame number, once it was emitted
	event  EventType
}

func newMatcher(before, after recordStream) *matcher {
	return &matcher{before: before, after: after, latest: make(map[class]int64), flowLatest: make(map[flowClass]int64),
		report: PairReport{MinTransitNS: math.MaxInt64, MaxTransitNS: math.MinInt64, Events: []PairEvent{}}}
}

func classOf(o *observation) class {
	r := &o.rec
	return class{way: o.way, qpn: r.DestQP, psn: r.PSN, opcode: r.Opcode, va: r.VA, dmaLen: r.DMALen, msn: r.MSN, syndrome: r.Syndrome}
}

// next returns the next record by time. It is valid until the call after.
func (m *matcher) next() (*Record, error) {
	if err := m.prepare(); err != nil {
		return nil, err
	}
	switch {
	case m.sent.len() == 0 && m.passed.len() == 0:
		m.finish()
		return nil, io.EOF
	case m.passed.len() == 0 || m.sent.len() > 0 && m.sentFirst():
		return m.emitSent(), nil
	}
	return m.emitPassed(), nil
}

// sentFirst reports whether the next sent packet comes before the next passed one. Within one tick of the captures' clocks,
// which may be a microsecond, a packet passes as soon as it was sent, so that a response in the same tick can answer it.
func (m *matcher) sentFirst() bool {
	s, p := m.sent.first(), m.passed.first()
	if s.rec.TimeNS == p.rec.TimeNS {
		return p.match >= m.sent.base
	}
	return s.rec.TimeNS < p.rec.TimeNS
}

// prepare reads until both heads may be emitted: each capture's next packet is known, and so is the fate of the oldest sent
// one, as far as the lookahead goes.
func (m *matcher) prepare() error {
	if m.sent.len() == 0 {
		if err := m.readSent(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	for m.passed.len() == 0 || m.undecided() {
		if m.passed.len() >= lookahead {
			return nil
		}
		if err := m.readPassed(); errors.Is(err, io.EOF) || errors.Is(err, errWindowFull) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (m *matcher) undecided() bool { return m.sent.len() > 0 && m.sent.first().match < 0 }

func (m *matcher) readSent() error {
	var s sentPacket
	if err := m.before.read(&s.observation); err != nil {
		return err
	}
	s.match, s.older, s.next = -1, -1, -1
	c, flow := classOf(&s.observation), flowClass{s.way, s.rec.DestQP}
	if i, ok := m.latest[c]; ok {
		s.older = i
	}
	i := m.sent.push(s)
	m.latest[c] = i
	if previous, ok := m.flowLatest[flow]; ok {
		m.sent.at(previous).next = i
	}
	m.flowLatest[flow] = i
	return nil
}

// errWindowFull stops reading ahead: so many packets were sent before the next one passed.
var errWindowFull = errors.New("lookahead is full")

// readPassed reads a packet behind the injector, after all that were sent before it, and matches it.
func (m *matcher) readPassed() error {
	p := &m.held
	if !m.holding {
		p.match = -1
		if err := m.after.read(&p.observation); err != nil {
			return err
		}
		m.holding = true
	}
	for m.sent.len() == 0 || m.sent.latest().rec.TimeNS <= p.rec.TimeNS+clockSlackNS {
		if m.sent.len() >= lookahead {
			return errWindowFull
		}
		if err := m.readSent(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	m.holding = false
	index := m.passed.push(*p)
	s := m.find(p)
	if s < 0 && p.rec.ICRC == packet.ICRCInvalid {
		s = m.findDamaged(p)
	}
	if s >= 0 {
		m.pair(s, index)
	}
	return nil
}

// find returns the latest unmatched sent packet of p's class that was sent before p was seen, or, if the clocks disagree a
// little, the earliest after.
func (m *matcher) find(p *passedPacket) int64 {
	i, ok := m.latest[classOf(&p.observation)]
	if !ok {
		return -1
	}
	after := int64(-1)
	for ; i >= m.sent.base; i = m.sent.at(i).older {
		s := m.sent.at(i)
		if s.match >= 0 {
			continue
		}
		if s.rec.TimeNS <= p.rec.TimeNS {
			return i
		}
		after = i
	}
	return after
}

// findDamaged looks for the original of a packet whose damage changed the fields that make its class: the oldest unmatched
// packet between the same hosts that resembles it most, in at least two of opcode, PSN, QPN and length.
func (m *matcher) findDamaged(p *passedPacket) int64 {
	const far = 4096 // a bound on the work for captures full of damage
	best, bestScore := int64(-1), 1
	for i := m.sent.base; i < min(m.sent.end(), m.sent.base+far); i++ {
		s := m.sent.at(i)
		if s.match >= 0 || s.way != p.way || s.rec.TimeNS > p.rec.TimeNS+clockSlackNS {
			continue
		}
		score := 0
		for _, same := range [...]bool{
			s.rec.Opcode == p.rec.Opcode, s.rec.PSN == p.rec.PSN, s.rec.DestQP == p.rec.DestQP, s.rec.PayloadLen == p.rec.PayloadLen,
		} {
			if same {
				score++
			}
		}
		if score > bestScore {
			best, bestScore = i, score
		}
	}
	return best
}

// pair matches sent packet s with passed packet p, the latest read. If later packets of the class were matched with earlier
// observations, the pairs are exchanged until they stand in order.
func (m *matcher) pair(s, p int64) {
	for i := m.latest[classOf(&m.sent.at(s).observation)]; i > s && i >= m.sent.base; i = m.sent.at(i).older {
		if old := m.sent.at(i).match; old >= m.passed.base {
			m.join(i, p)
			p = old
		}
	}
	m.join(s, p)
	transit := m.sent.at(s).passNS - m.sent.at(s).rec.TimeNS
	m.report.MinTransitNS, m.report.MaxTransitNS = min(m.report.MinTransitNS, transit), max(m.report.MaxTransitNS, transit)
}

func (m *matcher) join(s, p int64) {
	sent, passed := m.sent.at(s), m.passed.at(p)
	sent.match, passed.match = p, s
	sent.passNS = passed.rec.TimeNS
	sent.event = compare(sent, passed)
	passed.event = sent.event
	passed.rec.Flags &^= PortChanged
	if passed.port != sent.port {
		passed.rec.Flags |= PortChanged
	}
}

// compare says what happened to a packet that was sent as s and seen as p.
func compare(s *sentPacket, p *passedPacket) EventType {
	switch {
	case p.short && !s.short || p.rec.PayloadLen < s.rec.PayloadLen:
		return EventTrim
	case p.rec.ICRC == packet.ICRCInvalid && s.rec.ICRC != packet.ICRCInvalid:
		return EventCorrupt
	case p.rec.ECN == packet.CE && s.rec.ECN != packet.CE:
		return EventECN
	}
	return EventNone
}

// overtaken reports whether a packet of the same flow was sent after s and seen before it.
func (m *matcher) overtaken(s *sentPacket) bool {
	const far = 1024 // packets of one flow inside an injector at a time
	for i, n := s.next, 0; i >= 0 && n < far; i, n = m.sent.at(i).next, n+1 {
		later := m.sent.at(i)
		if later.match >= 0 && later.match < s.match {
			return true
		}
		if later.rec.TimeNS > s.passNS {
			return false
		}
	}
	return false
}

func (m *matcher) emitSent() *Record {
	s := m.sent.first()
	m.out = s.rec
	m.out.Flags &^= Passed
	m.report.Sent++
	switch {
	case s.match < 0:
		m.out.Event = EventDrop
	case s.event == EventNone && m.overtaken(s):
		m.out.Event = EventReorder
	default:
		m.out.Event = s.event
	}
	if s.match >= m.passed.base {
		m.passed.at(s.match).sentID = s.rec.ID
	}
	m.count(m.out.ID, m.out.Event)
	m.forget(s)
	m.sent.pop()
	return &m.out
}

// forget removes the oldest sent packet from the indices, whose size so stays within the window.
func (m *matcher) forget(s *sentPacket) {
	if c := classOf(&s.observation); m.latest[c] == m.sent.base {
		delete(m.latest, c)
	}
	if f := (flowClass{s.way, s.rec.DestQP}); m.flowLatest[f] == m.sent.base {
		delete(m.flowLatest, f)
	}
}

func (m *matcher) emitPassed() *Record {
	p := m.passed.first()
	m.out = p.rec
	m.out.Flags &^= Sent
	if p.match >= 0 && p.event == EventTrim {
		m.out.Event = EventTrim // a header: what it names was not delivered, whatever its lengths say
	}
	m.report.Passed++
	switch {
	case p.match < 0:
		m.out.ID += PairSecond
		m.report.Extra++
	case p.match >= m.sent.base:
		m.out.ID = m.sent.at(p.match).rec.ID
	default:
		m.out.ID = p.sentID
	}
	m.passed.pop()
	return &m.out
}

func (m *matcher) count(frame uint64, e EventType) {
	switch e {
	case EventNone:
		return
	case EventDrop:
		m.report.Dropped++
	case EventECN:
		m.report.Marked++
	case EventCorrupt:
		m.report.Corrupted++
	case EventTrim:
		m.report.Trimmed++
	case EventReorder:
		m.report.Reordered++
	default: // listed, not counted
	}
	m.report.Events = appendBounded(m.report.Events, PairEvent{frame, e.String()})
}

func (m *matcher) finish() {
	if m.report.MinTransitNS > m.report.MaxTransitNS {
		m.report.MinTransitNS, m.report.MaxTransitNS = 0, 0
	}
}
