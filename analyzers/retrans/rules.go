package retrans

import "candela.dev/candela/analyzers"

// Rule ids.
const (
	RuleTimeoutEarly = "retrans.timeout-early"
	RuleTimeoutLate  = "retrans.timeout-late"
	RuleTimerOff     = "retrans.timer-off"
	RuleRetryCount   = "retrans.retry-exceeded"
	RuleRNREarly     = "retrans.rnr-early"
	RuleRNRRetry     = "retrans.rnr-retry-exceeded"
	RuleAtomicReplay = "retrans.atomic-replay"
	RuleAckSilence   = "retrans.ack-silence"
	RuleNakSilence   = "retrans.nak-silence"
)

const timerClause = "IBTA volume 1, 9.7.6.1.3"

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	return []analyzers.Rule{
		{
			ID: RuleTimeoutEarly, Severity: analyzers.Violation, Clause: timerClause,
			Statement: "The requester retransmits for a timeout " +
				"no earlier than the local ACK timeout T after the last progress.",
		},
		{
			ID: RuleTimeoutLate, Severity: analyzers.Warning, Clause: timerClause,
			Statement: "The requester retransmits for a timeout no later than 4 T after the last progress.",
		},
		{
			ID: RuleTimerOff, Severity: analyzers.Violation, Clause: timerClause,
			Statement: "With a local ACK timeout of 0 the timer is off and nothing is retransmitted for a timeout.",
		},
		{
			ID: RuleRetryCount, Severity: analyzers.Violation, Clause: "IBTA volume 1, 9.9.2.1.1",
			Statement: "Without progress the requester repeats at most retry_cnt times, then the queue pair goes to error.",
		},
		{
			ID: RuleRNREarly, Severity: analyzers.Violation, Clause: "IBTA volume 1, 9.7.5.2.8",
			Statement: "After an RNR NAK the requester waits at least as long as its timer field says before it repeats the " +
				"request.",
		},
		{
			ID: RuleRNRRetry, Severity: analyzers.Violation, Clause: "IBTA volume 1, 9.9.2.1.1",
			Statement: "Without progress the requester repeats a request at most rnr_retry times after RNR NAKs, unless that " +
				"is 7.",
		},
		{
			ID: RuleAtomicReplay, Severity: analyzers.Violation, Clause: "IBTA volume 1, 9.4.5",
			Statement: "A repeated atomic is answered with the result of its first execution.",
		},
		{
			ID: RuleAckSilence, Severity: analyzers.Warning, Clause: "IBTA volume 1, 9.7.5.1",
			Statement: "A request that asks for an acknowledgement, a READ and an atomic are answered before the requester's " +
				"timer expires.",
		},
		{
			ID: RuleNakSilence, Severity: analyzers.Warning, Clause: "IBTA volume 1, 9.7.5.2",
			Statement: "A NAK makes the requester retransmit at once, not only when its timer expires.",
		},
	}
}
