package counters

import "candela.dev/candela/analyzers"

// Rule ids besides those of the counters.
const (
	ruleDiscards  = "counters.discards"
	ruleMissing   = "counters.missing"
	ruleWentBack  = "counters.went-back"
	ruleNotJudged = "counters.not-judged"
)

const clause = "Lumina (Yu, thesis, Johns Hopkins 2023), section 5.4, hardware network stack counter"

// statements are the rules of the counters.
var statements = [numCounters]string{
	TxPackets:        "The NIC counts every RoCE packet that it sends.",
	RxPackets:        "The NIC counts every RoCE packet that reaches it, those with a wrong iCRC included.",
	PacketSeqErr:     "The requester counts the sequence NAKs that restarted it.",
	OutOfSequence:    "The responder counts the gaps in the requests that it answered with a sequence NAK.",
	ImpliedNak:       "The requester counts the gaps that it sees in READ responses and atomic ACKs.",
	DuplicateRequest: "The responder counts the requests that it had received before.",
	LocalAckTimeout:  "The requester counts the expiries of its local ACK timer.",
	ICRC:             "The NIC counts the packets that reach it with a wrong iCRC.",
	CNPSent:          "The notification point counts the CNPs that it sends.",
	CNPHandled:       "The reaction point counts the CNPs that reach it.",
	CNPIgnored:       "The NIC counts the CNPs that reach it while its reaction point is off.",
	ECNMarked:        "The notification point counts the data packets that reach it with CE.",
	RNRReceived:      "The requester counts the RNR NAKs that reach it.",
	RNRSent:          "The responder counts the requests that found no receive buffer.",
}

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	var rules []analyzers.Rule
	for c := range TxDiscards {
		rules = append(rules, analyzers.Rule{
			ID: ruleIDs[c], Severity: analyzers.Violation, Clause: clause, Statement: statements[c],
		})
	}
	return append(rules,
		analyzers.Rule{
			ID: ruleDiscards, Severity: analyzers.Warning, Clause: clause,
			Statement: "No host discards packets during a test; otherwise its counters cannot be compared with the trace.",
		},
		analyzers.Rule{
			ID: ruleWentBack, Severity: analyzers.Warning, Clause: clause,
			Statement: "A counter does not decrease during a test.",
		},
		analyzers.Rule{
			ID: ruleMissing, Severity: analyzers.Note, Clause: clause,
			Statement: "The NIC offers every counter that its vendor documents.",
		},
		analyzers.Rule{
			ID: ruleNotJudged, Severity: analyzers.Note, Clause: clause,
			Statement: "The trace shows what the counters should be.",
		})
}
