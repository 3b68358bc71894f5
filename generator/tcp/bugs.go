package tcp

import "candela.dev/candela/generator/fault"

// Bug is a deliberate fault, so that the analyzer can prove that it catches it.
type Bug uint8

// Bugs is a set of faults. The zero value is a host without any.
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
)

// BugInfo describes one fault of the catalogue.
type BugInfo = fault.Info[Bug]

var catalogue = fault.Catalogue[Bug]{
	BugOverrunsWindow:  {Name: "overruns-window", Rule: "tcp.congestion-window", What: "twice the congestion window is on its way"},
	BugIgnoresLoss:     {Name: "ignores-loss", Rule: "tcp.congestion-window", What: "the window stays as it is when segments are lost"},
	BugResendsSACKed:   {Name: "resends-sacked", Rule: "tcp.retransmit-spurious", What: "what was SACKed behind a gap is sent again, too"},
	BugHasty:           {Name: "hasty", Rule: "tcp.retransmit-early", What: "one SACKed segment is enough to take all before it for lost"},
	BugEarlyTimeout:    {Name: "early-timeout", Rule: "tcp.timeout-early", What: "the retransmission timer runs out after a quarter of its time"},
	BugNoBackoff:       {Name: "no-backoff", Rule: "tcp.backoff", What: "the retransmission timer never doubles"},
	BugNoTimeout:       {Name: "no-timeout", Rule: "tcp.timeout-missing", What: "the retransmission timer never runs out"},
	BugSkipsBytes:      {Name: "skips-bytes", Rule: "tcp.seq-skip", What: "every 64th new segment begins a byte late"},
	BugIgnoresReceiver: {Name: "ignores-receiver", Rule: "tcp.receive-window", What: "the receiver's window is not looked at"},
	BugAcksBeyond:      {Name: "acks-beyond", Rule: "tcp.ack-beyond", What: "what arrived behind a gap is acknowledged as if the gap were filled"},
	BugAcksBackwards:   {Name: "acks-backwards", Rule: "tcp.ack-backwards", What: "every 32nd acknowledgement is that of a segment before"},
	BugFalseSACK:       {Name: "false-sack", Rule: "tcp.sack-false", What: "a SACK block is a segment longer than what has arrived"},
	BugForgetsAck:      {Name: "forgets-ack", Rule: "tcp.ack-missing", What: "a delayed acknowledgement is never sent"},
}

// Catalogue returns every fault, in the order of their numbers.
func Catalogue() []BugInfo { return catalogue.List() }

// ParseBugs returns the set of the named faults. The error of an unknown name lists those that exist.
func ParseBugs(names []string) (Bugs, error) { return catalogue.Parse(names) }

// SeedBugs gives a host faults, before any packet.
func (h *Host) SeedBugs(b Bugs) { h.bugs = b }

// ignoresReceiver opens the window that a receiver has left.
func (h *Host) ignoresReceiver(s *sender) {
	if h.bugs.Has(BugIgnoresReceiver) {
		s.limit = Endless
	}
}

// damageAck spoils an acknowledgement.
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
}
