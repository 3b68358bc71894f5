package tcp

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/fault"
)

// Bug is a deliberate fault, which the analyzer must detect.
type Bug uint8

// Bugs is a set of faults. The zero value is empty.
type Bugs = fault.Set[Bug]

// Faults of the sender.
const (
	BugOverrunsWindow Bug = iota
	BugIgnoresLoss
	BugResendsSACKed
	BugHasty
	BugEarlyTimeout
	BugNoBackoff
	BugNoTimeout
	BugSkipsBytes
	BugIgnoresReceiver
	// Faults of the receiver.
	BugAcksBeyond
	BugAcksBackwards
	BugFalseSACK
	BugForgetsAck
	// More faults of the sender.
	BugOverrunsReceiver
	BugKeepsWindow
	BugNeverAvoids
	BugResendsTwice
	BugHurriedTimeout
	BugWrapsBadly
	// More faults of the receiver.
	BugLateAck
	BugNoDuplicateAck
	BugNoSACK
	BugShrinksWindow
	// Faults of a handshake.
	BugWrongSYNACK
	BugIgnoresSYN
	BugHastyData
	BugHastySYN
	BugForgetsSYN
	BugKeepsInitialWindow
	BugLargeInitialWindow
	// Faults of recoveries and timers that are configured.
	BugTransmitsMore
	BugStallsPartialACK
	BugResendsWindow
	BugFastRetransmits
	BugHastyFirst
	BugIgnoresMaxRTO
	BugGivesUpEarly
	BugRetriesForever
	BugSlowAck
	BugAcksThird
	BugReducesOnce
	BugSamplesRetransmissions
	baseBugs // how many there are; those of ECN follow
)

// BugInfo describes one fault of the catalogue.
type BugInfo = fault.Info[Bug]

var catalogue = fault.Catalogue[Bug](slices.Concat(baseCatalogue, ecnCatalogue, swiftCatalogue))

var baseCatalogue = []BugInfo{
	BugOverrunsWindow: {Name: "overruns-window", Rule: "tcp.congestion-window",
		What: "twice the congestion window is on its way"},
	BugIgnoresLoss: {Name: "ignores-loss", Rule: "tcp.congestion-window",
		What: "the window stays as it is when segments are lost"},
	BugResendsSACKed: {Name: "resends-sacked", Rule: "tcp.retransmit-spurious",
		What: "what was SACKed behind a gap is retransmitted, too"},
	BugHasty: {Name: "hasty", Rule: "tcp.retransmit-early",
		What: "one SACKed segment is enough to take all before it for lost"},
	BugEarlyTimeout: {Name: "early-timeout", Rule: "tcp.timeout-early",
		What: "the retransmission timer runs out after a quarter of its time"},
	BugNoBackoff:  {Name: "no-backoff", Rule: "tcp.backoff", What: "the retransmission timer never doubles"},
	BugNoTimeout:  {Name: "no-timeout", Rule: "tcp.timeout-missing", What: "the retransmission timer never runs out"},
	BugSkipsBytes: {Name: "skips-bytes", Rule: "tcp.seq-skip", What: "every 64th new segment begins a byte late"},
	BugIgnoresReceiver: {Name: "ignores-receiver", Rule: "tcp.receive-window",
		What: "the receiver's window is not looked at"},
	BugAcksBeyond: {Name: "acks-beyond", Rule: "tcp.ack-beyond",
		What: "what arrived behind a gap is acknowledged as if the gap were filled"},
	BugAcksBackwards: {Name: "acks-backwards", Rule: "tcp.ack-backwards",
		What: "every 32nd acknowledgement is that of a segment before"},
	BugFalseSACK: {Name: "false-sack", Rule: "tcp.sack-false",
		What: "a SACK block is a segment longer than what has arrived"},
	BugForgetsAck: {Name: "forgets-ack", Rule: "tcp.ack-missing", What: "a delayed acknowledgement is never sent"},

	BugOverrunsReceiver: {Name: "overruns-receiver", Rule: "tcp.receive-window",
		What: "one segment more is sent than the receiver has room for"},
	BugKeepsWindow: {Name: "keeps-window", Rule: "tcp.congestion-window",
		What: "a timeout leaves the window as it is"},
	BugNeverAvoids: {Name: "never-avoids", Rule: "tcp.congestion-window",
		What: "behind the threshold the window grows as before it"},
	BugResendsTwice: {Name: "resends-twice", Rule: "tcp.retransmit-early", What: "what is lost is retransmitted twice"},
	BugHurriedTimeout: {Name: "hurried-timeout", Rule: "tcp.timeout-early",
		What: "the retransmission timer runs for seven eighths of its minimum"},
	BugSamplesRetransmissions: {Name: "samples-retransmissions", Rule: "tcp.timeout-early",
		What: "the ACK of a retransmitted segment is a sample of the RTT"},
	BugWrapsBadly: {Name: "wraps-badly", Rule: "tcp.seq-skip",
		What: "sequence numbers are one too high once they have passed 2^32"},
	BugLateAck: {Name: "late-ack", Rule: "tcp.ack-missing",
		What: "a delayed acknowledgement is sent after 700 ms"},
	BugNoDuplicateAck: {Name: "no-duplicate-ack", Rule: "tcp.duplicate-ack-missing",
		What: "what arrives behind a gap is not acknowledged"},
	BugNoSACK: {Name: "no-sack", Rule: "tcp.sack-missing", What: "nothing is ever SACKed"},
	BugShrinksWindow: {Name: "shrinks-window", Rule: "tcp.window-shrinks",
		What: "every 16th acknowledgement leaves half of the receiver's window"},

	BugWrongSYNACK: {Name: "wrong-syn-ack", Rule: "tcp.handshake",
		What: "a SYN-ACK acknowledges the sequence number of the SYN, not the next one"},
	BugIgnoresSYN: {Name: "ignores-syn", Rule: "tcp.handshake", What: "a SYN is never answered"},
	BugHastyData: {Name: "hasty-data", Rule: "tcp.data-before-established",
		What: "data follows the SYN at once"},
	BugHastySYN: {Name: "hasty-syn", Rule: "tcp.syn-early",
		What: "a SYN is retransmitted after a quarter of its time"},
	BugForgetsSYN: {Name: "forgets-syn", Rule: "tcp.timeout-missing", What: "a SYN that is lost is not retransmitted"},
	BugKeepsInitialWindow: {Name: "keeps-initial-window", Rule: "tcp.initial-window",
		What: "a SYN that was retransmitted twice leaves the initial window as it is"},
	BugLargeInitialWindow: {Name: "large-initial-window", Rule: "tcp.initial-window",
		What: "the initial window is one segment larger"},

	BugTransmitsMore: {Name: "transmits-more", Rule: "tcp.limited-transmit",
		What: "with new-reno, each duplicate ACK lets three new segments go"},
	BugStallsPartialACK: {Name: "stalls-partial-ack", Rule: "tcp.partial-ack",
		What: "with new-reno, a partial ACK ends a recovery and nothing is retransmitted"},
	BugResendsWindow: {Name: "resends-window", Rule: "tcp.retransmit-early",
		What: "with new-reno, a partial ACK lets two segments be retransmitted"},
	BugFastRetransmits: {Name: "fast-retransmits", Rule: "tcp.fast-retransmit-off",
		What: "losses are detected before a timeout although fast-retransmit is off"},
	BugHastyFirst: {Name: "hasty-first", Rule: "tcp.timeout-early",
		What: "without an RTT sample the retransmission timer runs for half of the initial timeout"},
	BugIgnoresMaxRTO: {Name: "ignores-max-rto", Rule: "tcp.timeout-missing",
		What: "the retransmission timer doubles beyond its maximum"},
	BugGivesUpEarly: {Name: "gives-up-early", Rule: "tcp.timeout-missing",
		What: "a connection is given up one timeout before max-retries"},
	BugRetriesForever: {Name: "retries-forever", Rule: "tcp.retries", What: "a connection is never given up"},
	BugSlowAck: {Name: "slow-ack", Rule: "tcp.ack-delay",
		What: "a delayed acknowledgement is sent after three times its delay"},
	BugAcksThird: {Name: "acks-third", Rule: "tcp.ack-every",
		What: "one segment more than ack-every is acknowledged at once"},
	BugReducesOnce: {Name: "reduces-once", Rule: "tcp.congestion-window",
		What: "the window stays as it is when retransmissions are lost"},
}

// Catalogue returns every fault, in numerical order.
func Catalogue() []BugInfo { return catalogue.List() }

// ParseBugs returns the set of the named faults. The error for an unknown name lists the known ones.
func ParseBugs(names []string) (Bugs, error) { return catalogue.Parse(names) }

// SeedBugs adds faults to a host. Call it before the first packet.
func (h *Host) SeedBugs(b Bugs) { h.bugs = b }

// ignoresReceiver removes the receiver's limit (BugIgnoresReceiver).
func (h *Host) ignoresReceiver(s *sender) {
	if h.bugs.Has(BugIgnoresReceiver) {
		s.limit = Endless
	}
}

// damageAck applies the receiver's faults to an acknowledgement.
func (h *Host) damageAck(r *receiver, to *Header) {
	if h.bugs.Has(BugAcksBeyond) && len(r.beyond) > 0 {
		to.Ack, to.SACK = h.cfg.sequence(r.beyond[len(r.beyond)-1].end), Block{}
	}
	if h.bugs.Has(BugAcksBackwards) && r.have > uint64(h.cfg.MSS) {
		if h.spoilt++; h.spoilt%32 == 0 {
			to.Ack -= uint32(h.cfg.MSS)
		}
	}
	if h.bugs.Has(BugFalseSACK) && to.SACK != (Block{}) {
		to.SACK.End += uint32(h.cfg.MSS)
	}
	if h.bugs.Has(BugNoSACK) {
		to.SACK = Block{}
	}
	if h.bugs.Has(BugShrinksWindow) {
		if h.spoilt++; h.spoilt%16 == 0 {
			to.Window /= 2
		}
	}
}

// edge returns the end of the receiver's window.
func (s *sender) edge() uint64 {
	if s.bugs.Has(BugOverrunsReceiver) {
		return s.limit + uint64(s.mss)
	}
	return s.limit
}

// grow grows the window after an acknowledgement of n segments.
func (s *sender) grow(now clock.Time, n int) {
	if s.bugs.Has(BugNeverAvoids) {
		s.window.size += float64(n)
		return
	}
	s.window.grow(now, float64(n), s.srtt)
}

// spoilTimer applies faults to the retransmission timeout.
func (s *sender) spoilTimer(rto clock.Duration) clock.Duration {
	switch {
	case s.bugs.Has(BugHastyFirst) && s.srtt == 0:
		return rto / 2
	case s.bugs.Has(BugEarlyTimeout):
		return rto / 4
	case s.bugs.Has(BugHurriedTimeout):
		return rto / 8 * 7
	}
	return rto
}

// spoilSequence applies faults to a segment's sequence number. offset is that number before it wraps.
func (s *sender) spoilSequence(to *Header, offset uint64) {
	if s.bugs.Has(BugWrapsBadly) && offset>>32 > 0 {
		to.Seq++
	}
}

// lingers reports whether a retransmitted segment stays marked as lost (BugResendsTwice).
func (s *sender) lingers(g *segment) bool {
	linger := s.bugs.Has(BugResendsTwice) && !g.doubled
	g.doubled = true
	return linger
}

// delayedACK returns the delay of an acknowledgement.
func (h *Host) delayedACK() clock.Duration {
	if h.bugs.Has(BugLateAck) {
		return 700 * clock.Millisecond
	}
	if h.bugs.Has(BugSlowAck) {
		return 3 * h.cfg.DelayedACK
	}
	return h.cfg.DelayedACK
}

// ackEvery returns how many segments one acknowledgement may acknowledge.
func (h *Host) ackEvery() int {
	if h.bugs.Has(BugAcksThird) {
		return h.cfg.ackEvery() + 1
	}
	return h.cfg.ackEvery()
}
