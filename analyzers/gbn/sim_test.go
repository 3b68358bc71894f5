package gbn_test

import (
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// The simulation below is a second, independent reading of the protocol: an RC requester and responder written for this test,
// joined by links of random delay through an observer that loses packets. Whatever such endpoints do is right by
// construction, so the analyzer must be silent; with one of the bugs below it must not.

type bug string

const (
	bugNone            bug = ""
	bugNakNext         bug = "nak-psn+1"
	bugNakPrevious     bug = "nak-psn-1"
	bugNakTwice        bug = "nak-twice"
	bugNakNever        bug = "nak-never"
	bugNakDuplicate    bug = "nak-duplicate"
	bugAckLost         bug = "ack-lost"
	bugAckOld          bug = "ack-old"
	bugAckNever        bug = "ack-never"
	bugMSNStuck        bug = "msn-stuck"
	bugMSNEager        bug = "msn-eager"
	bugReadShort       bug = "read-short"
	bugReadSkip        bug = "read-skip"
	bugReadOpcode      bug = "read-opcode"
	bugRestartNext     bug = "restart-after-nacked"
	bugRestartEarlier  bug = "restart-two-early"
	bugSelective       bug = "selective-repeat"
	bugSkipPSN         bug = "skip-psn"
	bugIgnoreNak       bug = "ignore-nak-give-up"
	bugChangeLength    bug = "retransmit-length"
	bugReadRestartOld  bug = "read-restart-old-length"
	bugEarlyTimeout    bug = "early-timeout"
	bugWrongPad        bug = "wrong-pad"
	bugWrongMiddleSize bug = "short-middle"
)

type simMessage struct {
	verb        packet.Verb
	first, last int64
	length      int64
}

// simConfig is one scenario; everything random in it comes from seed.
type simConfig struct {
	seed      uint64
	messages  int
	maxPSNs   int
	verbs     []packet.Verb
	delayNS   int64 // links take 0 to delayNS
	lossPct   int   // of all packets, either way
	losses    int   // at most so many
	timeoutNS int64
	window    int // PSNs outstanding
	ipsn      packet.PSN
	rnrs      int
	kernel    bool // READ replays go on with MIDDLE and LAST
	bug       bug
}

type simPacket struct {
	trace.Record
	rel int64 // PSN, from 0
}

type simEvent struct {
	atNS int64
	seq  int
	run  func()
}

type simulation struct {
	cfg    simConfig
	rng    *rand.Rand
	nowNS  int64
	seq    int
	events []simEvent // a heap would be faster; runs are short
	links  [4]int64   // last arrival on A→S, S→B, B→S, S→A
	lost   int

	messages []simMessage
	records  []trace.Record
	a        simRequester
	b        simResponder
	fired    bool // the bug showed on the wire
}

func simulate(cfg simConfig) *simulation {
	s := &simulation{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 7))}
	next := int64(0)
	for range cfg.messages {
		v := cfg.verbs[s.rng.IntN(len(cfg.verbs))]
		n := int64(1 + s.rng.IntN(cfg.maxPSNs))
		length := n*mtu - int64(s.rng.IntN(mtu))
		if v == packet.VerbAtomic {
			n, length = 1, 8
		} else if n == 1 && s.rng.IntN(4) == 0 {
			length = 0
		}
		s.messages = append(s.messages, simMessage{v, next, next + n - 1, length})
		next += n
	}
	s.a = simRequester{s: s, end: next, skip: s.rng.IntN(2) == 0 && cfg.bug == bugNone, pipeline: s.rng.IntN(6)}
	s.b = simResponder{s: s, acked: -1, lazy: s.rng.IntN(3), ownPSN: s.rng.IntN(2) == 0, rnrs: cfg.rnrs, eager: s.rng.IntN(8)}
	s.after(0, s.a.pump)
	limit := 200_000
	if cfg.bug != bugNone {
		limit = 5_000 // endpoints with bugs may never finish
	}
	for range limit {
		if len(s.events) == 0 {
			break
		}
		s.pop().run()
	}
	return s
}

func (s *simulation) after(d int64, run func()) {
	s.seq++
	s.events = append(s.events, simEvent{s.nowNS + d, s.seq, run})
	for i := len(s.events) - 1; i > 0; { // sift up
		p := (i - 1) / 2
		if !s.less(i, p) {
			break
		}
		s.events[i], s.events[p] = s.events[p], s.events[i]
		i = p
	}
}

func (s *simulation) less(i, j int) bool {
	a, b := &s.events[i], &s.events[j]
	return a.atNS < b.atNS || a.atNS == b.atNS && a.seq < b.seq
}

func (s *simulation) pop() simEvent {
	e := s.events[0]
	n := len(s.events) - 1
	s.events[0] = s.events[n]
	s.events = s.events[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && s.less(c+1, c) {
			c++
		}
		if !s.less(c, i) {
			break
		}
		s.events[i], s.events[c] = s.events[c], s.events[i]
		i = c
	}
	s.nowNS = e.atNS
	return e
}

// link carries a packet over link n, FIFO, and calls arrive at its end.
func (s *simulation) link(n int, arrive func()) {
	at := s.nowNS + s.rng.Int64N(s.cfg.delayNS+1)
	at = max(at, s.links[n]+1)
	s.links[n] = at
	s.after(at-s.nowNS, arrive)
}

// send carries p from A (forward) or B through the observer to the other side.
func (s *simulation) send(forward bool, p simPacket) {
	p.Flow = trace.NewFlowID(1, !forward)
	p.PSN = s.cfg.ipsn.Add(int(p.rel))
	up, down := 2, 3
	if forward {
		up, down = 0, 1
	}
	s.link(up, func() {
		s.observe(&p)
		if !p.Delivered() {
			return
		}
		s.link(down, func() {
			if forward {
				s.b.receive(p)
			} else {
				s.a.receive(p)
			}
		})
	})
}

// observe records p and decides its fate.
func (s *simulation) observe(p *simPacket) {
	p.ID, p.TimeNS = uint64(len(s.records)+1), s.nowNS
	p.Flags |= trace.Sent | trace.Passed
	if s.lost < s.cfg.losses && s.rng.IntN(100) < s.cfg.lossPct {
		s.lost++
		p.Event = trace.EventDrop
		if s.rng.IntN(4) == 0 {
			p.Event = trace.EventCorrupt
		}
	}
	s.records = append(s.records, p.Record)
}

func (s *simulation) messageAt(rel int64) *simMessage {
	lo, hi := 0, len(s.messages)-1
	for lo < hi {
		mid := (lo + hi) / 2
		if s.messages[mid].last < rel {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return &s.messages[lo]
}

// simRequester sends the messages; end is the PSN after the last.
type simRequester struct {
	s              *simulation
	end            int64
	una, cur, next int64
	skip           bool  // skips what is acknowledged when it can
	pipeline       int   // packets still sent between a NACK and the restart
	pending        int   // packets left until the restart; 0: none pending
	pausedUntil    int64 // RNR
	timer          int   // generation
	pumping        bool
	implied        int64 // missing response that was asked for again
	gaveUp         bool
}

func (a *simRequester) armTimer() {
	a.timer++
	gen, t := a.timer, a.s.cfg.timeoutNS
	if a.s.cfg.bug == bugEarlyTimeout {
		t /= 50
	}
	a.s.after(t+a.s.rng.Int64N(t), func() {
		if gen != a.timer || a.una >= a.next || a.gaveUp {
			return
		}
		if a.s.cfg.bug == bugEarlyTimeout {
			a.s.fired = true
		}
		a.implied = -1
		a.restart()
		a.wake()
	})
}

func (a *simRequester) wake() {
	if !a.pumping {
		a.pumping = true
		a.s.after(a.s.rng.Int64N(300)+1, a.pump)
	}
}

// restart goes back to the oldest unacknowledged packet.
func (a *simRequester) restart() {
	a.cur, a.pending = a.una, 0
	if a.una >= a.next {
		a.cur = a.next
		return
	}
	a.armTimer()
	switch a.s.cfg.bug {
	case bugRestartNext:
		if a.una+1 < a.next && a.s.messageAt(a.una).verb != packet.VerbRead {
			a.cur, a.s.fired = a.una+1, true
		}
	case bugRestartEarlier:
		if a.una > 2 && a.s.messageAt(a.una-2).verb != packet.VerbRead {
			a.cur, a.s.fired = a.una-2, true
		}
	}
}

func (a *simRequester) pump() {
	a.pumping = false
	if a.gaveUp {
		return
	}
	if a.s.nowNS < a.pausedUntil {
		a.s.after(a.pausedUntil-a.s.nowNS, a.wake)
		return
	}
	if a.pending > 0 {
		if a.pending--; a.pending == 0 {
			a.restart()
		}
	}
	if a.skip && a.cur < a.una {
		a.cur = a.una
	}
	if a.cur >= a.end || a.cur >= a.next && a.next-a.una >= int64(a.s.cfg.window) {
		if a.pending > 0 {
			a.restart()
			a.wake()
		}
		return
	}
	a.sendOne()
	a.wake()
}

func (a *simRequester) sendOne() {
	p, n := a.build(a.cur)
	again := a.cur < a.next
	if !again && a.s.cfg.bug == bugSkipPSN && a.cur > 5 && !a.s.fired && a.s.messageAt(a.cur).verb != packet.VerbRead && a.cur+1 < a.end {
		a.s.fired = true
		a.cur++
		p, n = a.build(a.cur)
	}
	if again && a.s.cfg.bug == bugChangeLength && p.PayloadLen > 8 {
		p.PayloadLen -= 4
		a.s.fired = true
	}
	if a.una == a.next {
		defer a.armTimer()
	}
	a.s.send(true, p)
	a.cur += n
	if again && a.s.cfg.bug == bugSelective && a.cur < a.next && a.una == a.cur-1 {
		a.cur = a.next
		a.s.fired = a.s.fired || a.next < a.end && a.next-a.una < int64(a.s.cfg.window)
	}
	a.next = max(a.next, a.cur)
}

// build makes the request at rel and says how many PSNs it takes.
func (a *simRequester) build(rel int64) (simPacket, int64) {
	m := a.s.messageAt(rel)
	p := simPacket{rel: rel}
	done := (rel - m.first) * mtu
	switch m.verb {
	case packet.VerbRead:
		p.Opcode, p.Flags = packet.ReadRequest, trace.HasRETH|trace.AckReq
		p.VA, p.DMALen = uint64(m.first*4096+done), uint32(m.length-done)
		if a.s.cfg.bug == bugReadRestartOld && done > 0 {
			p.DMALen, a.s.fired = uint32(m.length), true
		}
		return p, m.last + 1 - rel
	case packet.VerbAtomic:
		p.Opcode, p.Flags = packet.FetchAdd, trace.AckReq
		return p, 1
	}
	base := packet.SendFirst
	if m.verb == packet.VerbWrite {
		base = packet.WriteFirst
		if rel == m.first {
			p.VA, p.DMALen, p.Flags = uint64(m.first*4096), uint32(m.length), trace.HasRETH
		}
	}
	p.Opcode, p.PayloadLen = base+1, mtu
	switch {
	case m.first == m.last:
		p.Opcode = base + 4
	case rel == m.first:
		p.Opcode = base
	case rel == m.last:
		p.Opcode = base + 2
	case a.s.cfg.bug == bugWrongMiddleSize:
		p.PayloadLen, a.s.fired = mtu-4, true
	}
	if rel == m.last {
		p.PayloadLen = uint16(m.length - done)
		p.Flags |= trace.AckReq
	} else if rel%7 == 3 {
		p.Flags |= trace.AckReq
	}
	p.PadCount = uint8(-int(p.PayloadLen) & 3)
	if a.s.cfg.bug == bugWrongPad && p.PadCount != 0 {
		p.PadCount, a.s.fired = 0, true
	}
	return p, 1
}

// readAhead returns the first PSN at or after una that only data can acknowledge, or end.
func (a *simRequester) readAhead() int64 {
	for rel := a.una; rel < a.next; {
		m := a.s.messageAt(rel)
		if m.verb == packet.VerbRead || m.verb == packet.VerbAtomic {
			return rel
		}
		rel = m.last + 1
	}
	return a.end + 1
}

func (a *simRequester) advance(una int64) {
	if una = min(una, a.next); una <= a.una {
		return
	}
	a.una = una
	if a.s.cfg.bug == bugIgnoreNak && a.una == a.end {
		return
	}
	if a.una < a.next {
		a.armTimer()
	} else {
		a.timer++
	}
	a.wake()
}

func (a *simRequester) goBack() {
	if a.s.cfg.bug == bugIgnoreNak {
		a.gaveUp, a.s.fired = true, true
		return
	}
	if a.pending == 0 {
		a.pending = 1 + a.s.rng.IntN(a.pipeline+1)
	}
	a.armTimer()
	a.wake()
}

func (a *simRequester) implyNak() {
	if a.implied != a.una {
		a.implied = a.una
		a.goBack()
	}
}

func (a *simRequester) receive(p simPacket) {
	read := a.readAhead()
	switch {
	case p.Opcode != packet.Acknowledge:
		if p.rel == read {
			a.advance(p.rel + 1)
		} else if p.rel > read {
			a.advance(read)
			a.implyNak()
		}
	case p.Syndrome.IsAck():
		a.advance(min(p.rel+1, read))
		if p.rel >= read {
			a.implyNak()
		}
	default:
		if p.rel < a.una {
			return
		}
		a.advance(min(p.rel, read))
		if p.Syndrome.IsRNR() {
			a.pausedUntil = a.s.nowNS + packet.RNRTimer(p.Syndrome.TimerCode())
			a.pending = 1
			a.timer++ // runs again from the restart on
			a.wake()
			return
		}
		a.goBack()
	}
}

// simResponder answers. Responses leave through a queue in the order of their requests.
type simResponder struct {
	s        *simulation
	expected int64
	nacked   bool
	msn      int64
	acked    int64
	lazy     int  // how readily ACKs are coalesced
	eager    int  // acknowledge every so many packets without being asked, 0: never
	ownPSN   bool // duplicates are acknowledged with their own PSN
	rnrs     int
	queue    []simPacket
	busy     bool
	owed     bool // a coalesced ACK is owed
}

func (b *simResponder) push(p simPacket) {
	b.queue = append(b.queue, p)
	b.wake()
}

func (b *simResponder) wake() {
	if !b.busy && len(b.queue) > 0 {
		b.busy = true
		b.s.after(b.s.rng.Int64N(400)+1, b.pump)
	}
}

func (b *simResponder) pump() {
	b.busy = false
	p := b.queue[0]
	b.queue = b.queue[1:]
	b.s.send(false, p)
	b.wake()
}

func (b *simResponder) respond(rel int64, syndrome packet.Syndrome) {
	msn := b.msn
	switch b.s.cfg.bug {
	case bugMSNStuck:
		b.s.fired = b.s.fired || msn > 1
		msn = min(msn, 1)
	case bugMSNEager:
		msn, b.s.fired = msn+1, true
	}
	b.push(simPacket{rel: rel, Record: trace.Record{
		Opcode: packet.Acknowledge, Syndrome: syndrome, MSN: uint32(msn & 0xffffff), Flags: trace.HasAETH,
	}})
}

// flush sends the ACK that is owed.
func (b *simResponder) flush() {
	if b.owed {
		b.owed = false
		if b.s.cfg.bug == bugAckNever && b.expected == b.s.a.end {
			b.s.fired = true
			return
		}
		b.respond(b.expected-1, packet.SyndromeAckNoCredit)
		b.acked = b.expected - 1
	}
}

// ack acknowledges what was received now or, coalesced, later.
func (b *simResponder) ack() {
	if b.owed {
		return
	}
	b.owed = true
	if b.lazy == 0 {
		b.flush()
		return
	}
	b.s.after(b.s.rng.Int64N(int64(b.lazy)*2000)+1, b.flush)
}

func (b *simResponder) receive(p simPacket) {
	n := int64(1)
	if p.Opcode == packet.ReadRequest {
		n = max(1, (int64(p.DMALen)+mtu-1)/mtu)
	}
	switch {
	case p.rel == b.expected:
		b.accept(p, n)
	case p.rel < b.expected:
		b.duplicate(p, n)
	case !b.nacked:
		b.gap()
	}
}

func (b *simResponder) gap() {
	b.flush()
	b.nacked = true
	rel := b.expected
	switch b.s.cfg.bug {
	case bugAckLost:
		b.nacked, b.s.fired = false, true
		b.expected++
		b.respond(b.expected-1, packet.SyndromeAckNoCredit)
		return
	case bugNakNever:
		b.s.fired = true
		return
	case bugNakNext:
		rel, b.s.fired = rel+1, true
	case bugNakPrevious:
		if rel > 1 {
			rel, b.s.fired = rel-1, true
		}
	case bugNakTwice:
		b.s.fired = true
		b.respond(rel, packet.SyndromeNakSequence)
	}
	b.respond(rel, packet.SyndromeNakSequence)
}

func (b *simResponder) accept(p simPacket, n int64) {
	if b.rnrs > 0 && p.Opcode.Verb() == packet.VerbSend && b.s.rng.IntN(3) == 0 {
		b.rnrs--
		b.flush()
		b.nacked = true
		b.respond(p.rel, packet.SyndromeRNR|packet.Syndrome(1+b.s.rng.IntN(4)))
		return
	}
	b.nacked = false
	if p.Opcode == packet.ReadRequest || p.Opcode.Verb() == packet.VerbAtomic {
		b.flush()
	}
	b.expected += n
	if p.Opcode.Ends() {
		b.msn++
	}
	switch {
	case p.Opcode == packet.ReadRequest:
		b.stream(p, n, false)
	case p.Opcode.Verb() == packet.VerbAtomic:
		b.atomic(p.rel)
	case p.Has(trace.AckReq), b.eager > 0 && p.rel%int64(b.eager) == 0:
		b.ack()
		if b.s.cfg.bug == bugAckOld && p.rel > 6 && b.lazy == 0 {
			b.s.fired = true
			b.respond(p.rel-4, packet.SyndromeAckNoCredit)
		}
	}
}

func (b *simResponder) atomic(rel int64) {
	b.push(simPacket{rel: rel, Record: trace.Record{
		Opcode: packet.AtomicAcknowledge, Syndrome: packet.SyndromeAckNoCredit, MSN: uint32(b.msn), Flags: trace.HasAETH,
	}})
}

func (b *simResponder) stream(p simPacket, n int64, again bool) {
	left := int64(p.DMALen)
	for i := range n {
		r := simPacket{rel: p.rel + i}
		size := min(left, mtu)
		left -= size
		first, last := i == 0, i == n-1
		r.Opcode = packet.ReadResponseMiddle
		switch {
		case first && last:
			r.Opcode = packet.ReadResponseOnly
		case first:
			r.Opcode = packet.ReadResponseFirst
		case last:
			r.Opcode = packet.ReadResponseLast
		}
		if again && b.s.cfg.kernel && first && p.rel != b.s.messageAt(p.rel).first {
			r.Opcode = packet.ReadResponseMiddle
			if last {
				r.Opcode = packet.ReadResponseLast
			}
		}
		r.PayloadLen, r.PadCount = uint16(size), uint8(-size&3)
		if r.Opcode != packet.ReadResponseMiddle {
			r.Flags, r.Syndrome, r.MSN = trace.HasAETH, packet.SyndromeAckNoCredit, uint32(b.msn)
		}
		if b.spoil(&r, i, n) {
			b.push(r)
		}
	}
}

// spoil applies the READ bugs and reports whether r is sent at all.
func (b *simResponder) spoil(r *simPacket, i, n int64) bool {
	switch b.s.cfg.bug {
	case bugReadShort:
		if i == 1 && n > 2 {
			r.PayloadLen, b.s.fired = r.PayloadLen-4, true
		}
	case bugReadSkip:
		if i == 1 && n > 2 && !b.s.fired {
			b.s.fired = true
			return false
		}
	case bugReadOpcode:
		if i == 1 && n > 2 {
			r.Opcode, b.s.fired = packet.ReadResponseLast, true
		}
	}
	return true
}

func (b *simResponder) duplicate(p simPacket, n int64) {
	b.flush()
	switch {
	case p.Opcode == packet.ReadRequest:
		b.stream(p, n, true)
	case p.Opcode.Verb() == packet.VerbAtomic:
		b.atomic(p.rel)
	case b.s.cfg.bug == bugNakDuplicate:
		b.s.fired = true
		b.respond(p.rel, packet.SyndromeNakSequence)
	case b.s.cfg.bug == bugAckNever && b.expected == b.s.a.end:
		b.s.fired = true
	case b.ownPSN:
		b.respond(p.rel, packet.SyndromeAckNoCredit)
	default:
		b.respond(b.expected-1, packet.SyndromeAckNoCredit)
	}
}

func (c simConfig) String() string {
	return fmt.Sprintf("seed %d: %d messages of up to %d packets, verbs %v, delay %d ns, loss %d%% (%d), T %d ns, window %d, ipsn %d, rnr %d",
		c.seed, c.messages, c.maxPSNs, c.verbs, c.delayNS, c.lossPct, c.losses, c.timeoutNS, c.window, c.ipsn, c.rnrs)
}
