package ndp

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/packet/ndp"
)

// sender is the sending end of a connection.
type sender struct {
	host       *Host
	index      uint32
	connection uint32
	to         Endpoint
	bytes      uint64
	packets    uint32 // in all; MaxUint32: without end
	started    clock.Time

	running bool
	queued  bool // in Host.ready
	done    bool
	window  sendWindow
	first   uint32 // size of the first window, once it runs
	paths   spray
	board   *scoreboard // nil: no path is excluded

	credits      uint32 // packets that may be sent now: PULLed, and not sent yet
	pulled       uint32 // the highest PULL counter seen
	heard        uint32 // ACKs and NACKs: PULLs that the receiver owes or has sent
	firstPending uint32 // packets of the first window of which nothing was heard
	inFlight     uint32 // packets sent and unanswered
	ordinal      uint32 // transmissions so far
	faults       nth
	ranking      wire.Ranking
}

// mostReserved is how many packets a sender has room for from the start.
const mostReserved = 1 << 10

func (s *sender) start(now clock.Time) {
	s.running, s.started = true, now
	s.first = min(uint32(s.host.cfg.InitialWindow), s.packets)
	if s.host.cfg.Bugs.Has(BugOverrunsWindow) {
		s.first = min(2*uint32(s.host.cfg.InitialWindow), s.packets)
	}
	s.firstPending = s.first
	s.window.reserve(min(s.first, mostReserved))
	s.host.report(now, Event{Kind: Started, Sender: s.host.cfg.Address, Receiver: s.to, Connection: s.connection,
		Started: now})
	s.activate()
}

// stop gives a flow without end an end: the next packet is the last.
func (s *sender) stop() {
	s.packets = s.window.next + 1
	if s.first > s.packets {
		s.firstPending -= s.first - s.packets
		s.first = s.packets
	}
	s.activate()
}

// maySend: the first window goes as it is; after it a packet needs a credit.
func (s *sender) maySend() bool {
	if !s.running || s.done {
		return false
	}
	return s.window.next < s.first || s.credits > 0 && (s.window.waiting > 0 || s.window.next < s.packets)
}

// activate queues the sender for the NIC if it may send.
func (s *sender) activate() {
	if !s.queued && s.maySend() {
		s.queued = true
		s.host.ready.push(s.index)
	}
}

// send fills p with the next data packet. There is none if an ACK has come after activate.
func (s *sender) send(now clock.Time, p *Packet) bool {
	if !s.maySend() {
		return false
	}
	seq, retransmission := s.choose()
	s.transmit(now, seq, retransmission, p)
	return true
}

// choose takes the next packet's number: the first window, then what has to be retransmitted, then what is new.
func (s *sender) choose() (seq uint32, retransmission bool) {
	w := &s.window
	if w.next < s.first {
		return w.push(), false
	}
	s.credits--
	bugs := s.host.cfg.Bugs
	if bugs.Has(BugRetransmitsAcknowledged) && w.base > 0 && s.faults.due(16) {
		return 0, true
	}
	if w.waiting > 0 && (w.next == s.packets || !bugs.Has(BugNewDataFirst)) {
		return w.dequeue(), true
	}
	return w.push(), false
}

func (s *sender) transmit(now clock.Time, seq uint32, retransmission bool, p *Packet) {
	h := s.host
	var flags ndp.Flags
	if seq < s.first {
		flags |= ndp.FlagSYN
	}
	if seq == s.packets-1 {
		flags |= ndp.FlagLast
	}
	// one by one: a literal is built elsewhere and copied
	path, length := s.tag(), s.length(seq)
	p.From, p.To, p.Entropy, p.Payload = h.cfg.Address, s.to, path, length
	p.Rank = s.ranking.Rank(s.bytes, uint64(seq)*uint64(h.cfg.Payload))
	d := &p.Header
	d.Kind, d.Flags, d.Connection, d.Seq, d.Counter = ndp.Data, flags, s.connection, seq, s.ordinal
	d.Path, d.Length = path, length
	s.ordinal++
	h.counters.DataSent++
	if seq < s.window.base { // a fault: nobody waits for an answer
		h.counters.Retransmitted++
		return
	}
	slot := s.window.at(seq)
	slot.sent = s.ordinal
	s.inFlight++
	if s.board != nil {
		tag := s.window.tag(seq)
		if retransmission && slot.cause == CauseTimeout {
			s.board.lost(*tag)
		}
		*tag = p.Entropy
	}
	if h.cfg.RTO > 0 {
		h.arm(now, s, seq, slot)
	}
	if retransmission {
		h.counters.Retransmitted++
		h.report(now, Event{Kind: Retransmitted, Cause: slot.cause, Sender: h.cfg.Address, Receiver: s.to,
			Connection: s.connection, Seq: seq})
	}
}

func (s *sender) length(seq uint32) uint16 {
	if seq == s.packets-1 && s.bytes > 0 {
		return uint16(s.bytes - uint64(seq)*uint64(s.host.cfg.Payload))
	}
	return uint16(s.host.cfg.Payload)
}

// sender returns the connection of feedback or of a returned header, or nil.
func (h *Host) sender(connection uint32, peer Endpoint) *sender {
	i := connection - h.cfg.FirstConnection
	if i >= uint32(len(h.senders)) || h.senders[i].to != peer || !h.senders[i].running {
		h.counters.Unclaimed++
		return nil
	}
	return h.senders[i]
}

func (h *Host) handleFeedback(now clock.Time, p *Packet) {
	s := h.sender(p.Header.Connection, p.From)
	if s == nil {
		return
	}
	switch p.Header.Kind {
	case ndp.Ack:
		h.counters.AcksReceived++
		s.handleAck(now, &p.Header)
	case ndp.Nack:
		h.counters.NacksReceived++
		s.handleNack(&p.Header)
	case ndp.Pull:
		h.counters.PullsReceived++
		s.handlePull(p.Header.Counter)
	default:
		h.counters.Unclaimed++
		return
	}
	s.settle(now)
}

// settle follows every packet that was handled: the sender is queued if it may send, watched if only a PULL can move
// it.
func (s *sender) settle(now clock.Time) {
	s.activate()
	if s.host.cfg.RTO > 0 && !s.done && s.inFlight == 0 && !s.maySend() {
		s.host.armStall(now, s)
	}
}

func (s *sender) handleAck(now clock.Time, a *ndp.Header) {
	if s.done || a.Seq >= s.window.next || a.Counter > s.window.next {
		return
	}
	s.answered()
	s.score(a.Path, false)
	s.acknowledge(a.Seq)
	for s.window.base < a.Counter { // ACKs that were lost
		s.acknowledge(s.window.base)
	}
	if s.host.cfg.Bugs.Has(BugSendsWithoutPull) {
		s.credits++
	}
	if s.window.base == s.packets {
		s.finish(now)
	}
}

func (s *sender) acknowledge(seq uint32) {
	if !s.window.holds(seq) {
		return
	}
	if s.window.at(seq).state == unanswered {
		s.inFlight--
	}
	s.window.ack(seq)
}

// answered counts an ACK or a NACK: the receiver owes a PULL for it.
func (s *sender) answered() {
	s.heard++
	if s.firstPending > 0 {
		s.firstPending--
	}
}

func (s *sender) finish(now clock.Time) {
	s.done = true
	s.window = sendWindow{base: s.packets, next: s.packets}
	s.paths, s.board = spray{}, nil
	s.host.senders[s.index] = s.host.finished(s.to)
	s.host.report(now, Event{Kind: Finished, Sender: s.host.cfg.Address, Receiver: s.to, Connection: s.connection,
		Started: s.started, Bytes: s.bytes, Packets: s.ordinal})
}

// finished returns what stands for all senders to a peer that have finished: it ignores feedback.
func (h *Host) finished(peer Endpoint) *sender {
	s := h.through[peer]
	if s == nil {
		s = &sender{host: h, to: peer, running: true, done: true}
		h.through[peer] = s
	}
	return s
}

func (s *sender) handleNack(n *ndp.Header) {
	if s.done || n.Seq >= s.window.next {
		return
	}
	s.answered()
	s.score(n.Path, true)
	bugs := s.host.cfg.Bugs
	if bugs.Has(BugForgetsRetransmission) && s.faults.due(8) {
		return
	}
	if s.missing(n.Seq, CauseNack) && bugs.Has(BugRetransmitsWithoutPull) {
		s.credits++
	}
}

// missing queues seq for retransmission and reports whether that is news.
func (s *sender) missing(seq uint32, why Cause) bool {
	if !s.window.holds(seq) || s.window.at(seq).state != unanswered {
		return false
	}
	s.inFlight--
	s.window.enqueue(seq, why)
	return true
}

// handlePull takes a PULL, whose counter also stands for those before it that were lost or are late.
func (s *sender) handlePull(counter uint32) {
	if more := int32(counter - s.pulled); more > 0 {
		s.pulled = counter
		if s.host.cfg.Bugs.Has(BugWastesPull) && s.faults.due(16) {
			more--
		}
		s.credits += uint32(more)
	}
}

// handleReturned takes a header that a switch sent back. It earned no PULL, for the receiver never saw it, so sending
// it again at once would repeat the incast that overflowed the switch's header queue. It waits for the next PULL, which
// makes the connection's window smaller by one, unless none will come: no PULL is owed and the first window is through.
// A connection of which every packet was returned comes to life that way, with one packet.
func (h *Host) handleReturned(now clock.Time, p *Packet) {
	h.counters.ReturnedReceived++
	s := h.sender(p.Header.Connection, p.From)
	if s == nil || s.done || h.cfg.Bugs.Has(BugIgnoresReturned) {
		return
	}
	s.score(p.Header.Path, true)
	if s.firstPending > 0 {
		s.firstPending--
	}
	if s.missing(p.Header.Seq, CauseReturned) && (!s.expectsPull() || h.cfg.Bugs.Has(BugEchoesIncast)) {
		h.counters.ReturnedAtOnce++
		s.credits++
	}
	s.settle(now)
}

func (s *sender) expectsPull() bool {
	return s.firstPending > 1 || int32(s.heard-s.pulled) > 0
}
