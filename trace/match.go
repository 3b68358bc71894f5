package trace

import (
	"errors"
	"io"
	"math"
	"slices"

	"candela.dev/candela/packet"
)

// lookahead is how many packets of either capture the matcher reads beyond the oldest one whose fate it does not know.
// A packet that overtakes, or is overtaken by, more packets counts as lost. 32768 packets are 3 ms of full frames at
// 100 Gb/s and 5 MB of memory.
const lookahead = 1 << 15

// clockSlackNS is how much earlier the second capture may stamp a packet than the first.
const clockSlackNS = 1_000_000

// matcher finds upstream packets downstream. Packets that look alike (retransmissions, CNPs) form a class, and a packet
// seen downstream is matched with the latest of its class that was sent before: the lost one of two equal packets is
// the one that had time to be missed. Within a class, pairs are then put in order of sending. If IPv4 identifications
// distinguish copies, they decide.
//
// The upstream tap missed a packet that is only downstream. It is emitted as sent, too, at its place in the order of
// its flow: a direction is FIFO. If identifications distinguish frames, one that passed before is a copy made between
// the taps: it passes a second time and is not sent.
type matcher struct {
	before, after tapStream
	sent          window[sentPacket]
	passed        window[passedPacket]
	held          passedPacket            // read from after, but before has not been read up to its time
	holding       bool                    // held is one
	latest        map[class]int64         // the last sent packet of each class; older ones are linked by sentPacket.older
	flowLatest    map[flowClass]int64     // the last sent packet of each flow, linked forwards by sentPacket.next
	missed        []missedPacket          // to be emitted as sent, in order of passing
	lastNS        int64                   // of the latest record, or math.MinInt64
	identified    bool                    // IPv4 identifications distinguish frames
	paired        func(s, p *observation) // called with each pair; may be nil
	shared        [2]int64                // first and last instant at which both captures have frames
	earlyNS       int64                   // how much earlier than stamped a packet may have passed, for clocks that round
	slackNS       int64                   // how much too early a corrected clock may stamp a passed packet
	copied        passedFrames
	report        PairReport
	out           Record
}

// A missedPacket is one that the upstream tap lacks.
type missedPacket struct {
	rec    Record
	flow   flowClass
	passed int64 // its number
}

// class is what indistinguishable packets have in common.
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
	// passedID is the id of the pair, if the passed packet was emitted before.
	passedID uint64
	event    EventType
}

type passedPacket struct {
	observation
	match  int64  // number of the sent packet, −1: none
	sentID uint64 // its frame number, once it was emitted
	copy   bool   // of a frame that passed before
	event  EventType
}

func newMatcher(before, after tapStream) *matcher {
	return &matcher{before: before, after: after, latest: make(map[class]int64), flowLatest: make(map[flowClass]int64),
		lastNS: math.MinInt64,
		report: PairReport{MinTransitNS: math.MaxInt64, MaxTransitNS: math.MinInt64, Events: []PairEvent{}}}
}

func classOf(o *observation) class {
	r := &o.rec
	return class{way: o.way, qpn: r.DestQP, psn: r.PSN, opcode: r.Opcode, va: r.VA, dmaLen: r.DMALen, msn: r.MSN,
		syndrome: r.Syndrome}
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
		s := m.sent.first()
		if i := m.missedBefore(s); i >= 0 {
			return m.emitMissed(i, s.rec.TimeNS), nil
		}
		return m.emitSent(), nil
	}
	p := m.passed.first()
	if p.match < 0 {
		for i := range m.missed {
			if m.missed[i].passed == m.passed.base {
				return m.emitMissed(i, p.rec.TimeNS), nil
			}
		}
	}
	return m.emitPassed(), nil
}

// missedBefore returns a packet that the upstream tap missed and that was sent before s, or −1.
func (m *matcher) missedBefore(s *sentPacket) int {
	for i := range m.missed {
		x := &m.missed[i]
		if x.flow != (flowClass{s.way, s.rec.DestQP}) {
			continue
		}
		if s.match > x.passed || s.match < 0 && x.rec.PSN.Before(s.rec.PSN) {
			return i
		}
	}
	return -1
}

// emitMissed emits what the upstream tap lacks as sent at an instant.
func (m *matcher) emitMissed(i int, timeNS int64) *Record {
	m.out = m.missed[i].rec
	m.missed = slices.Delete(m.missed, i, i+1)
	m.out.Flags &^= Passed
	m.out.TimeNS = timeNS
	return m.stamped()
}

// stamped keeps the records in order of time: remaining errors of a clock's correction must not reverse cause and
// effect.
func (m *matcher) stamped() *Record {
	m.out.TimeNS = max(m.out.TimeNS, m.lastNS)
	m.lastNS = m.out.TimeNS
	return &m.out
}

// sentFirst reports whether the next sent packet comes before the next passed one. Within one tick of the captures'
// clocks, which may be a microsecond, a packet passes when it was sent, so that a response in the same tick can answer
// it. No packet passes before it was sent, whatever the clocks show.
func (m *matcher) sentFirst() bool {
	s, p := m.sent.first(), m.passed.first()
	return p.match >= m.sent.base || s.rec.TimeNS < p.rec.TimeNS-m.earlyNS
}

// prepare reads until both heads may be emitted: each capture's next packet is known, and so is the fate of the oldest
// sent one, within the lookahead.
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

// readPassed reads a packet after the injector, following all that were sent before it, and matches it.
func (m *matcher) readPassed() error {
	p := &m.held
	if !m.holding {
		p.match, p.copy = -1, false
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
		if m.identified {
			m.copied.add(&m.passed.at(index).observation)
		}
		return nil
	}
	if m.identified && m.copied.has(&p.observation) {
		m.passed.at(index).copy = true
		return nil
	}
	if m.identified {
		m.copied.add(&p.observation) // the upstream tap missed it, and may miss the frame of which there is a copy
	}
	rec := p.rec
	if rec.ID = p.rec.ID; p.second {
		rec.ID += PairSecond
	}
	m.missed = append(m.missed, missedPacket{rec: rec, flow: flowClass{p.way, p.rec.DestQP}, passed: index})
	return nil
}

// find returns the latest unmatched sent packet of p's class that was sent before p was seen, or, if the clocks
// disagree a little, the earliest after. If identifications distinguish frames, they must be equal.
func (m *matcher) find(p *passedPacket) int64 {
	i, ok := m.latest[classOf(&p.observation)]
	if !ok {
		return -1
	}
	after, before := int64(-1), int64(-1)
	for ; i >= m.sent.base && before < 0; i = m.sent.at(i).older {
		s := m.sent.at(i)
		switch {
		case s.match >= 0 || m.identified && s.ipID != p.ipID:
		case s.rec.TimeNS > p.rec.TimeNS:
			after = i
		default:
			before = i
		}
	}
	if after >= 0 && before >= 0 {
		early, late := m.sent.at(after).rec.TimeNS-p.rec.TimeNS, p.rec.TimeNS-m.sent.at(before).rec.TimeNS
		if early <= m.slackNS && late > m.slackNS {
			return after
		}
	}
	if before >= 0 {
		return before
	}
	return after
}

// findDamaged looks for the original of a packet whose damage changed the fields of its class: the oldest unmatched
// packet between the same hosts that is most similar, in at least two of opcode, PSN, QPN and length.
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
			s.rec.Opcode == p.rec.Opcode, s.rec.PSN == p.rec.PSN, s.rec.DestQP == p.rec.DestQP,
			s.rec.PayloadLen == p.rec.PayloadLen,
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

// pair matches sent packet s with passed packet p, the latest read. If later packets of the class were matched with
// earlier observations, the pairs are exchanged until they are in order.
func (m *matcher) pair(s, p int64) {
	for i := m.latest[classOf(&m.sent.at(s).observation)]; !m.identified && i > s &&
		i >= m.sent.base; i = m.sent.at(i).older {
		if old := m.sent.at(i).match; old >= m.passed.base {
			m.join(i, p)
			p = old
		}
	}
	m.join(s, p)
	if m.paired != nil {
		m.paired(&m.sent.at(s).observation, &m.passed.at(p).observation)
	}
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

// compare returns what happened to a packet that was sent as s and seen as p.
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
		m.countOutside(s.rec.TimeNS)
	case s.event == EventNone && m.overtaken(s):
		m.out.Event = EventReorder
	default:
		m.out.Event = s.event
	}
	if s.match >= m.passed.base {
		p := m.passed.at(s.match)
		p.sentID = pairID(s, p)
		m.out.ID = p.sentID
	} else if s.match >= 0 {
		m.out.ID = s.passedID
	} else if s.second {
		m.out.ID += PairSecond
	}
	m.count(m.out.ID, m.out.Event)
	m.forget(s)
	m.sent.pop()
	return m.stamped()
}

// pairID returns the id of a packet that both captures hold: its frame number in the first.
func pairID(s *sentPacket, p *passedPacket) uint64 {
	if s.second {
		return p.rec.ID
	}
	return s.rec.ID
}

// forget removes the oldest sent packet from the indices, so that their size stays within the window.
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
	m.out.TimeNS -= m.earlyNS
	m.out.Flags &^= Sent
	if p.match >= 0 && p.event == EventTrim {
		m.out.Event = EventTrim // a header: what it names was not delivered, whatever its lengths say
	}
	m.report.Passed++
	if p.rec.Flags&Truncated != 0 && !p.short {
		m.report.Uncheckable++
	}
	switch {
	case p.match < 0:
		if p.second {
			m.out.ID += PairSecond
		}
		if p.copy {
			m.report.Copied++
			break
		}
		m.report.Missed++
		m.countOutside(p.rec.TimeNS)
	case p.match >= m.sent.base:
		s := m.sent.at(p.match)
		m.out.ID = pairID(s, p)
		s.passedID = m.out.ID
	default:
		m.out.ID = p.sentID
	}
	m.passed.pop()
	return m.stamped()
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

// countOutside counts a packet without a mate at a time at which only one of the captures has frames.
func (m *matcher) countOutside(timeNS int64) {
	transit := max(0, m.report.MaxTransitNS)
	if timeNS < m.shared[0]-m.slackNS || timeNS+transit > m.shared[1]+m.slackNS {
		m.report.Outside++
	}
}

func (m *matcher) finish() {
	if m.report.MinTransitNS > m.report.MaxTransitNS {
		m.report.MinTransitNS, m.report.MaxTransitNS = 0, 0
	}
}
