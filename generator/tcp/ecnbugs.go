package tcp

// Faults of ECN, of the sender.
const (
	BugIgnoresECE Bug = iota + baseBugs
	BugReducesTwice
	BugReducesUnasked
	BugNeverCWR
	BugAlwaysCWR
	BugECTOnRetransmissions
	BugECTOnACKs
	BugFrozenAlpha
	BugZeroAlpha
	BugWrongGain
	// Faults of ECN, of the receiver.
	BugIgnoresCE
	BugKeepsECE
	BugAlwaysECE
	BugEchoesOnce
	BugMergesMarks
	// Faults of the negotiation.
	BugOffersNoECN
	BugAcceptsUnasked
	BugECTUnnegotiated
	BugECTOnSYN
	ecnBugs // where those of Swift begin
)

var ecnCatalogue = []BugInfo{
	{Name: "ignores-ece", Rule: "tcp.ecn-window", What: "the window stays as it is when marks are echoed"},
	{Name: "reduces-twice", Rule: "tcp.ecn-overreaction", What: "each echoed mark reduces the window, not one a window"},
	{Name: "reduces-unasked", Rule: "tcp.ecn-overreaction",
		What: "every 64th acknowledgement reduces the window as a mark does"},
	{Name: "never-cwr", Rule: "tcp.cwr-missing", What: "CWR is never sent"},
	{Name: "always-cwr", Rule: "tcp.cwr-unfounded", What: "every new segment carries CWR"},
	{Name: "ect-on-retransmissions", Rule: "tcp.ect", What: "retransmissions carry ECT"},
	{Name: "ect-on-acks", Rule: "tcp.ect", What: "packets without data carry ECT"},
	{Name: "frozen-alpha", Rule: "tcp.ecn-overreaction", What: "DCTCP's alpha stays 1: every mark halves the window"},
	{Name: "zero-alpha", Rule: "tcp.ecn-window", What: "DCTCP's alpha is always 0: no mark reduces the window"},
	{Name: "wrong-gain", Rule: "tcp.ecn-overreaction", What: "DCTCP's g is 1: alpha is the share of marks in one window"},
	{Name: "ignores-ce", Rule: "tcp.ece-missing", What: "CE is not echoed"},
	{Name: "keeps-ece", Rule: "tcp.ece-unfounded", What: "CWR does not end the echo"},
	{Name: "always-ece", Rule: "tcp.ece-unfounded", What: "every acknowledgement carries ECE"},
	{Name: "echoes-once", Rule: "tcp.ece-missing", What: "CE is echoed in one acknowledgement only"},
	{Name: "merges-marks", Rule: "tcp.ece-unfounded",
		What: "DCTCP's receiver acknowledges segments with and without CE together"},
	{Name: "offers-no-ecn", Rule: "tcp.ecn-negotiation", What: "with ECN, a SYN does not offer it"},
	{Name: "accepts-ecn-unasked", Rule: "tcp.ecn-negotiation",
		What: "a SYN-ACK accepts ECN although the SYN does not offer it"},
	{Name: "ect-unnegotiated", Rule: "tcp.ect", What: "a SYN-ACK refuses ECN, and new data carries ECT"},
	{Name: "ect-on-syn", Rule: "tcp.ect", What: "SYN and SYN-ACK carry ECT"},
}

// overreacts reports whether a fault reduces the window now.
func (h *Host) overreacts(s *sender) bool {
	if !h.bugs.Has(BugReducesUnasked) || s.phase != open {
		return false
	}
	h.spoilt++
	return h.spoilt%64 == 0
}

// gain returns DCTCP's g.
func (h *Host) gain() float64 {
	if h.bugs.Has(BugWrongGain) {
		return 1
	}
	return h.cfg.ECN.Gain
}

// freeze applies faults to DCTCP's α.
func (h *Host) freeze(s *sender) {
	switch {
	case h.bugs.Has(BugFrozenAlpha):
		s.alpha = 1
	case h.bugs.Has(BugZeroAlpha):
		s.alpha = 0
	}
}
