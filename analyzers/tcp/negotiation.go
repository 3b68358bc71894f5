package tcp

import (
	"fmt"

	"candela.dev/candela/packet"
)

// negotiation is what one end knows of the use of ECN (RFC 3168, 6.1.1).
type negotiation struct {
	offers    bool // a SYN of its own offers ECN: ECE and CWR
	offered   bool // a SYN of the peer that has arrived does
	unoffered bool // and one does not
	agreed    bool // it has accepted an offer with ECE alone in a SYN-ACK, or has been accepted
}

// hears takes a SYN or SYN-ACK that has arrived.
func (n *negotiation) hears(o *Observation) {
	offers := o.ECE && o.CWR
	switch {
	case o.HasACK:
		n.agreed = n.agreed || n.offers && o.ECE && !o.CWR
	case offers:
		n.offered = true
	default:
		n.unoffered = true
	}
}

// negotiates judges what a SYN or SYN-ACK that leaves a host says of ECN. A retransmitted SYN may do without.
func (a *Analyzer) negotiates(s *stream, o *Observation) {
	c, n := &a.cfg.ECN, &s.greeting.ecn
	offers, accepts := o.ECE && o.CWR, o.ECE && !o.CWR
	if o.ECN != packet.NotECT && !(c.On && c.Everything) {
		a.blame(causeECTSYN(a.tx(s)), s, o.Number, "Not-ECT on SYN and SYN-ACK",
			fmt.Sprintf("the sender sent a SYN with ECN codepoint %d", o.ECN))
	}
	switch {
	case o.HasACK && accepts && !n.offered:
		a.blame(causeAccepted(a.tx(s)), s, o.Number, "a SYN-ACK without ECE: no SYN offered ECN",
			"the SYN-ACK accepts ECN, and no SYN offered it")
	case o.HasACK && c.On && !accepts && n.offered && !n.unoffered:
		a.blame(causeRefused(a.tx(s)), s, o.Number, "a SYN-ACK with ECE alone",
			"the SYN-ACK refuses ECN, which its host uses")
	case !o.HasACK && !c.On && (o.ECE || o.CWR):
		a.blame(causeOffered(a.tx(s)), s, o.Number, "a SYN without ECE and CWR",
			"the SYN offers ECN, which its host does not use")
	case !o.HasACK && c.On && !offers && s.greeting.syns == 0:
		a.blame(causeNotOffered(a.tx(s)), s, o.Number, "a SYN with ECE and CWR", "the SYN does not offer ECN")
	}
	n.offers = n.offers || !o.HasACK && offers
	n.agreed = n.agreed || o.HasACK && accepts && n.offered
}
